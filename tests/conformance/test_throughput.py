"""In and out rates: how many jobs of each queue came in and ended in the last minute."""

from __future__ import annotations

import pytest

from headrace.records import Kind
from headrace.store import limits
from headrace.store.contract import Facet, Store
from headrace.store.throughput import SLOT, SLOTS, Moved, Throughput
from headrace.values.clock import ManualClock

from .helpers import Worker, new, outcome, put

pytestmark = pytest.mark.needs(Facet.THROUGHPUT)


@pytest.fixture(autouse=True)
def _at_the_beginning_of_a_slot(clock: ManualClock) -> None:
    clock.advance(-clock.now() % SLOT)


def throughput(store: Store) -> Throughput:
    return store.run(store.throughput())


def moved(store: Store) -> tuple[dict[str, int], dict[str, int]]:
    found = throughput(store)
    return found.came.queues, found.ended.queues


def test_nothing_came_and_nothing_ended(store: Store, clock: ManualClock) -> None:
    nothing = Moved({}, clock.now() - SLOTS * SLOT)
    assert throughput(store) == Throughput(clock.now(), nothing, nothing)


def test_jobs_count_for_a_minute_from_when_they_came_and_from_when_they_ended(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, *"ab")
    clock.advance(SLOT)
    worker.run_one()
    put(store, *"cdef", queue="other")
    put(store, "later", delay=1_000_000)
    for kind in (Kind.DONE, Kind.FAILED, Kind.AGAIN):
        (lease,) = worker.take(1, 0, "other")
        worker.settle(lease, kind, at=clock.now() + 1_000_000 if kind is Kind.AGAIN else None)
    store.run(store.cancel(["f"]))
    assert moved(store) == ({"default": 3, "other": 4}, {"default": 1, "other": 3})
    clock.advance(SLOTS * SLOT - 1)
    assert moved(store) == ({"default": 3, "other": 4}, {"default": 1, "other": 3})
    clock.advance(1)
    assert moved(store) == ({"default": 1, "other": 4}, {"default": 1, "other": 3})
    clock.advance(SLOT)
    assert moved(store) == ({}, {})


def test_jobs_that_are_gone_still_count(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc")
    clock.advance(SLOT)
    worker.run_one()
    worker.run_one(Kind.FAILED)
    store.run(store.delete([*"abc", "nobody"]))
    assert moved(store) == ({"default": 3}, {"default": 2})
    put(store, "a")  # again, as a job that came later
    worker.run_one()
    store.run(store.delete(["a"]))
    assert moved(store) == ({"default": 4}, {"default": 3})
    clock.advance(SLOTS * SLOT)
    assert moved(store) == ({"default": 1}, {"default": 3})
    clock.advance(SLOT)
    assert moved(store) == ({}, {})


@pytest.mark.needs(Facet.SETTINGS)
def test_a_store_that_keeps_nothing_counts_what_it_purges(store: Store, worker: Worker, clock: ManualClock) -> None:
    store.run(store.set_settings({"jobs-history-count": 0, "failed-history": 0}))
    store.run(store.put([new(f"job {i}", queue="busy") for i in range(300)]))
    put(store, "slow", queue="slow")
    for _ in range(3):
        leases = worker.take(101, 0, "busy", "slow")
        worker.exchange([outcome(lease, Kind.FAILED if lease.id == "slow" else Kind.DONE) for lease in leases])
        clock.advance(10)
        while store.run(store.sweep()).more:
            pass
    assert store.run(store.counts()) == []
    assert moved(store) == ({"busy": 300, "slow": 1}, {"busy": 300, "slow": 1})


def test_a_job_counts_in_the_queue_where_it_is(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.MOVED, queue="other")
    assert moved(store)[0] == {"other": 1}


def test_a_look_that_has_met_too_many_jobs_counts_since_later(
    store: Store, worker: Worker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LATELY", 300)
    begin = clock.now()
    store.run(store.put([new(f"old{i}", queue="old") for i in range(10)]))
    clock.advance(SLOT)
    store.run(store.put([new(f"busy{i}", queue="busy") for i in range(289)]))
    for lease in worker.take(4, 0, "busy"):
        worker.settle(lease)
        clock.advance(SLOT)
    put(store, "gone")
    store.run(store.delete(["gone"]))
    assert throughput(store).came == Moved({"old": 10, "busy": 289, "default": 1}, begin - SLOTS * SLOT + 5 * SLOT)
    put(store, "one more", queue="busy")
    assert throughput(store).came == Moved({"busy": 290, "default": 1}, begin + SLOT)
    monkeypatch.setattr(limits, "LATELY", 3)
    assert throughput(store).ended == Moved({"busy": 2}, begin + 3 * SLOT)
    store.run(store.put([new(f"now{i}", queue="now") for i in range(5)]))
    assert throughput(store).came == Moved({"now": 3, "default": 1}, begin + 5 * SLOT)
