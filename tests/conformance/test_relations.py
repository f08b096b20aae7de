"""Jobs that wait for jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from headrace.clock import ManualClock
from headrace.codec import decode_error
from headrace.errors import ConfigurationError, DependencyCycle
from headrace.job import Charge, Filter, IfFailed, Kind, Lane, Lease, State, Verdict
from headrace.store.contract import Facet, Store
from volume import volume

from .helpers import TIMEOUT, Worker, exists, ids, look, new, outcome, put, state, told

pytestmark = pytest.mark.needs(Facet.RELATIONS)

POLICIES = list(IfFailed)


def depend(store: Store, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> bool:
    return store.run(store.depend(job_id, add, remove))


def why(store: Store, job_id: str) -> tuple[State, str | None, str]:
    job = look(store, job_id)
    return job.state, job.group, decode_error(job.error).message


def take_named(worker: Worker, job_id: str) -> Lease:
    """The job that is next in line, which is this one."""
    lease = worker.take_one()
    assert lease.id == job_id
    return lease


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
    assert (c.id, c.after) == ("c", ("b", "a", "gone"))
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


def test_a_diamond(store: Store, worker: Worker) -> None:
    store.run(
        store.put([new("a"), new("b", after=("a",)), new("c", after=("a",)), new("d", after=("b", "c"))]),
    )
    worker.run_one()
    assert ids(worker.take(5)) == "bc"
    assert state(store, "d") is State.BLOCKED


# -- when --


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


@pytest.mark.parametrize(("moment", "expected"), [(10_000, State.SCHEDULED), (1_000, State.READY)])
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


def test_a_delay_counts_from_the_put_if_nothing_is_waited_for(store: Store, clock: ManualClock) -> None:
    put(store, "b", after=("gone",), delay=1_000)
    job = look(store, "b")
    assert (job.state, job.due) == (State.SCHEDULED, clock.now() + 1_000)


def test_a_released_job_waits_only_once(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",), delay=1_000)
    worker.run_one()
    clock.advance(1_000)
    worker.run_one(Kind.AGAIN)
    assert state(store, "b") is State.READY


# -- parents that fail --


def end_badly(store: Store, worker: Worker, job_id: str, how: State) -> None:
    lease = take_named(worker, job_id)
    if how is State.CANCELLED:
        store.run(store.cancel([job_id]))
    worker.settle(lease, Kind.FAILED, error=b"E", group="g")
    assert state(store, job_id) is how


@pytest.mark.parametrize("how", [State.FAILED, State.CANCELLED])
@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_parents_bad_end_means_is_up_to_the_child(
    store: Store, worker: Worker, policy: IfFailed, how: State
) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=policy)
    end_badly(store, worker, "a", how)
    if policy is IfFailed.RUN:
        assert state(store, "b") is State.READY
    elif policy is IfFailed.WAIT:
        assert state(store, "b") is State.BLOCKED
    else:
        what = "failed" if how is State.FAILED else "was cancelled"
        assert why(store, "b") == (State.FAILED, "dependency", f"It comes after job a, which {what}.")
        assert told(store, "b") == ["created", "failed"]


@pytest.mark.parametrize("how", [State.FAILED, State.CANCELLED])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_parent_that_has_ended_badly_before_the_put_means_the_same(
    store: Store, worker: Worker, policy: IfFailed, how: State
) -> None:
    put(store, "a")
    end_badly(store, worker, "a", how)
    put(store, "b", after=("a",), if_failed=policy)
    expected = {IfFailed.RUN: State.READY, IfFailed.WAIT: State.BLOCKED, IfFailed.FAIL: State.FAILED}
    assert state(store, "b") is expected[policy]
    if policy is IfFailed.FAIL:
        assert look(store, "b").group == "dependency"


def test_a_cancelled_waiting_parent_means_the_same(store: Store) -> None:
    put(store, "a")
    for policy in POLICIES:
        put(store, policy.value, after=("a",), if_failed=policy)
    store.run(store.cancel(["a"]))
    assert [state(store, p.value) for p in POLICIES] == [State.BLOCKED, State.FAILED, State.READY]


def test_a_parent_that_crashed_too_often_means_the_same(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", max_crashes=1)
    put(store, "b", after=("a",), if_failed=IfFailed.FAIL)
    worker.take_one()
    clock.advance(TIMEOUT)
    store.run(store.sweep())
    assert (state(store, "a"), state(store, "b")) == (State.FAILED, State.FAILED)


def test_one_that_waits_on_runs_when_the_parent_is_revived_and_done(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    worker.run_one(Kind.FAILED)
    store.run(store.revive(["a"]))
    assert state(store, "b") is State.BLOCKED
    worker.run_one()
    assert state(store, "b") is State.READY


def test_failing_goes_down_the_line(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.FAIL)
    put(store, "c", after=("b",), if_failed=IfFailed.FAIL)
    put(store, "d", after=("c",), if_failed=IfFailed.RUN)
    worker.run_one(Kind.FAILED)
    assert [state(store, i) for i in "abcd"] == [State.FAILED] * 3 + [State.READY]
    assert why(store, "c")[2] == "It comes after job b, which failed."


# -- parents that are removed --


@pytest.mark.parametrize("policy", POLICIES)
def test_a_parent_that_is_deleted_before_it_is_done(store: Store, policy: IfFailed) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=policy)
    store.run(store.delete(["a"]))
    if policy is IfFailed.RUN:
        assert state(store, "b") is State.READY
    else:
        words = "It comes after job a, which was removed before it was done."
        assert why(store, "b") == (State.FAILED, "dependency", words)


def test_a_failed_parent_that_is_purged_fails_those_who_wait(
    make_store: Callable[..., Store], clock: ManualClock
) -> None:
    store = make_store(clock, keep_failed=1_000)
    worker = Worker(store, clock)
    put(store, "a")
    put(store, "b", after=("a",))
    worker.run_one(Kind.FAILED)
    clock.advance(1_001)
    assert store.run(store.sweep()).jobs_purged == 1
    assert why(store, "b")[:2] == (State.FAILED, "dependency")


def test_a_replaced_parent_is_a_removed_one(store: Store) -> None:
    put(store, "a", unique_key="k")
    put(store, "b", after=("a",), if_failed=IfFailed.RUN)
    put(store, "c", after=("a",))
    put(store, "z", unique_key="k", replace=True)
    assert [state(store, i) for i in "bc"] == [State.READY, State.FAILED]


def test_purging_a_done_parent_strands_nobody(make_store: Callable[..., Store], clock: ManualClock) -> None:
    store = make_store(clock, keep_done=1_000)
    worker = Worker(store, clock)
    put(store, "a", "b")
    put(store, "c", after=("a", "b"))
    a, b = worker.take(2)
    worker.settle(a)
    clock.advance(1_001)
    store.run(store.sweep())
    assert not exists(store, "a")
    worker.renew(b)
    assert state(store, "c") is State.BLOCKED
    worker.settle(b)
    assert state(store, "c") is State.READY


def test_a_new_job_with_the_id_of_a_deleted_parent_is_another_job(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.RUN)
    store.run(store.delete(["a"]))
    put(store, "a")
    assert state(store, "b") is State.READY


# -- children that end before their parents --


def test_a_child_cancelled_meanwhile_stays_cancelled(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    store.run(store.cancel(["b"]))
    before = look(store, "b")
    worker.run_one()
    assert look(store, "b") == before


def test_a_revived_child_waits_for_those_that_are_unfinished(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a", "b"), delay=1_000)
    store.run(store.cancel(["c"]))
    worker.run_one()
    assert store.run(store.revive(["c"])) == [True]
    assert (state(store, "c"), look(store, "c").after) == (State.BLOCKED, ("a", "b"))
    worker.run_one()
    assert state(store, "c") is State.READY


@pytest.mark.parametrize("policy", [IfFailed.WAIT, IfFailed.FAIL])
def test_a_revived_child_waits_no_more_for_those_that_ended(store: Store, worker: Worker, policy: IfFailed) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=policy)
    worker.run_one(Kind.FAILED)
    store.run(store.cancel(["b"]))
    assert store.run(store.revive(["b"])) == [True]
    assert state(store, "b") is State.READY


def test_a_child_revived_after_its_parent_waits_for_it(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.FAIL)
    worker.run_one(Kind.FAILED)
    assert store.run(store.revive(["a", "b"])) == [True, True]
    assert (state(store, "b"), look(store, "b").error, look(store, "b").group) == (State.BLOCKED, None, None)
    worker.run_one()
    assert state(store, "b") is State.READY


def test_a_deleted_child_is_no_longer_waited_with(
    store: Store, worker: Worker, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    store.run(store.delete(["b"]))
    put(store, "b")
    worker.run_one()
    assert ids(worker.take(5)) == "b"
    store.run(store.delete(["a", "b"]))
    assert leftovers(store) == {}


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_remains_of_jobs_that_are_gone(
    store: Store, leftovers: Callable[[Store], dict[str, int]], order: str, policy: IfFailed
) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=policy, delay=5)
    store.run(store.delete(list(order)))
    assert leftovers(store) == {}


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


@pytest.mark.parametrize("policy", POLICIES)
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
    with pytest.raises(DependencyCycle, match="too deep"):
        depend(store, "x", ["top"])
    assert state(store, "x") is State.READY
    assert depend(store, "x", ["m0"])


# -- waiting for children --


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
    assert (again.id, again.after, again.data, again.attempts) == ("p", ("a", "b"), b"D", 0)
    assert again.token > lease.token
    assert "waiting" in told(store, "p")


@pytest.mark.parametrize("end", ["cancel", "delete"])
def test_children_may_end_however(store: Store, worker: Worker, end: str) -> None:
    put(store, "p", if_failed=IfFailed.FAIL)
    lease = worker.take_one()
    put(store, "a")
    worker.settle(lease, Kind.WAITING, after=("a",))
    store.run(getattr(store, end)(["a"]))
    assert state(store, "p") is State.READY


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
def test_a_job_that_would_wait_for_itself_fails(store: Store, worker: Worker, child: str) -> None:
    put(store, "p")
    put(store, "a", after=("p",))
    put(store, "b", after=("a",))
    put(store, "c")
    lease = take_named(worker, "p")
    assert worker.settle(lease, Kind.WAITING, after=("c", child)) is Verdict.OK
    assert why(store, "p")[:2] == (State.FAILED, "dependency")
    assert "waits for it" in why(store, "p")[2]
    assert state(store, "a") is State.BLOCKED


def test_a_cancelling_job_does_not_wait(store: Store, worker: Worker) -> None:
    put(store, "p")
    lease = worker.take_one()
    put(store, "a")
    store.run(store.cancel(["p"]))
    worker.settle(lease, Kind.WAITING, after=("a",))
    assert state(store, "p") is State.CANCELLED
    worker.run_one()
    assert state(store, "p") is State.CANCELLED


def test_a_repeated_settle_waits_once(store: Store, worker: Worker) -> None:
    put(store, "p")
    lease = worker.take_one()
    put(store, "a")
    worker.settle(lease, Kind.WAITING, after=("a",))
    assert worker.settle(lease, Kind.WAITING, after=("a",)) is Verdict.ALREADY
    worker.run_one()
    assert state(store, "p") is State.READY


# -- what people do to those that wait --


def test_a_blocked_job_is_counted_found_and_cancelled(store: Store) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.READY: 1, State.BLOCKED: 1}
    assert [job.id for job in store.run(store.find(Filter(states=(State.BLOCKED,)))).jobs] == ["b"]
    assert store.run(store.cancel(["b"])) == [True]
    assert state(store, "b") is State.CANCELLED


def test_unique_jobs_may_wait(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), unique_key="k")
    assert put(store, "c", unique_key="k")[0].id == "b"
    put(store, "d", after=("a",), unique_key="k", replace=True)
    assert not exists(store, "b")
    worker.run_one()
    assert ids(worker.take(5)) == "d"


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


# -- many --


def test_many_dependents_are_released_in_bounded_steps(store: Store, worker: Worker, clock: ManualClock) -> None:
    children = volume(1_200)
    put(store, "parent", priority=1)
    put(store, *(f"c{i}" for i in range(children)), after=("parent",))
    lease = worker.take_one()

    def blocked() -> int:
        return sum(entry.by_state.get(State.BLOCKED, 0) for entry in store.run(store.counts()))

    turn = worker.exchange([outcome(lease)])
    left = children
    while left > 500:
        left -= 500
        assert blocked() == left
        assert turn.next_due == clock.now(), "somebody should come again at once"
        turn = worker.exchange()
    assert blocked() == 0
    assert turn.next_due is None
    assert len(worker.take(children + 1)) == children


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

    assert blocked() in (200, 700)  # a put may go on with it, or not
    sweeps = 1
    while store.run(store.sweep()).more:
        sweeps += 1
    assert sweeps <= 2
    assert blocked() == 0
    for start in range(0, 1_200, 100):
        store.run(store.delete(names[start : start + 100]))
    store.run(store.delete(["parent"]))
    assert leftovers(store) == {}


def test_a_long_chain_that_fails_takes_many_steps(store: Store, worker: Worker) -> None:
    put(store, "j0")
    batch = [new(f"j{i}", after=(f"j{i - 1}",), if_failed=IfFailed.FAIL) for i in range(1, 700)]
    store.run(store.put(batch))
    worker.run_one(Kind.FAILED)
    assert (state(store, "j500"), state(store, "j501")) == (State.FAILED, State.BLOCKED)
    worker.exchange()
    assert state(store, "j699") is State.FAILED


def test_a_step_that_is_just_enough_is_the_last(store: Store, worker: Worker) -> None:
    put(store, "parent")
    put(store, *(f"c{i}" for i in range(500)), after=("parent",))
    assert worker.exchange([outcome(worker.take_one())]).next_due is None
    assert state(store, "c499") is State.READY
    assert not store.run(store.sweep()).more
