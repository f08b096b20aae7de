"""One job that comes after more others than one step links: by `depend`, by waiting for children, by coming back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.helpers import Worker, look, new, outcome, put, state, why
from headrace.errors import DependencyCycle
from headrace.records import IfFailed, Kind, Lease, State
from headrace.store.redis.layout import PARENTS_AT_ONCE
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from .servers import commands_inside_scripts, contents

MANY = 3 * PARENTS_AT_ONCE + 1
PARENTS = tuple(f"parent {i}" for i in range(MANY))
BOUND = 8 * PARENTS_AT_ONCE
"""More commands than that are not one step."""


def finish(store: RedisStore) -> int:
    """How many sweeps that took."""
    sweeps = 1
    while store.run(store.sweep()).more:
        sweeps += 1
    return sweeps


def leftovers(store: RedisStore) -> list[str]:
    """Keys that are there as long as a job waits, or is about to."""
    kinds = ("links:", "unmet:", "culprits:", "dependents:", "releasing", "followers:", "patient:")
    return [key for key in contents(store) if key.removeprefix(store.keys.prefix).startswith(kinds)]


def calls(program: str, store: RedisStore, act: Callable[[], object]) -> int:
    """How many commands its scripts run."""
    return sum(1 for _ in commands_inside_scripts(program, act, store))


def run_all(worker: Worker, leases: list[Lease]) -> None:
    worker.exchange([outcome(lease) for lease in leases])


@pytest.fixture
def worker(store: RedisStore, clock: ManualClock) -> Worker:
    put(store, *PARENTS)
    return Worker(store, clock)


def wait_for_children(store: RedisStore, worker: Worker) -> None:
    worker.exchange([outcome(taken(store, worker), Kind.WAITING, after=PARENTS)])


def taken(store: RedisStore, worker: Worker, job_id: str = "child") -> Lease:
    put(store, job_id, queue="first")
    (lease,) = worker.take(1, 0, "first")
    return lease


WAYS: dict[str, Callable[[RedisStore, Worker], object]] = {
    "depend": lambda store, worker: (put(store, "child"), store.run(store.depend("child", PARENTS))),
    "children": wait_for_children,
}


@pytest.mark.parametrize("way", WAYS)
def test_it_waits_until_it_is_linked_with_all_of_them(store: RedisStore, worker: Worker, way: str) -> None:
    WAYS[way](store, worker)
    child = look(store, "child")
    assert (child.state, child.after) == (State.BLOCKED, PARENTS)
    assert finish(store) >= 3
    assert worker.take(0) == []
    leases = worker.take(MANY)
    assert [lease.id for lease in leases] == list(PARENTS)
    run_all(worker, leases)
    assert finish(store) >= 1
    (lease,) = worker.take(5, 0, "default", "first")
    assert (lease.id, lease.extras.after, lease.extras.resumed) == ("child", PARENTS, way == "children")
    worker.settle(lease)
    assert not [key for key in leftovers(store) if "followers" not in key]


@pytest.mark.parametrize("way", WAYS)
def test_no_step_links_more_than_it_should(store: RedisStore, worker: Worker, program: str, way: str) -> None:
    put(store, "warm up", queue="other")
    lease = taken(store, worker) if way == "children" else None
    if lease is None:
        put(store, "child")

    def act() -> object:
        if lease is None:
            return store.run(store.depend("child", PARENTS))
        return worker.exchange([outcome(lease, Kind.WAITING, after=PARENTS)])

    found = [calls(program, store, act)]
    while f"{store.keys.prefix}links:child" in contents(store):
        found.append(calls(program, store, worker.exchange))
    assert len(found) == 5
    assert max(found) < BOUND


@pytest.mark.parametrize("way", WAYS)
def test_those_that_have_ended_meanwhile_are_not_waited_for(store: RedisStore, worker: Worker, way: str) -> None:
    WAYS[way](store, worker)
    while leases := worker.take(50, 0, "default", "first"):
        run_all(worker, leases)
        if "child" in (lease.id for lease in leases):
            break
    finish(store)
    assert state(store, "child") is State.DONE
    assert counted(store, State.DONE) == MANY + 1


def counted(store: RedisStore, wanted: State) -> int:
    return sum(entry.by_state.get(wanted, 0) for entry in store.run(store.counts()))


@pytest.mark.parametrize("policy", IfFailed)
def test_one_of_them_has_failed(store: RedisStore, worker: Worker, policy: IfFailed) -> None:
    put(store, "culprit", queue="bad")
    (lease,) = worker.take(1, 0, "bad")
    worker.settle(lease, Kind.FAILED, group="g")
    put(store, "child", if_failed=policy)
    assert store.run(store.depend("child", (*PARENTS, "culprit")))
    finish(store)
    run_all(worker, [lease for lease in worker.take(MANY + 1) if lease.id != "child"])
    finish(store)
    expected = {IfFailed.FAIL: State.FAILED, IfFailed.RUN: State.READY, IfFailed.WAIT: State.BLOCKED}[policy]
    assert state(store, "child") is expected


def test_many_are_taken_away_in_steps(store: RedisStore, worker: Worker, program: str) -> None:
    store.run(store.put([new("child", after=PARENTS)]))
    assert calls(program, store, lambda: store.run(store.depend("child", (), PARENTS[1:]))) < BOUND
    child = look(store, "child")
    assert (child.state, child.after) == (State.BLOCKED, PARENTS[:1])
    finish(store)
    worker.run_one()
    assert state(store, "child") is State.READY


def test_what_changes_while_it_is_linked_comes_behind(store: RedisStore, worker: Worker) -> None:
    put(store, "child", "another")
    store.run(store.depend("child", PARENTS))
    store.run(store.depend("child", ["another"], PARENTS[-5:]))
    assert look(store, "child").after == (*PARENTS[:-5], "another")
    finish(store)
    leases = worker.take(MANY + 1)
    assert "child" not in [lease.id for lease in leases]
    run_all(worker, [lease for lease in leases if lease.id not in PARENTS[-5:]])
    finish(store)
    assert state(store, "child") is State.READY


@pytest.mark.parametrize("way", WAYS)
def test_nothing_remains_of_one_that_is_deleted_while_it_is_linked(store: RedisStore, worker: Worker, way: str) -> None:
    WAYS[way](store, worker)
    store.run(store.delete(["child"]))
    put(store, "child", queue="again")
    finish(store)
    store.run(store.delete(["child", *PARENTS]))
    finish(store)
    assert leftovers(store) == []


# -- revivals --


@pytest.fixture
def ended(store: RedisStore, worker: Worker) -> Worker:
    """A cancelled job after many, of which every second is done."""
    store.run(store.put([new("child", after=PARENTS)]))
    store.run(store.cancel(["child"]))
    run_all(worker, worker.take(MANY)[::2])
    finish(store)
    return worker


def test_one_with_many_parents_is_revived_in_steps(store: RedisStore, ended: Worker, program: str) -> None:
    found = [calls(program, store, lambda: store.run(store.revive(["child"])))]
    while f"{store.keys.prefix}links:child" in contents(store):
        found.append(calls(program, store, lambda: store.run(store.sweep())))
    assert len(found) >= 4
    assert max(found) < BOUND
    child = look(store, "child")
    assert (child.state, child.after) == (State.BLOCKED, PARENTS)


def test_it_waits_for_those_that_have_not_ended(store: RedisStore, ended: Worker, clock: ManualClock) -> None:
    assert store.run(store.revive(["child"])) == [True]
    finish(store)
    clock.advance(ended.info.timeout)
    store.run(store.sweep())  # gives back what the worker still holds
    other = Worker(store, clock, "other")
    finish(store)
    leases = other.take(MANY)
    assert len(leases) == MANY // 2
    run_all(other, leases)
    finish(store)
    assert other.run_one().id == "child"


def test_a_step_revives_as_many_as_have_a_hundred_parents(store: RedisStore, worker: Worker, program: str) -> None:
    children = [f"child {i}" for i in range(5)]
    for child in children:
        put(store, child, after=PARENTS[:PARENTS_AT_ONCE])
    store.run(store.cancel(children))
    script = next(store.revive(children).begin())  # type: ignore[attr-defined]
    answers: list[list[int]] = []
    assert calls(program, store, lambda: answers.append(store.driver.run(script))) < 2 * BOUND
    assert answers == [[1, 1, -1, -1, -1]]
    assert store.run(store.revive(children)) == [False, False, True, True, True]


def test_one_with_many_parents_comes_back_with_its_culprit_in_steps(
    store: RedisStore, worker: Worker, program: str
) -> None:
    store.run(store.put([new("child", after=PARENTS)]))
    culprit, *others = worker.take(MANY)
    worker.settle(culprit, Kind.FAILED, group="g")
    assert state(store, "child") is State.FAILED
    run_all(worker, others)
    finish(store)
    assert calls(program, store, lambda: store.run(store.revive([culprit.id]))) < BOUND
    finish(store)
    assert state(store, "child") is State.BLOCKED
    followed = [key for key in contents(store) if ":followers:" in key]
    assert len(followed) == MANY, "it may ask for their results"
    worker.run_one()
    assert worker.run_one().id == "child"


# -- cycles --


def test_a_cycle_in_a_long_list_is_refused_and_nothing_changed(store: RedisStore, worker: Worker) -> None:
    put(store, "child")
    put(store, "behind", after=("child",))
    with pytest.raises(DependencyCycle, match="can't come after job behind"):
        store.run(store.depend("child", (*PARENTS, "behind")))
    assert look(store, "child").after == ()
    assert state(store, "child") is State.READY


def test_one_that_comes_to_wait_for_itself_while_it_is_linked_fails(store: RedisStore, worker: Worker) -> None:
    put(store, "child", "another")
    store.run(store.depend("child", (*PARENTS, "another")))
    assert store.run(store.depend("another", ["child"])), "it is not linked with that one yet"
    finish(store)
    assert why(store, "child")[:2] == (State.FAILED, "dependency")
    assert state(store, "another") is State.FAILED


def test_children_that_wait_for_it_make_it_fail(store: RedisStore, worker: Worker) -> None:
    lease = taken(store, worker)
    put(store, "behind", after=("child",))
    worker.exchange([outcome(lease, Kind.WAITING, after=(*PARENTS, "behind"))])
    finish(store)
    assert why(store, "child")[:2] == (State.FAILED, "dependency")


def test_a_search_that_is_too_deep_one_way_goes_the_other(store: RedisStore, worker: Worker, program: str) -> None:
    put(store, *(f"far {i}" for i in range(1_100)))
    store.run(store.put([new("top", after=tuple(f"far {i}" for i in range(1_100)))]))
    put(store, "child")
    put(store, "behind", after=("child",))
    assert calls(program, store, lambda: store.run(store.depend("child", ["top"]))) < 100
    with pytest.raises(DependencyCycle, match="can't come after"):
        store.run(store.depend("far 7", ["child"]))
    put(store, "below", after=("top",))
    with pytest.raises(DependencyCycle, match="can't come after"):
        store.run(store.depend("far 8", ["below"]))
