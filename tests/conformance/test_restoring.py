"""Jobs of another store come in as they were there."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.records import Filter, IfFailed, Kind, Lane, State
from headrace.store.contract import Store
from headrace.store.facets import PARKED, Past
from headrace.store.stats import DAY
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, look, put, state, told


def past(job_id: str, **fields: Any) -> Past:
    return Past(**{"id": job_id, "created": 1_000, "due": 2_000, **fields})


def restore(store: Store, *pasts: Past) -> list[bool]:
    return store.run(store.restore(pasts))


def test_a_parked_job_is_not_handed_out(store: Store, worker: Worker) -> None:
    put(store, "a", run_at=PARKED)
    assert worker.take(9) == []
    assert state(store, "a") is State.SCHEDULED


def test_a_job_that_waits_goes_on_with_what_it_was_charged(store: Store, worker: Worker) -> None:
    put(store, "a", run_at=PARKED, priority=3, data=b"D")
    assert restore(store, past("a", attempts=2, crashes=1, started=1_500, error=b"E", group="G")) == [True]
    job = look(store, "a")
    assert (job.state, job.created, job.due, job.started, job.error, job.group) == (
        State.READY, 1_000, 2_000, 1_500, b"E", "G",
    )  # fmt: skip
    lease = worker.take_one()
    assert (lease.attempts, lease.crashes, lease.priority, lease.data, lease.created) == (2, 1, 3, b"D", 1_000)


def test_a_job_that_is_due_later_is_scheduled(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", run_at=PARKED)
    assert restore(store, past("a", due=clock.now() + 5_000)) == [True]
    assert (state(store, "a"), worker.take(9)) == (State.SCHEDULED, [])
    clock.advance(5_000)
    assert ids(worker.take(9)) == "a"


@pytest.mark.parametrize("size", [10, 5_000])
def test_a_done_job_has_its_result(store: Store, worker: Worker, size: int) -> None:
    put(store, "a", run_at=PARKED)
    ended = past("a", state=State.DONE, attempts=1, started=3_000, finished=4_000, result=b"r" * size, progress=(1, 2))
    assert restore(store, ended) == [True]
    job = look(store, "a")
    assert (job.state, job.result, job.started, job.finished, job.due) == (State.DONE, b"r" * size, 3_000, 4_000, 2_000)
    assert (job.attempts, job.progress, job.result_dropped) == (1, (1, 2), False)
    assert (worker.take(9), "edited" in told(store, "a")) == ([], True)


def test_a_dropped_result_stays_dropped(store: Store) -> None:
    put(store, "a", run_at=PARKED)
    restore(store, past("a", state=State.DONE, started=3_000, finished=4_000, result_dropped=True))
    assert (look(store, "a").result, look(store, "a").result_dropped) == (None, True)


def test_a_failed_job_is_in_its_group_and_can_be_revived(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", run_at=PARKED)
    finished = clock.now()
    assert restore(store, past("a", state=State.FAILED, attempts=3, finished=finished, error=b"E", group="G")) == [True]
    (found,) = store.run(store.find(Filter(states=(State.FAILED,), group="G"))).jobs
    assert (found.error, found.attempts, found.finished) == (b"E", 3, finished)
    assert store.run(store.failures()) == [("G", 1)]
    assert store.run(store.stats("default", finished // DAY)).failures == 1
    assert store.run(store.revive(["a"])) == [True]
    assert worker.take_one().attempts == 0


def test_the_end_of_a_restored_job_is_an_end_to_what_waits_for_it(store: Store, worker: Worker) -> None:
    put(store, "a", "b", run_at=PARKED)
    put(store, "c", after=("a",))
    put(store, "d", after=("b",), if_failed=IfFailed.FAIL)
    restore(
        store, past("a", state=State.DONE, started=8, finished=9), past("b", state=State.FAILED, finished=9, group="G")
    )
    assert (ids(worker.take(9)), state(store, "d")) == ("c", State.FAILED)


@pytest.mark.parametrize("parent_first", [True, False])
def test_a_job_that_failed_with_another_comes_back_with_it(store: Store, worker: Worker, parent_first: bool) -> None:
    culprit = past("a", state=State.FAILED, finished=7, error=b"E", group="G")
    followed = past("b", state=State.FAILED, finished=9, error=b"F", group="dependency")
    put(store, "a", run_at=PARKED)
    if parent_first:
        assert restore(store, culprit) == [True]
    put(store, "b", run_at=PARKED, after=("a",), lane=Lane("k", limit=1))
    if not parent_first:
        assert restore(store, culprit, followed) == [True, True]
    else:
        assert (state(store, "b"), restore(store, followed)) == (State.FAILED, [True])
    assert restore(store, followed) == [False]
    job = look(store, "b")
    assert (job.state, job.created, job.finished, job.due, job.error) == (State.FAILED, 1_000, 9, 2_000, b"F")
    assert store.run(store.revive(["a"])) == [True]
    assert (state(store, "b"), look(store, "b").due) == (State.BLOCKED, 2_000)
    put(store, "c", lane=Lane("k", limit=1))
    (first, other) = worker.take(9)
    assert {first.id, other.id} == {"a", "c"}
    worker.settle(next(lease for lease in (first, other) if lease.id == "a"))
    assert worker.take(9) == [], "its lane has room for one"
    worker.settle(next(lease for lease in (first, other) if lease.id == "c"))
    assert ids(worker.take(9)) == "b"


def test_a_restored_job_waits_for_what_it_came_after(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", after=("a",), run_at=PARKED)
    assert restore(store, past("b", attempts=1)) == [True]
    (first,) = worker.take(9)
    assert (first.id, state(store, "b")) == ("a", State.BLOCKED)
    worker.settle(first)
    assert (worker.take_one().id, look(store, "b").due) == ("b", 2_000)


def test_a_lane_goes_on(store: Store, worker: Worker) -> None:
    lane = Lane("k", limit=1)
    put(store, "a", "b", run_at=PARKED, lane=lane)
    assert restore(store, past("a", attempts=1), past("b", state=State.CANCELLED, finished=9)) == [True, True]
    put(store, "c", lane=lane)
    (first,) = worker.take(9)
    assert first.id == "a"
    worker.settle(first)
    assert ids(worker.take(9)) == "c"


def test_only_parked_jobs_are_restored_and_only_once(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", run_at=PARKED)
    put(store, "b")
    put(store, "c", run_at=clock.now() + 5_000)
    assert restore(store, past("a", attempts=1), past("b"), past("c"), past("nobody")) == [True, False, False, False]
    lease = next(lease for lease in worker.take(9) if lease.id == "a")
    assert restore(store, past("a", attempts=7)) == [False]
    worker.settle(lease, Kind.RELEASED)
    assert restore(store, past("a", attempts=7)) == [False]
    assert look(store, "a").attempts == 1


def test_many_at_once(store: Store) -> None:
    names = [f"job {number}" for number in range(260)]
    put(store, *names, run_at=PARKED)
    assert restore(store, *(past(name, state=State.DONE, started=8, finished=9) for name in names)) == [True] * 260
    (counts,) = store.run(store.counts())
    assert counts.by_state[State.DONE] == 260
