"""Dependencies that come after the put: `depend`, and jobs that wait for their children."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.errors import ConfigurationError, DependencyCycle
from headrace.records import Charge, IfFailed, Kind, Lane, State, Verdict
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, ids, look, new, put, state, take_named, told, why
from .traits import Trait, cases

pytestmark = pytest.mark.needs(Facet.RELATIONS)


def depend(store: Store, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> bool:
    return store.run(store.depend(job_id, add, remove))


# -- depend --


def test_depend_adds_and_removes(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a",))
    assert depend(store, "c", ["b"], ["a"])
    job = look(store, "c")
    assert (job.state, job.after) == (State.BLOCKED, ("b",))
    a, b = worker.take(5)
    worker.settle(a)
    assert state(store, "c") is State.BLOCKED
    worker.settle(b)
    assert state(store, "c") is State.READY


@pytest.mark.needs(Trait.PUT_ORDER)
def test_depend_blocks_a_job_that_waits_for_nothing(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", "c", delay=1_000)
    put(store, "d", priority=5)
    dues = [look(store, i).due for i in "bcd"]
    for name in "bcd":
        assert depend(store, name, ["a"])
    assert [state(store, i) for i in "bcd"] == [State.BLOCKED] * 3
    clock.advance(5_000)
    lease = worker.take_one()
    assert worker.take(5) == []
    worker.settle(lease)
    assert [look(store, i).due for i in "bcd"] == dues
    assert ids(worker.take(5)) == "dbc"


@pytest.mark.needs(Trait.DELAY_AFTER)
def test_removing_the_last_one_releases(store: Store, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",), delay=1_000)
    clock.advance(500)
    assert depend(store, "b", remove=["a", "nobody"])
    job = look(store, "b")
    assert (job.state, job.due, job.after) == (State.SCHEDULED, clock.now() + 1_000, ())


def test_depend_on_what_is_done_or_unknown_blocks_nothing(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one()
    put(store, "b")
    assert depend(store, "b", ["a", "gone"])
    job = look(store, "b")
    assert (job.state, job.after) == (State.READY, ("a", "gone"))


@pytest.mark.parametrize("policy", cases(IfFailed, dict.fromkeys([IfFailed.FAIL, IfFailed.RUN], Trait.DEPENDENCY_ENDS)))
def test_depend_on_what_has_failed(store: Store, worker: Worker, policy: IfFailed) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED)
    put(store, "b", if_failed=policy)
    assert depend(store, "b", ["a"])
    expected = {IfFailed.RUN: State.READY, IfFailed.WAIT: State.BLOCKED, IfFailed.FAIL: State.FAILED}
    assert state(store, "b") is expected[policy]


def test_depend_is_for_jobs_that_wait(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    running, done = worker.take(2)
    worker.settle(done)
    for name in ("a", "b", "nobody"):
        assert not depend(store, name, ["c"])
    assert look(store, running.id).after == ()


def test_depend_names_each_once(store: Store) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a",))
    assert depend(store, "c", ["a", "b", "b"])
    assert look(store, "c").after == ("a", "b")


def test_depend_refuses_a_cycle(store: Store) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    put(store, "c", after=("b",))
    for parent in "abc":
        with pytest.raises(DependencyCycle):
            depend(store, "a", ["x", parent])
    job = look(store, "a")
    assert (job.state, job.after) == (State.READY, ())


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_depend_refuses_a_cycle_that_a_revival_would_close(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    store.run(store.cancel(["b"]))
    with pytest.raises(DependencyCycle):
        depend(store, "a", ["b"])


def test_a_dependency_that_is_met_makes_no_cycle(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    worker.run_one()
    put(store, "c")
    assert depend(store, "b", ["c"])


def test_depend_refuses_what_is_too_deep_to_check(store: Store) -> None:
    parents = [f"p{i}" for i in range(101)]
    put(store, *parents)
    batch = [new(f"m{i}", after=tuple(parents)) for i in range(100)]
    store.run(store.put(batch))
    put(store, "top", after=tuple(job.id for job in batch))
    put(store, "x")
    put(store, *(f"behind {i}" for i in range(1_001)), after=("x",))  # a store may look for "top" among these
    with pytest.raises(DependencyCycle, match="too deep"):
        depend(store, "x", ["top"])
    assert state(store, "x") is State.READY
    assert depend(store, "x", ["m0"])


def test_depend_refuses_more_than_a_job_may_come_after(store: Store) -> None:
    put(store, "x", after=("gone",))
    with pytest.raises(ConfigurationError, match="comes after 10,001 jobs"):
        depend(store, "x", [f"p{i}" for i in range(10_000)])
    assert look(store, "x").after == ("gone",)


# -- waiting for children --


@pytest.mark.needs(Trait.CHILDREN, witness=True)
def test_a_job_waits_for_its_children(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "p")
    lease = worker.take_one()
    put(store, "a", "b")
    assert worker.settle(lease, Kind.WAITING, after=("a", "b"), data=b"D") is Verdict.OK
    job = look(store, "p")
    assert (job.state, job.after, job.data, job.attempts) == (State.BLOCKED, ("a", "b"), b"D", 0)
    a, b = worker.take(5)
    worker.settle(a, Kind.FAILED)
    assert state(store, "p") is State.BLOCKED
    clock.advance(7)
    worker.settle(b)
    job = look(store, "p")
    assert (job.state, job.due) == (State.READY, clock.now())
    again = worker.take_one()
    assert (again.id, again.extras.after, again.data, again.attempts) == ("p", ("a", "b"), b"D", 0)
    assert again.token > lease.token
    assert "waiting" in told(store, "p")


@pytest.mark.needs(Trait.CHILDREN)
@pytest.mark.parametrize("children", ["b", "gone"])
@pytest.mark.parametrize("when", [{"delay": 5_000}, {"at": 1_900_000_000_000}], ids=["delay", "at"])
def test_a_job_that_waited_for_children_is_due_when_they_have_ended_whatever_its_outcome_says(
    store: Store, worker: Worker, clock: ManualClock, when: dict[str, int], children: str
) -> None:
    put(store, "a")
    lease = worker.take_one()
    put(store, "b")
    worker.settle(lease, Kind.WAITING, after=(children,), **when)
    if children == "b":
        clock.advance(100)
        worker.run_one()
    assert (state(store, "a"), look(store, "a").due) == (State.READY, clock.now())


@pytest.mark.needs(Trait.CHILDREN)
def test_a_lease_says_whether_its_job_has_waited_for_children(store: Store, worker: Worker) -> None:
    put(store, "x")
    put(store, "p", after=("x",))
    assert not worker.run_one().extras.resumed
    lease = worker.take_one()
    assert (lease.extras.after, lease.extras.resumed) == (("x",), False)
    put(store, "a")
    worker.settle(lease, Kind.WAITING, after=("a",))
    worker.run_one()
    for kind in (Kind.AGAIN, Kind.RELEASED, Kind.FAILED):
        lease = worker.run_one(kind)
        assert (lease.extras.after, lease.extras.resumed) == (("a",), True)
    store.run(store.revive(["p"]))
    assert worker.take_one().extras.resumed


@pytest.mark.parametrize("end", ["cancel", "delete"])
@pytest.mark.needs(Trait.CHILDREN)
def test_children_may_end_however(store: Store, worker: Worker, end: str) -> None:
    put(store, "p", if_failed=IfFailed.FAIL)
    lease = worker.take_one()
    put(store, "a")
    worker.settle(lease, Kind.WAITING, after=("a",))
    store.run(getattr(store, end)(["a"]))
    assert state(store, "p") is State.READY


@pytest.mark.needs(Trait.CHILDREN)
def test_children_that_have_ended_are_not_waited_for(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "p")
    lease = worker.take_one()
    put(store, "a")
    worker.run_one(Kind.FAILED)
    clock.advance(5)
    worker.settle(lease, Kind.WAITING, after=("a", "gone"))
    job = look(store, "p")
    assert (job.state, job.due, job.after) == (State.READY, clock.now(), ("a", "gone"))


def test_waiting_is_charged_as_the_outcome_says(store: Store, worker: Worker) -> None:
    put(store, "p")
    lease = worker.take_one()
    put(store, "a")
    worker.settle(lease, Kind.WAITING, after=("a",), charge=Charge.ATTEMPT)
    assert look(store, "p").attempts == 1


@pytest.mark.parametrize("child", ["p", "a", "b"])
@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_job_that_would_wait_for_itself_fails(store: Store, worker: Worker, child: str) -> None:
    put(store, "p")
    put(store, "a", after=("p",))
    put(store, "b", after=("a",))
    put(store, "c")
    lease = take_named(worker, "p")
    assert worker.settle(lease, Kind.WAITING, after=("c", child)) is Verdict.OK
    assert why(store, "p")[:2] == (State.FAILED, "dependency")
    assert "waits for it" in why(store, "p")[2]
    assert [why(store, i)[2] for i in "ab"] == [f"It comes after job p, which failed: {why(store, 'p')[2]}"] * 2


@pytest.mark.needs(Trait.CHILDREN)
def test_a_cancelling_job_does_not_wait(store: Store, worker: Worker) -> None:
    put(store, "p")
    lease = worker.take_one()
    put(store, "a")
    store.run(store.cancel(["p"]))
    worker.settle(lease, Kind.WAITING, after=("a",))
    assert state(store, "p") is State.CANCELLED
    worker.run_one()
    assert state(store, "p") is State.CANCELLED


@pytest.mark.needs(Trait.CHILDREN)
def test_a_repeated_settle_waits_once(store: Store, worker: Worker) -> None:
    put(store, "p")
    lease = worker.take_one()
    put(store, "a")
    worker.settle(lease, Kind.WAITING, after=("a",))
    assert worker.settle(lease, Kind.WAITING, after=("a",)) is Verdict.ALREADY
    worker.run_one()
    assert state(store, "p") is State.READY


# -- neither in a sequence --


@pytest.mark.needs(Facet.LANES)
def test_a_sequence_has_no_other_order(store: Store, worker: Worker) -> None:
    lane = Lane("k", sequence=True)
    put(store, "a")
    with pytest.raises(ConfigurationError):
        store.run(store.put([new("x"), new("b", lane=lane, after=("a",))]))
    assert not exists(store, "x")
    worker.run_one()
    put(store, "c", lane=lane)
    with pytest.raises(ConfigurationError):
        depend(store, "c", ["a"])
    put(store, "d")
    lease = take_named(worker, "c")
    worker.settle(lease, Kind.WAITING, after=("d",))
    assert why(store, "c")[:2] == (State.FAILED, "dependency")


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_depend_releases_those_who_wait_for_a_job_that_fails_by_it(store: Store, worker: Worker) -> None:
    put(store, "culprit")
    worker.settle(worker.take_one(), Kind.FAILED, error=b"", group="g")
    put(store, "other")
    put(store, "a", after=("other",), if_failed=IfFailed.FAIL)
    put(store, "b", after=("a",), if_failed=IfFailed.RUN)
    put(store, "c", after=("a",), if_failed=IfFailed.FAIL)
    assert depend(store, "a", ["culprit"])
    assert [state(store, job) for job in "abc"] == [State.FAILED, State.READY, State.FAILED]
