"""Jobs that wait for jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import DependencyCycle
from headrace.records import Filter, IfFailed, Kind, State, Verdict
from headrace.store.contract import Facet, Store
from headrace.store.limits import EDGES_IN_A_STEP
from headrace.values.clock import ManualClock
from volume import volume

from .helpers import Worker, exists, ids, look, new, outcome, put, state, take_named
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.RELATIONS)


# -- waiting --


def test_a_job_waits_until_the_one_before_it_is_done(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    assert state(store, "b") is State.BLOCKED
    a = worker.take(5)
    assert ids(a) == "a"
    turn = worker.exchange([], worker.asks(5))
    assert not turn.leases
    assert worker.settle(a[0]) is Verdict.OK
    assert state(store, "b") is State.READY
    assert ids(worker.take(5)) == "b"


def test_what_a_settle_releases_can_be_taken_in_the_same_exchange(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    lease = worker.take_one()
    done = [outcome(lease)]
    assert ids(worker.exchange(done, worker.asks(1)).leases) == "b"


def test_a_job_waits_for_all_of_them(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    put(store, "d", after=("a", "b", "c", "a"))
    for name in "abc":
        assert state(store, "d") is State.BLOCKED
        worker.settle(take_named(worker, name))
    assert state(store, "d") is State.READY


def test_what_the_store_does_not_know_counts_as_done(store: Store) -> None:
    put(store, "b", after=("gone",))
    job = look(store, "b")
    assert (job.state, job.after) == (State.READY, ("gone",))


def test_a_parent_that_is_done_does_not_block(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one()
    put(store, "b", after=("a",))
    assert state(store, "b") is State.READY


def test_a_lease_and_a_snapshot_tell_what_came_before(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    put(store, "c", after=("b", "a", "gone"))
    assert look(store, "c").after == ("b", "a", "gone")
    for lease in worker.take(5):
        worker.settle(lease)
    c = worker.take_one()
    assert (c.id, c.extras.after) == ("c", ("b", "a", "gone"))
    worker.settle(c)
    assert look(store, "c").after == ("b", "a", "gone")
    assert look(store, "a").after == ()


def test_a_chain_put_in_one_batch_runs_in_order(store: Store, worker: Worker) -> None:
    store.run(store.put([new("a"), new("b", after=("a",)), new("c", after=("a", "b"))]))
    assert "".join(worker.run_one().id for _ in range(3)) == "abc"


@pytest.mark.parametrize("parent", ["a", "b"])
def test_a_job_cannot_come_after_itself_or_a_later_one_of_its_batch(store: Store, parent: str) -> None:
    with pytest.raises(DependencyCycle):
        store.run(store.put([new("x"), new("a", after=(parent,)), new("b")]))
    assert not exists(store, "x")


def test_a_put_repeated_changes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    worker.run_one()
    put(store, "b", after=("a",))
    assert state(store, "b") is State.READY
    put(store, "c")
    put(store, "b", after=("c",))
    job = look(store, "b")
    assert (job.state, job.after) == (State.READY, ("a",))


def test_an_unknown_id_that_is_put_later_is_not_waited_for(store: Store) -> None:
    put(store, "b", after=("a",))
    put(store, "a")
    assert state(store, "b") is State.READY


@pytest.mark.needs(Trait.PUT_ORDER)
def test_a_diamond(store: Store, worker: Worker) -> None:
    store.run(
        store.put([new("a"), new("b", after=("a",)), new("c", after=("a",)), new("d", after=("b", "c"))]),
    )
    worker.run_one()
    assert ids(worker.take(5)) == "bc"
    assert state(store, "d") is State.BLOCKED


# -- when --


@pytest.mark.needs(Trait.DELAY_AFTER, witness=True)
def test_a_delay_counts_from_when_the_last_one_is_met(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",), delay=1_000)
    assert look(store, "b").due == clock.now() + 1_000
    clock.advance(5_000)
    worker.run_one()
    job = look(store, "b")
    assert (job.state, job.due) == (State.SCHEDULED, clock.now() + 1_000)
    clock.advance(1_000)
    assert ids(worker.take(1)) == "b"


@pytest.mark.needs(Trait.DUE)
def test_without_a_delay_it_is_due_when_it_is_released(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    clock.advance(5_000)
    put(store, "c")
    a = worker.take_one()
    clock.advance(5)
    worker.settle(a)
    assert look(store, "b").due == clock.now()
    assert ids(worker.take(5)) == "cb"


@pytest.mark.parametrize(
    ("moment", "expected"),
    [(10_000, State.SCHEDULED), pytest.param(1_000, State.READY, marks=pytest.mark.needs(Trait.PROMOTION))],
)
def test_a_moment_stays_as_it_is(
    store: Store, worker: Worker, clock: ManualClock, moment: int, expected: State
) -> None:
    put(store, "a")
    run_at = clock.now() + moment
    put(store, "b", after=("a",), run_at=run_at)
    clock.advance(5_000)
    worker.run_one()
    job = look(store, "b")
    assert (job.state, job.due) == (expected, run_at)


@pytest.mark.needs(Trait.DELAY_AFTER)
def test_a_delay_counts_from_the_put_if_nothing_is_waited_for(store: Store, clock: ManualClock) -> None:
    put(store, "b", after=("gone",), delay=1_000)
    job = look(store, "b")
    assert (job.state, job.due) == (State.SCHEDULED, clock.now() + 1_000)


@pytest.mark.needs(Trait.DELAY_AFTER)
def test_a_released_job_waits_only_once(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",), delay=1_000)
    worker.run_one()
    clock.advance(1_000)
    worker.run_one(Kind.AGAIN)
    assert state(store, "b") is State.READY


# -- what people do to those that wait --


@pytest.mark.needs(Trait.CANCELLED)
def test_a_blocked_job_is_counted_found_and_cancelled(store: Store) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.READY: 1, State.BLOCKED: 1}
    assert [job.id for job in store.run(store.find(Filter(states=(State.BLOCKED,)))).jobs] == ["b"]
    assert store.run(store.cancel(["b"])) == [True]
    assert state(store, "b") is State.CANCELLED


@pytest.mark.needs(Facet.UNIQUE)
def test_unique_jobs_may_wait(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), unique_key="k")
    assert put(store, "c", unique_key="k")[0].id == "b"
    put(store, "d", after=("a",), unique_key="k", replace=True)
    assert not exists(store, "b")
    worker.run_one()
    assert ids(worker.take(5)) == "d"


# -- many --


def test_many_dependents_are_released_in_bounded_steps(store: Store, worker: Worker, clock: ManualClock) -> None:
    children = volume(1_200)
    put(store, "parent", priority=1)
    for first in range(0, children, 1_000):  # as much as one step of every store may have
        put(store, *(f"c{i}" for i in range(first, min(first + 1_000, children))), after=("parent",))
    lease = worker.take_one()

    def blocked() -> int:
        return sum(entry.by_state.get(State.BLOCKED, 0) for entry in store.run(store.counts()))

    turn = worker.exchange([outcome(lease)])
    left = children
    while left > EDGES_IN_A_STEP:
        left -= EDGES_IN_A_STEP
        assert blocked() == left
        assert turn.next_due == clock.now(), "somebody should come again at once"
        turn = worker.exchange()
    assert blocked() == 0
    assert turn.next_due is None
    assert len(worker.take(children + 1)) == children


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_removed_parent_releases_in_bounded_steps_too(
    store: Store, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    put(store, "parent")
    names = [f"c{i}" for i in range(1_200)]
    put(store, *names, after=("parent",), if_failed=IfFailed.RUN)
    store.run(store.delete(["parent"]))
    put(store, "parent")

    def blocked() -> int:
        return sum(entry.by_state.get(State.BLOCKED, 0) for entry in store.run(store.counts()))

    left = 1_200 - EDGES_IN_A_STEP
    assert blocked() in (left, left - EDGES_IN_A_STEP)  # a put may go on with it, or not
    sweeps = 1
    while store.run(store.sweep()).more:
        sweeps += 1
    assert sweeps <= left // EDGES_IN_A_STEP
    assert blocked() == 0
    for start in range(0, 1_200, 100):
        store.run(store.delete(names[start : start + 100]))
    store.run(store.delete(["parent"]))
    assert leftovers(store) == {}


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_long_chain_that_fails_takes_many_steps(store: Store, worker: Worker) -> None:
    put(store, "j0")
    number = 4 * EDGES_IN_A_STEP
    batch = [new(f"j{i}", after=(f"j{i - 1}",), if_failed=IfFailed.FAIL) for i in range(1, number)]
    store.run(store.put(batch))
    worker.run_one(Kind.FAILED)
    for last in range(EDGES_IN_A_STEP, number, EDGES_IN_A_STEP):
        assert (state(store, f"j{last}"), state(store, f"j{last + 1}")) == (State.FAILED, State.BLOCKED)
        worker.exchange()
    assert state(store, f"j{number - 1}") is State.FAILED


def test_a_step_that_is_just_enough_is_the_last(store: Store, worker: Worker) -> None:
    put(store, "parent")
    put(store, *(f"c{i}" for i in range(EDGES_IN_A_STEP)), after=("parent",))
    assert worker.exchange([outcome(worker.take_one())]).next_due is None
    assert state(store, f"c{EDGES_IN_A_STEP - 1}") is State.READY
    assert not store.run(store.sweep()).more


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_job_says_what_a_bad_end_means_to_it(store: Store) -> None:
    put(store, "a", "b")
    for policy in IfFailed:
        put(store, policy.value, after=("a", "b"), if_failed=policy)
        assert (look(store, policy.value).if_failed, look(store, policy.value).after) == (policy, ("a", "b"))
