"""Age of the oldest ready job of each queue."""

from __future__ import annotations

import pytest

from headrace.records import Kind, Lane
from headrace.store.ages import LEVELS, Oldest
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, look, new, put
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.AGES)


def oldest(store: Store) -> Oldest:
    return store.run(store.oldest())


def times(store: Store) -> list[int]:
    """Due times, where there is one queue: a dialect may have a name of its own for it."""
    return list(oldest(store).due.values())


def test_a_store_without_jobs_has_no_oldest_one(store: Store, clock: ManualClock) -> None:
    assert oldest(store) == Oldest(clock.now(), {})


@pytest.mark.needs(Trait.QUEUES)
def test_the_oldest_ready_job_of_each_queue_counts_since_it_was_due(store: Store, clock: ManualClock) -> None:
    begin = clock.now()
    put(store, "a")
    clock.advance(1_000)
    put(store, "b")
    put(store, "c", queue="other")
    clock.advance(500)
    found = oldest(store)
    assert found == Oldest(begin + 1_500, {"default": begin, "other": begin + 1_000})
    assert (found.age("default"), found.age("other"), found.age("nobody's")) == (1.5, 0.5, None)


@pytest.mark.needs(Facet.PRIORITY)
def test_the_oldest_job_may_have_any_priority(store: Store, clock: ManualClock) -> None:
    begin = clock.now()
    for number, priority in enumerate((-3, 0, 7, 100)):
        clock.advance(1)
        put(store, f"j{number}", priority=priority)
    assert oldest(store).due == {"default": begin + 1}
    store.run(store.delete(["j0"]))
    assert oldest(store).due == {"default": begin + 2}
    store.run(store.cancel(["j1"]))
    assert oldest(store).due == {"default": begin + 3}
    store.run(store.cancel(["j2"]))
    assert oldest(store).due == {"default": begin + 4}


@pytest.mark.needs(Facet.PRIORITY)
def test_of_many_priorities_the_highest_and_the_lowest_are_looked_at(store: Store, clock: ManualClock) -> None:
    begin = clock.now()
    for oldest_of_all in (LEVELS - 1, -LEVELS):
        store.run(store.delete([f"p{level}" for level in range(-LEVELS, LEVELS)]))
        put(store, f"p{oldest_of_all}", priority=oldest_of_all)
        clock.advance(1)
        others = [level for level in range(-LEVELS, LEVELS) if level != oldest_of_all]
        store.run(store.put([new(f"p{level}", priority=level) for level in others]))
        assert oldest(store).due == {"default": begin}
        begin = clock.now()


def test_a_job_that_has_fallen_due_is_as_good_as_ready(store: Store, worker: Worker, clock: ManualClock) -> None:
    """No worker need be there to put it in line: the first one is started because of it."""
    due = clock.now() + 1_000
    put(store, "later", delay=1_000)
    put(store, "much later", delay=1_000_000)
    clock.advance(999)
    assert times(store) == []
    clock.advance(1)
    assert times(store) == [due]
    clock.advance(4_000)
    assert (times(store), oldest(store).now) == ([due], due + 4_000)
    worker.take_one()
    assert times(store) == []


@pytest.mark.needs(Facet.REVIVE)
def test_jobs_that_run_or_have_ended_do_not_wait(store: Store, worker: Worker, clock: ManualClock) -> None:
    begin = clock.now()
    put(store, *"abcd")
    worker.run_one()
    worker.run_one(Kind.FAILED)
    (lease,) = worker.take()
    store.run(store.cancel(["d"]))
    assert oldest(store).due == {}
    clock.advance(300)
    worker.settle(lease, Kind.RELEASED)
    assert oldest(store).due == {"default": begin}
    (lease,) = worker.take()
    worker.settle(lease, Kind.AGAIN, delay=200)
    assert oldest(store).due == {}
    clock.advance(200)
    assert oldest(store).due == {"default": begin + 500}
    store.run(store.revive(["b"]))
    store.run(store.delete(["c"]))
    assert oldest(store).due == {"default": clock.now()}


def test_cancelled_jobs_ahead_do_not_count(store: Store, clock: ManualClock) -> None:
    first = [f"first {i}" for i in range(200)]
    put(store, *first)
    clock.advance(1)
    put(store, "last")
    store.run(store.cancel(first[:100]))
    store.run(store.delete(first[100:]))
    assert times(store) == [clock.now()]


@pytest.mark.needs(Facet.LANES)
def test_of_a_lane_the_job_whose_turn_it_is_counts_since_its_turn_came(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    begin = clock.now()
    put(store, *"abc", lane=Lane("l", limit=1))
    assert oldest(store).due == {"default": begin}
    (lease,) = worker.take(3)
    clock.advance(5_000)
    assert oldest(store).due == {}  # the others wait for their turn
    worker.settle(lease)
    assert oldest(store).due == {"default": begin + 5_000} == {"default": look(store, "b").due}


@pytest.mark.needs(Facet.LANES)
def test_a_job_of_a_lane_that_has_fallen_due_counts(store: Store, clock: ManualClock) -> None:
    due = clock.now() + 50
    put(store, "a", lane=Lane("l", limit=1), delay=50)
    assert oldest(store).due == {}
    clock.advance(60)
    assert oldest(store).due == {"default": due}


@pytest.mark.needs(Facet.LANES)
def test_a_job_that_waits_for_a_rate_counts_from_when_the_rate_allows_it(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, *"ab", lane=Lane("l", rate=1, per=10_000))
    worker.take(2)
    assert oldest(store).due == {}
    due = look(store, "b").due
    clock.advance(due - clock.now() + 7)
    assert oldest(store).age("default") == 0.007


@pytest.mark.needs(Facet.RELATIONS)
def test_jobs_that_wait_for_others_are_not_ready(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    clock.advance(10)
    worker.run_one()
    worker.exchange()
    assert oldest(store).due == {"default": clock.now()}


@pytest.mark.needs(Facet.QUEUES)
def test_jobs_of_a_paused_queue_grow_old(store: Store, clock: ManualClock) -> None:
    put(store, "a")
    store.run(store.pause("default"))
    clock.advance(2_000)
    assert oldest(store).age("default") == 2.0
