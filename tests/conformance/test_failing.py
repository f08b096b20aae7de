"""When jobs failed, by group: the first and the last time, and how many in each of the last hours."""

from __future__ import annotations

from headrace.records import Expiry, IfFailed, Kind
from headrace.store.contract import Store
from headrace.store.facets import FailureTimes
from headrace.store.failing import HOUR, HOURS_KEPT
from headrace.values.clock import ManualClock

from .helpers import Worker, outcome, put
from .test_retention import sweep
from .test_settings import set_

KEPT = 10 * 24 * HOUR


def times(store: Store, *groups: str) -> list[FailureTimes]:
    return store.run(store.failure_times(groups))


def fail(store: Store, worker: Worker, *groups: str | None) -> int:
    """Let a job fail in each of these groups, in one exchange. Returns when."""
    put(store, *(f"{worker.clock.now()} {number}" for number in range(len(groups))))
    leases = worker.take(len(groups))
    failed = [outcome(lease, Kind.FAILED, group=group) for lease, group in zip(leases, groups, strict=True)]
    worker.exchange(failed)
    return worker.clock.now()


def to_the_hour(clock: ManualClock) -> None:
    """So that no hour ends by chance."""
    clock.jump(HOUR - clock.now() % HOUR)


def test_failures_are_counted_by_group_and_hour(store: Store, worker: Worker, clock: ManualClock) -> None:
    assert times(store, "g") == times(store) == []
    to_the_hour(clock)
    first = fail(store, worker, "g", None, "g")
    hour = first // HOUR
    clock.advance(1_000)
    fail(store, worker, "g")
    clock.jump(2 * HOUR)
    last = fail(store, worker, "g", "h")
    assert times(store, "h", "nobody's", "", "g") == [
        FailureTimes("h", last, last, {hour + 2: 1}),
        FailureTimes("", first, first, {hour: 1}),
        FailureTimes("g", first, last, {hour: 3, hour + 2: 1}),
    ]


def test_they_outlive_their_jobs_and_hours_go_after_two_days(store: Store, worker: Worker, clock: ManualClock) -> None:
    to_the_hour(clock)
    first = fail(store, worker, "g")
    store.run(store.delete([f"{first} 0"]))
    clock.jump((HOURS_KEPT - 1) * HOUR)
    assert times(store, "g") == [FailureTimes("g", first, first, {first // HOUR: 1})]
    clock.jump(HOUR)
    assert times(store, "g") == [FailureTimes("g", first, first, {})]
    last = fail(store, worker, "g")
    assert times(store, "g") == [FailureTimes("g", first, last, {last // HOUR: 1})]


def test_a_sweep_forgets_a_group_that_has_been_quiet_for_long(store: Store, worker: Worker, clock: ManualClock) -> None:
    set_(store, stats_history=KEPT)
    fail(store, worker, "g", "h")
    clock.jump(KEPT)
    again = fail(store, worker, "h")
    sweep(store)
    assert [found.group for found in times(store, "g", "h")] == ["g", "h"]
    clock.jump(1)
    sweep(store)
    assert [(found.group, found.last) for found in times(store, "g", "h")] == [("h", again)]
    anew = fail(store, worker, "g")
    assert [found.first for found in times(store, "g")] == [anew]


def test_every_way_to_fail_counts_and_no_other_end(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "broken", "crashed", "again", "done", "cancelled", max_crashes=1)
    put(store, "child", after=("broken",), if_failed=IfFailed.FAIL)
    put(store, "late", queue="other", expires=Expiry(after=5))
    broken, crashed, again, done, cancelled = worker.take(5)
    store.run(store.cancel(["cancelled"]))
    outcomes = [outcome(broken, Kind.BROKEN), outcome(crashed, Kind.CRASHED), outcome(done)]
    worker.exchange([*outcomes, outcome(again, Kind.AGAIN, group="again"), outcome(cancelled, Kind.FAILED, group="c")])
    clock.advance(10)
    sweep(store)
    groups = ("broken", "crashed", "dependency", "expired", "again", "c", "")
    assert [found.group for found in times(store, *groups)] == ["broken", "crashed", "dependency", "expired"]
