"""Ends other than the one that was waited for: parents that fail or are removed, children that end before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.records import IfFailed, Kind, Lane, State, Verdict
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, ids, look, put, state, take_named, told, why
from .traits import Trait, cases

pytestmark = pytest.mark.needs(Facet.RELATIONS)

POLICIES = list(IfFailed)
MARKED_POLICIES = cases(IfFailed, dict.fromkeys([IfFailed.FAIL, IfFailed.RUN], Trait.DEPENDENCY_ENDS))
BAD_ENDS = cases([State.FAILED, State.CANCELLED], {State.CANCELLED: Trait.CANCELLED})


# -- parents that fail --


def end_badly(store: Store, worker: Worker, job_id: str, how: State) -> None:
    lease = take_named(worker, job_id)
    if how is State.CANCELLED:
        store.run(store.cancel([job_id]))
    worker.settle(lease, Kind.FAILED, error=b"E", group="g")
    assert state(store, job_id) is how


@pytest.mark.parametrize("how", BAD_ENDS)
@pytest.mark.parametrize("policy", MARKED_POLICIES)
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
        what = "failed: E" if how is State.FAILED else "was cancelled."
        assert why(store, "b") == (State.FAILED, "dependency", f"It comes after job a, which {what}")
        assert told(store, "b") == ["created", "failed"]


@pytest.mark.parametrize("how", BAD_ENDS)
@pytest.mark.parametrize("policy", MARKED_POLICIES)
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


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_cancelled_waiting_parent_means_the_same(store: Store) -> None:
    put(store, "a")
    for policy in POLICIES:
        put(store, policy.value, after=("a",), if_failed=policy)
    store.run(store.cancel(["a"]))
    assert [state(store, p.value) for p in POLICIES] == [State.BLOCKED, State.FAILED, State.READY]


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_parent_that_crashed_too_often_means_the_same(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", max_crashes=1)
    put(store, "b", after=("a",), if_failed=IfFailed.FAIL)
    worker.take_one()
    clock.advance(TIMEOUT)
    store.run(store.sweep())
    assert (state(store, "a"), state(store, "b")) == (State.FAILED, State.FAILED)


def test_one_that_waits_on_runs_when_the_parent_is_revived_and_done(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.WAIT)
    worker.run_one(Kind.FAILED)
    store.run(store.revive(["a"]))
    assert state(store, "b") is State.BLOCKED
    worker.run_one()
    assert state(store, "b") is State.READY


@pytest.mark.needs(Trait.DEPENDENCY_ENDS, witness=True)
def test_failing_goes_down_the_line(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.FAIL)
    put(store, "c", after=("b",), if_failed=IfFailed.FAIL)
    put(store, "d", after=("c",), if_failed=IfFailed.RUN)
    worker.run_one(Kind.FAILED)
    assert [state(store, i) for i in "abcd"] == [State.FAILED] * 3 + [State.READY]
    assert why(store, "c")[2] == "It comes after job a, which failed."


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


@pytest.mark.needs(Facet.RETENTION)
def test_a_failed_parent_that_is_purged_fails_those_who_wait(
    make_store: Callable[..., Store], clock: ManualClock
) -> None:
    store = make_store(clock, keep_failed=1_000)
    worker = Worker(store, clock)
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.WAIT)
    worker.run_one(Kind.FAILED)
    clock.advance(1_001)
    assert store.run(store.sweep()).jobs_purged == 1
    assert why(store, "b")[:2] == (State.FAILED, "dependency")


@pytest.mark.needs(Facet.UNIQUE)
def test_a_replaced_parent_is_a_removed_one(store: Store) -> None:
    put(store, "a", unique_key="k")
    put(store, "b", after=("a",), if_failed=IfFailed.RUN)
    put(store, "c", after=("a",))
    put(store, "z", unique_key="k", replace=True)
    assert [state(store, i) for i in "bc"] == [State.READY, State.FAILED]


def test_deleting_a_done_parent_strands_nobody(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a", "b"))
    a, b = worker.take(2)
    worker.settle(a)
    assert store.run(store.delete(["a"])) == [True]
    assert state(store, "c") is State.BLOCKED
    worker.settle(b)
    assert state(store, "c") is State.READY


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_new_job_with_the_id_of_a_deleted_parent_is_another_job(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.RUN)
    store.run(store.delete(["a"]))
    put(store, "a")
    assert state(store, "b") is State.READY


# -- children that end before their parents --


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_child_cancelled_meanwhile_stays_cancelled(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    store.run(store.cancel(["b"]))
    before = look(store, "b")
    worker.run_one()
    assert look(store, "b") == before


@pytest.mark.needs(Trait.DELAY_AFTER)
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
@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_revived_child_waits_no_more_for_those_that_ended(store: Store, worker: Worker, policy: IfFailed) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=policy)
    worker.run_one(Kind.FAILED)
    store.run(store.cancel(["b"]))
    assert store.run(store.revive(["b"])) == [True]
    assert state(store, "b") is State.READY


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_child_revived_after_its_parent_waits_for_it(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.FAIL)
    worker.run_one(Kind.FAILED)
    assert store.run(store.revive(["a", "b"])) == [True, True]
    assert (state(store, "b"), look(store, "b").error, look(store, "b").group) == (State.BLOCKED, None, None)
    worker.run_one()
    assert state(store, "b") is State.READY


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
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
@pytest.mark.needs(Trait.DELAY_AFTER)
def test_nothing_remains_of_jobs_that_are_gone(
    store: Store, leftovers: Callable[[Store], dict[str, int]], order: str, policy: IfFailed
) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=policy, delay=5)
    store.run(store.delete(list(order)))
    assert leftovers(store) == {}


# -- moving on after others --


@pytest.fixture
def moved(store: Store, worker: Worker) -> Callable[..., None]:
    def move(**fields: Any) -> None:
        put(store, "a")
        assert worker.settle(take_named(worker, "a"), Kind.MOVED, queue="next", began=1, **fields) is Verdict.OK

    return move


@pytest.mark.needs(Trait.CHILDREN)
@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED])
def test_a_moved_job_waits_for_others_to_end(
    store: Store, worker: Worker, clock: ManualClock, moved: Callable[..., None], kind: Kind
) -> None:
    put(store, "p", queue="parents")
    moved(after=("p", "gone"), delay=5, task="stage 2", body=b"new")
    job = look(store, "a")
    assert (job.state, job.queue, job.task, job.body) == (State.BLOCKED, "next", "stage 2", b"new")
    assert job.after == ("p", "gone")
    assert told(store, "a") == ["created", "started", "moved"]
    (parent,) = worker.take(1, 0, "parents")
    worker.settle(parent, kind)
    assert (look(store, "a").state, look(store, "a").due) == (State.SCHEDULED, clock.now() + 5)
    clock.advance(5)
    (lease,) = worker.take(1, 0, "next")
    assert (lease.extras.after, lease.extras.resumed) == (("p", "gone"), True)


@pytest.mark.needs(Trait.CHILDREN)
@pytest.mark.parametrize("fields", [{"delay": 5}, {"at": 1}])
def test_a_moved_job_whose_others_have_ended_is_in_line_at_once(
    store: Store, clock: ManualClock, moved: Callable[..., None], fields: dict[str, int]
) -> None:
    if "at" in fields:
        fields = {"at": clock.now() + fields["at"]}
    moved(after=("gone",), **fields)
    due = fields.get("at", clock.now() + fields.get("delay", 0))
    assert (look(store, "a").state, look(store, "a").due) == (State.SCHEDULED, due)


@pytest.mark.needs(Trait.CHILDREN)
def test_a_job_that_would_wait_for_itself_fails_where_it_is(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "c", queue="other", after=("a",))
    worker.settle(take_named(worker, "a"), Kind.MOVED, queue="next", after=("c",), task="stage 2", began=1)
    job = look(store, "a")
    assert (job.state, job.group, job.queue, job.task) == (State.FAILED, "dependency", "default", "task")


@pytest.mark.needs(Trait.CHILDREN)
def test_a_moved_job_of_a_lane_waits_outside_of_it(store: Store, worker: Worker) -> None:
    put(store, "a", "b", lane=Lane("k", 1))
    put(store, "p", queue="parents")
    worker.settle(take_named(worker, "a"), Kind.MOVED, queue="next", after=("p",), began=1)
    assert (state(store, "a"), state(store, "b")) == (State.BLOCKED, State.READY)
    (parent,) = worker.take(1, 0, "parents")
    worker.settle(parent)
    assert state(store, "a") is State.READY
