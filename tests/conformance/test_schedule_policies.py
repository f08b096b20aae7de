"""Schedules whose ticks meet other runs: overlap, missed ticks, and rules that count from the job before."""

from __future__ import annotations

import pytest

from headrace.policies import Misfire, Overlap
from headrace.records import Kind, State
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock
from headrace.worker.ticker import tick_some

from .helpers import Worker, look, outcome
from .scheduling import DAY, HOUR, LARGE, MINUTE, NOON, change, jobs, keep, seen, tick_all, ticks

pytestmark = pytest.mark.needs(Facet.SCHEDULES)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def worker(store: Store, clock: ManualClock) -> Worker:
    """One that is patient: time passes in minutes and hours here."""
    return Worker(store, clock, timeout=DAY)


# -- overlap ---------------------------------------------------------------------------------------------


def test_overlap_allow(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, overlap=Overlap.ALLOW)
    tick_all(store)
    lease = worker.take_one()
    clock.advance(MINUTE)
    tick_all(store)
    assert [job.state for job in jobs(store)] == [State.RUNNING, State.READY]
    worker.settle(lease)


def test_overlap_skip(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, overlap=Overlap.SKIP)
    tick_all(store)
    clock.advance(MINUTE)
    tick_all(store)  # the first still waits
    lease = worker.take_one()
    clock.advance(MINUTE)
    tick_all(store)  # and now it runs
    assert ticks(store) == [0]
    record = seen(store)
    assert (record.runs, record.last_tick, record.next) == (1, NOON + 2 * MINUTE, NOON + 3 * MINUTE)
    worker.settle(lease, Kind.FAILED)
    clock.advance(MINUTE)
    tick_all(store)
    assert ticks(store) == [0, 3]


def test_overlap_replace(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, overlap=Overlap.REPLACE)
    tick_all(store)
    clock.advance(MINUTE)
    tick_all(store)
    assert ticks(store) == [1]  # what waited was removed
    lease = worker.take_one()
    clock.advance(MINUTE)
    tick_all(store)
    assert [(job.state, job.cancelling) for job in jobs(store)] == [(State.RUNNING, True), (State.READY, False)]
    assert worker.renew(lease).cancelled == [lease.id]
    worker.settle(lease, Kind.RELEASED)
    assert [job.state for job in jobs(store)] == [State.CANCELLED, State.READY]
    assert seen(store).runs == 3


@pytest.mark.needs(Facet.RELATIONS)
def test_overlap_queue(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, overlap=Overlap.QUEUE)
    tick_all(store)
    first = worker.take_one()
    for _ in range(3):
        clock.advance(MINUTE)
        tick_all(store)
    assert ticks(store) == [0, 1]  # one runs, one waits for it, the others were skipped
    waiting = jobs(store)[1]
    assert (waiting.state, waiting.after, seen(store).runs) == (State.BLOCKED, (first.id,), 2)
    assert worker.take(5) == []
    worker.settle(first, Kind.FAILED)  # an end is an end
    second = worker.take_one()
    assert (second.id, second.extras.tick) == (waiting.id, NOON + MINUTE)
    clock.advance(MINUTE)
    tick_all(store)
    assert [job.state for job in jobs(store)] == [State.FAILED, State.RUNNING, State.BLOCKED]
    worker.settle(second)
    worker.run_one()
    clock.advance(MINUTE)
    tick_all(store)
    assert [job.state for job in jobs(store)][-1] is State.READY


@pytest.mark.needs(Facet.RELATIONS)
def test_overlap_queue_behind_one_that_waits_in_line(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, overlap=Overlap.QUEUE, misfire=Misfire.ALL)
    clock.advance(4 * MINUTE)
    tick_all(store)
    assert [(job.state, job.tick) for job in jobs(store)] == [
        (State.READY, NOON),
        (State.BLOCKED, NOON + MINUTE),
    ]
    (first, second) = jobs(store)
    store.run(store.delete([first.id]))
    worker.exchange()
    assert look(store, second.id).state is State.READY


def test_several_missed_ticks_go_through_the_policy_one_after_the_other(store: Store, clock: ManualClock) -> None:
    for policy in (Overlap.ALLOW, Overlap.SKIP, Overlap.REPLACE):
        keep(store, policy, overlap=policy, misfire=Misfire.ALL)
    clock.advance(4 * MINUTE + 30_000)
    tick_all(store)
    assert ticks(store, Overlap.ALLOW) == [0, 1, 2, 3, 4]
    assert ticks(store, Overlap.SKIP) == [0]
    assert ticks(store, Overlap.REPLACE) == [4]


# -- misfires --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(Misfire.ALL, [0, 1, 2, 3, 4, 5]), (Misfire.ONCE, [3, 4, 5]), (Misfire.SKIP, [4, 5])],
)
def test_what_was_missed(store: Store, clock: ManualClock, policy: Misfire, expected: list[int]) -> None:
    """Five minutes and a half later, with a grace of two: 12:04 and 12:05 are late, the ones before were missed."""
    keep(store, misfire=policy, grace=2 * MINUTE)
    clock.advance(5 * MINUTE + 30_000)
    assert tick_all(store) == 30_000
    assert ticks(store) == expected
    assert (seen(store).next, seen(store).last_tick) == (NOON + 6 * MINUTE, NOON + 5 * MINUTE)


def test_of_many_missed_ticks_the_latest_get_jobs_in_bounded_steps(store: Store, clock: ManualClock) -> None:
    keep(store, misfire=Misfire.ALL, limit=250)
    clock.advance(30 * DAY + 30_000)
    assert tick_some(store) == 0
    assert len(jobs(store)) == 100
    tick_all(store)
    last = 30 * DAY // MINUTE
    assert ticks(store) == list(range(last - 250, last + 1))  # 250 were missed, and the last one is only late


def test_a_repeat_rule_that_counts_from_its_own_ticks_catches_up_step_by_step(store: Store, clock: ManualClock) -> None:
    keep(store, rule="SCHEDULED, +1 MINUTE", misfire=Misfire.ALL, limit=10)
    clock.advance(20 * DAY)
    tick_all(store)
    last = 20 * DAY // MINUTE
    assert ticks(store) == list(range(last - 11, last + 1))


# -- rules that count from the job before -------------------------------------------------------------------


def test_the_next_time_is_known_when_the_job_has_ended(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, rule="FINISHED, +1 HOUR")
    assert tick_all(store) is None
    assert seen(store).next is None
    lease = worker.take_one()
    clock.advance(10 * MINUTE)
    turn = worker.exchange([outcome(lease)])
    assert turn.next_tick == clock.now()
    assert tick_all(store) == HOUR
    record = seen(store)
    assert (record.next, record.started, record.finished) == (NOON + 10 * MINUTE + HOUR, None, None)
    clock.advance(HOUR)
    tick_all(store)
    assert ticks(store) == [0, 70]


def test_or_counts_from_when_it_started(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, rule="STARTED, +1 HOUR")
    tick_all(store)
    clock.advance(MINUTE)
    lease = worker.take_one()
    clock.advance(10 * MINUTE)
    worker.exchange([outcome(lease)])
    assert tick_all(store) == HOUR - 10 * MINUTE


@pytest.mark.parametrize(
    "way", ["failed", "crashed", "cancelled", "cancelled while running", "deleted", "deleted while running"]
)
def test_any_end_keeps_it_going(store: Store, worker: Worker, clock: ManualClock, way: str) -> None:
    keep(store, rule="FINISHED, +1 HOUR", max_crashes=1)
    tick_all(store)
    (job,) = jobs(store)
    clock.advance(MINUTE)
    if way == "failed":
        worker.run_one(Kind.FAILED)
    elif way == "crashed":
        worker.take_one()
        worker.close(crashed=None)
    elif way == "cancelled":
        store.run(store.cancel([job.id]))
    elif way == "deleted":
        store.run(store.delete([job.id]))
    else:
        lease = worker.take_one()
        if way == "deleted while running":
            store.run(store.delete([job.id]))
        else:
            store.run(store.cancel([job.id]))
            assert seen(store).next is None
            worker.settle(lease, Kind.RELEASED)
    assert seen(store).next == clock.now()
    assert tick_all(store) == HOUR


def test_a_retry_is_no_end(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, rule="FINISHED, +1 HOUR")
    tick_all(store)
    worker.run_one(Kind.AGAIN, delay=5)
    assert (seen(store).next, seen(store).version) == (None, 2)


def test_only_the_last_job_of_a_schedule_counts(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, rule="FINISHED, +1 HOUR", overlap=Overlap.REPLACE)
    tick_all(store)
    first = worker.take_one()
    clock.advance(MINUTE)
    change(store, next=clock.now())
    tick_all(store)
    worker.settle(first, Kind.RELEASED)
    assert seen(store).next is None
    worker.run_one()
    assert seen(store).next == clock.now()


def test_a_schedule_that_is_over_stays_so(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store, rule="FINISHED, +1 HOUR", max_runs=1)
    tick_all(store)
    worker.run_one()
    assert tick_all(store) is None
    assert (seen(store).next, len(jobs(store))) == (None, 1)


@pytest.mark.parametrize("data", [b"D1", LARGE])
def test_what_one_run_leaves_the_next_one_finds(store: Store, worker: Worker, clock: ManualClock, data: bytes) -> None:
    keep(store, carry_data=True, overlap=Overlap.SKIP)
    tick_all(store)
    lease = worker.take_one()
    assert lease.data is None
    worker.settle(lease, data=data)
    assert seen(store).data == data
    clock.advance(MINUTE)
    tick_all(store)
    lease = worker.take_one()
    assert lease.data == data
    worker.settle(lease, Kind.FAILED)  # says nothing new: what it had goes on
    clock.advance(MINUTE)
    tick_all(store)
    assert worker.take_one().data == data


def test_without_carry_data_each_run_begins_with_nothing(store: Store, worker: Worker, clock: ManualClock) -> None:
    keep(store)
    tick_all(store)
    worker.run_one(data=b"D")
    clock.advance(MINUTE)
    tick_all(store)
    assert worker.take_one().data is None
    assert seen(store).data is None
