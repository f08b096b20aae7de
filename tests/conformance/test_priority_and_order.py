"""The line: priority, due time, arrival; and queues in order or in turn."""

from __future__ import annotations

import pytest

from headrace.records import Kind
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, put
from .traits import Trait


@pytest.mark.needs(Trait.PUT_ORDER, witness=True)
def test_jobs_are_handed_out_in_the_order_of_their_puts(store: Store, worker: Worker) -> None:
    put(store, "c", "a")
    put(store, "b")
    assert ids(worker.take(5)) == "cab"


def test_one_at_a_time_is_the_same_order(store: Store, worker: Worker) -> None:
    put(store, *"hgfedcba")
    assert "".join(worker.take_one().id for _ in range(8)) == "hgfedcba"


@pytest.mark.needs(Facet.PRIORITY)
def test_the_higher_priority_comes_first(store: Store, worker: Worker, clock: ManualClock) -> None:
    for job_id, priority in {"a": 0, "b": 10, "c": -3, "d": 10, "e": 2**31 - 1, "f": -(2**31)}.items():
        put(store, job_id, priority=priority)
        clock.advance(1)
    leases = worker.take(9)
    assert ids(leases) == "ebdacf"
    assert leases[0].priority == 2**31 - 1


@pytest.mark.needs(Facet.DELAY)
@pytest.mark.needs(Trait.MOMENTS)
def test_within_a_priority_the_earlier_due_time_comes_first(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", run_at=clock.now() - 5)
    put(store, "c", run_at=clock.now() - 10)
    assert ids(worker.take(5)) == "cba"


@pytest.mark.needs(Facet.DELAY)
@pytest.mark.needs(Trait.DUE)
def test_a_delayed_job_stands_where_its_due_time_puts_it(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "b", delay=10_000)
    put(store, "a", delay=5_000)
    put(store, "d", delay=10_000)
    clock.advance(7_000)
    put(store, "c")
    clock.advance(5_000)
    put(store, "e")
    assert ids(worker.take(9)) == "acbde"


def test_a_retried_job_stands_where_its_due_time_puts_it(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    clock.advance(5_000)
    put(store, "b")
    clock.advance(5_000)
    worker.run_one(Kind.AGAIN)
    clock.advance(5_000)
    put(store, "c")
    assert ids(worker.take(9)) == "bac"


@pytest.mark.needs(Trait.PLACES, witness=True)
def test_released_and_crashed_jobs_keep_their_places(store: Store, worker: Worker, clock: ManualClock) -> None:
    for job_id in "abcd":
        put(store, job_id)
        clock.advance(5)
    a, b, c = worker.take(3)
    worker.settle(c, Kind.RELEASED)
    worker.settle(a, Kind.CRASHED)
    worker.settle(b, Kind.RELEASED)
    assert ids(worker.take(9)) == "abcd"


@pytest.mark.needs(Trait.PUT_ORDER)
def test_given_back_jobs_keep_their_places(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc")
    worker.take(1, 1)
    worker.close(crashed=None)
    assert ids(Worker(store, clock, "other").take(9)) == "abc"


@pytest.mark.needs(Trait.PLACES)
def test_of_jobs_due_at_the_same_time_the_earlier_put_comes_first_even_after_a_retry(
    store: Store, worker: Worker
) -> None:
    put(store, "a", "b", "c")
    worker.run_one(Kind.AGAIN)
    assert ids(worker.take(9)) == "abc"


@pytest.mark.needs(Facet.PRIORITY)
@pytest.mark.needs(Facet.MOVE)
def test_priority_is_kept_across_retries_and_moves(store: Store, worker: Worker) -> None:
    put(store, "a", priority=5)
    worker.run_one(Kind.AGAIN)
    assert worker.run_one(Kind.MOVED, queue="next").priority == 5
    put(store, "b", queue="next")
    assert ids(worker.take(9, 0, "next")) == "ab"


# -- several queues --


def fill(store: Store) -> None:
    """The example of the Qless document: A has 5 jobs, B 2, C 3."""
    for queue, count in {"A": 5, "B": 2, "C": 3}.items():
        put(store, *(f"{queue}{i}" for i in range(count)), queue=queue)


@pytest.mark.needs(Trait.QUEUES)
def test_ordered_empties_the_first_queue_before_the_next(store: Store, worker: Worker) -> None:
    fill(store)
    leases = worker.take(10, 0, "C", "B", "A")
    assert [lease.id for lease in leases] == ["C0", "C1", "C2", "B0", "B1", "A0", "A1", "A2", "A3", "A4"]


@pytest.mark.needs(Trait.QUEUES)
def test_ordered_one_slot_at_a_time_is_the_same(store: Store, worker: Worker) -> None:
    fill(store)
    taken = [worker.take(1, 0, "C", "B", "A")[0].queue for _ in range(10)]
    assert "".join(taken) == "CCCBBAAAAA"
    assert worker.take(1, 0, "C", "B", "A") == []


@pytest.mark.needs(Trait.QUEUES)
@pytest.mark.needs(Trait.ROUND_ROBIN, witness=True)
def test_round_robin_takes_one_from_each_queue_in_turn_skipping_empty_ones(store: Store, worker: Worker) -> None:
    fill(store)
    leases = worker.take(10, 0, "C", "B", "A", round_robin=True)
    assert [lease.id for lease in leases] == ["C0", "B0", "A0", "C1", "B1", "A1", "C2", "A2", "A3", "A4"]


@pytest.mark.needs(Trait.QUEUES)
@pytest.mark.needs(Trait.ROUND_ROBIN)
def test_round_robin_one_slot_at_a_time_is_the_same_when_the_caller_rotates_the_queues(
    store: Store, worker: Worker
) -> None:
    fill(store)
    queues, taken = ["C", "B", "A"], ""
    for _ in range(10):
        (lease,) = worker.take(1, 0, *queues, round_robin=True)
        taken += lease.queue
        after = queues.index(lease.queue) + 1
        queues = queues[after:] + queues[:after]
    assert taken == "CBACBACAAA"


@pytest.mark.needs(Trait.QUEUES)
@pytest.mark.needs(Trait.ROUND_ROBIN)
def test_round_robin_starts_with_the_first_queue_given_each_time(store: Store, worker: Worker) -> None:
    fill(store)
    assert [worker.take(1, 0, "C", "B", "A", round_robin=True)[0].queue for _ in range(4)] == list("CCCB")


@pytest.mark.needs(Trait.QUEUES)
@pytest.mark.needs(Trait.ROUND_ROBIN)
def test_round_robin_stops_at_slots_and_spare(store: Store, worker: Worker) -> None:
    fill(store)
    leases = worker.take(2, 2, "C", "B", "A", round_robin=True)
    assert [(lease.id, lease.spare) for lease in leases] == [
        ("C0", False),
        ("B0", False),
        ("A0", True),
        ("C1", True),
    ]


@pytest.mark.needs(Facet.PRIORITY)
def test_ordered_goes_by_queue_before_priority_and_due_time(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "x", queue="second", priority=9)
    clock.advance(5)
    put(store, "a", "b", queue="first")
    assert ids(worker.take(9, 0, "first", "second")) == "abx"


@pytest.mark.needs(Facet.PRIORITY)
def test_round_robin_keeps_the_line_order_within_each_queue(store: Store, worker: Worker) -> None:
    put(store, "a", "b", queue="q")
    put(store, "c", queue="q", priority=1)
    put(store, "x", queue="r")
    assert ids(worker.take(9, 0, "q", "r", round_robin=True)) == "cxab"
