"""Retention: what a sweep purges, what it leaves alone, and that nothing remains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import SessionGone
from headrace.records import Filter, Kind, Put
from headrace.store.contract import Facet, Store, Swept
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, exists, look, new, put, saying

pytestmark = pytest.mark.needs(Facet.RETENTION)

KEEP_DONE, KEEP_FAILED = 60_000, 120_000
LARGE = b"x" * 100_000


@pytest.fixture
def store(make_store: Callable[..., Store], clock: ManualClock) -> Store:
    return make_store(clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)


def end(store: Store, worker: Worker, job_id: str, how: str) -> None:
    put(store, job_id)
    if how == "cancelled":
        store.run(store.cancel([job_id]))
    else:
        worker.run_one(Kind.DONE if how == "done" else Kind.FAILED)


def sweep(store: Store) -> Swept:
    """Until there is no more to do; the numbers add up."""
    closed = returned = purged = 0
    while True:
        swept = store.run(store.sweep())
        closed, returned = closed + swept.sessions_closed, returned + swept.jobs_returned
        purged += swept.jobs_purged
        if not swept.more:
            return Swept(closed, returned, purged)


@pytest.mark.parametrize(("how", "keep"), [("done", KEEP_DONE), ("failed", KEEP_FAILED), ("cancelled", KEEP_FAILED)])
def test_an_ended_job_is_kept_for_its_time_and_then_purged(
    store: Store, worker: Worker, clock: ManualClock, how: str, keep: int
) -> None:
    end(store, worker, "a", how)
    clock.advance(keep - 1)
    assert sweep(store).jobs_purged == 0
    assert exists(store, "a")
    clock.advance(2)
    assert sweep(store).jobs_purged == 1
    assert not exists(store, "a")
    assert store.run(store.history("a")) == []
    assert (store.run(store.find(Filter())).jobs, store.run(store.counts())) == ([], [])


def test_the_time_is_counted_from_the_end_of_the_job(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(10 * KEEP_FAILED)
    lease = worker.take_one()
    worker.settle(lease)
    clock.advance(KEEP_DONE - 1)
    assert sweep(store).jobs_purged == 0
    assert exists(store, "a")


def test_jobs_that_are_not_ended_are_never_purged(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "running", "ready")
    put(store, "scheduled", delay=1_000 * KEEP_FAILED)
    worker.take_one()
    for _ in range(100):
        clock.advance(TIMEOUT - 1)
        worker.renew()
    clock.jump(100 * KEEP_FAILED)
    assert sweep(store) == Swept()
    assert all(exists(store, job_id) for job_id in ("running", "ready", "scheduled"))


def test_a_revived_job_is_not_purged(store: Store, worker: Worker, clock: ManualClock) -> None:
    end(store, worker, "a", "failed")
    clock.advance(KEEP_FAILED - 1)
    store.run(store.revive(["a"]))
    clock.advance(KEEP_FAILED)
    assert sweep(store).jobs_purged == 0
    assert exists(store, "a")


def test_many_are_purged_in_bounded_steps(store: Store, worker: Worker, clock: ManualClock) -> None:
    count = 1_500
    jobs = [new(f"job {i}") for i in range(count)]
    store.run(store.put(jobs))
    store.run(store.cancel([job.id for job in jobs]))
    put(store, "alive")
    clock.advance(KEEP_FAILED + 1)
    assert sweep(store).jobs_purged == count
    assert [job.id for job in store.run(store.find(Filter())).jobs] == ["alive"]


def test_a_purged_unique_job_frees_its_key(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", unique_key="k")
    worker.run_one()
    clock.advance(KEEP_DONE + 1)
    sweep(store)
    assert put(store, "b", unique_key="k") == [Put("b", True)]


def test_a_job_still_says_who_ran_it_when_that_worker_is_long_gone(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", delay=3 * 86_400_000)
    put(store, "b")
    worker.run_one(Kind.AGAIN, delay=4 * 86_400_000)
    worker.close()
    clock.advance(2 * 86_400_000)
    sweep(store)
    assert look(store, "b").worker == "w"


def test_a_session_closed_long_ago_is_still_gone(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.close()
    clock.advance(2 * 86_400_000)
    sweep(store)
    with pytest.raises(SessionGone):
        worker.settle(lease)


@pytest.mark.parametrize("ending", ["purged", "deleted"])
@pytest.mark.parametrize("result", [b"small", LARGE], ids=["small result", "large result"])
def test_nothing_remains_of_a_job_however_much_there_was(
    store: Store,
    worker: Worker,
    clock: ManualClock,
    leftovers: Callable[[Store], dict[str, int]],
    ending: str,
    result: bytes,
) -> None:
    put(store, "a", body=LARGE, unique_key="k", unique_for=1)
    lease = worker.take_one()
    worker.report(saying(lease, log=[(0, "line")], progress=(1.0, 2.0), data=LARGE))
    worker.settle(lease, Kind.MOVED, queue="next", body=LARGE, began=0)
    (lease,) = worker.take(1, 0, "next")
    worker.settle(lease, Kind.MOVED, queue="next", body=b"small", began=0)
    (lease,) = worker.take(1, 0, "next")
    worker.settle(lease, Kind.AGAIN, began=0)
    (lease,) = worker.take(1, 0, "next")
    assert lease.body == b"small"
    worker.settle(lease, result=result, began=0)
    worker.close()
    if ending == "purged":
        clock.advance(KEEP_DONE + 1)
        assert sweep(store).jobs_purged == 1
    else:
        store.run(store.delete(["a"]))
    assert not exists(store, "a")
    assert leftovers(store) == {}
