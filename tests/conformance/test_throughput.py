"""In and out rates: how many jobs of each queue came in and ended lately."""

from __future__ import annotations

import pytest

from headrace.records import Kind
from headrace.store import limits
from headrace.store.contract import Facet, Store
from headrace.store.throughput import HOUR, MINUTE, Moved, Throughput
from headrace.values.clock import ManualClock

from .helpers import Worker, new, put

pytestmark = pytest.mark.needs(Facet.THROUGHPUT)


def throughput(store: Store) -> Throughput:
    return store.run(store.throughput())


def test_nothing_came_and_nothing_ended(store: Store, clock: ManualClock) -> None:
    nothing = Moved({}, clock.now() - HOUR)
    assert throughput(store) == Throughput(clock.now(), nothing, nothing)


def test_jobs_count_in_the_minute_and_the_hour_in_which_they_came_and_ended(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, *"ab")
    worker.run_one()
    clock.advance(HOUR - MINUTE)
    put(store, *"cdef", queue="other")
    put(store, "later", delay=HOUR)
    for kind in (Kind.DONE, Kind.FAILED, Kind.AGAIN):
        (lease,) = worker.take(1, 0, "other")
        worker.settle(lease, kind, at=clock.now() + HOUR if kind is Kind.AGAIN else None)
    store.run(store.cancel(["f"]))
    found = throughput(store)
    assert found.came == Moved({"default": (1, 3), "other": (4, 4)}, clock.now() - HOUR)
    assert found.ended == Moved({"default": (0, 1), "other": (3, 3)}, clock.now() - HOUR)
    clock.advance(MINUTE)
    found = throughput(store)
    assert (found.came.queues, found.ended.queues) == (
        {"default": (1, 3), "other": (4, 4)},
        {"default": (0, 1), "other": (3, 3)},
    )
    clock.advance(1)
    found = throughput(store)
    assert (found.came.queues, found.ended.queues) == ({"default": (0, 1), "other": (0, 4)}, {"other": (0, 3)})


def test_jobs_that_are_gone_do_not_count(store: Store, worker: Worker) -> None:
    put(store, *"ab")
    worker.run_one()
    store.run(store.delete(["a"]))
    found = throughput(store)
    assert (found.came.queues, found.ended.queues) == ({"default": (1, 1)}, {})
    put(store, "a")  # again, as a job that came later
    assert throughput(store).came.queues == {"default": (2, 2)}


def test_a_job_counts_in_the_queue_where_it_is(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.MOVED, queue="other")
    assert throughput(store).came.queues == {"other": (1, 1)}


def test_a_look_ends_after_so_many_jobs_and_says_how_far_back_it_went(
    store: Store, worker: Worker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LATELY", 300)
    store.run(store.put([new(f"old{i}", queue="old") for i in range(10)]))
    clock.advance(1_000)
    begin = clock.now()
    store.run(store.put([new(f"busy{i}", queue="busy") for i in range(290)]))
    for lease in worker.take(4, 0, "busy"):
        worker.settle(lease)
        clock.advance(10)
    found = throughput(store)
    assert found.came == Moved({"old": (10, 10), "busy": (290, 290)}, begin - 1_000)
    put(store, *(f"x{i}" for i in range(10)), queue="busy")
    assert throughput(store).came == Moved({"busy": (300, 300)}, begin)
    monkeypatch.setattr(limits, "LATELY", 3)
    assert throughput(store).ended == Moved({"busy": (3, 3)}, begin + 10)
