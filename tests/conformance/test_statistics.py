"""Statistics per queue and day: the same while jobs are kept and when they are gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.records import Charge, Filter, Kind
from headrace.store.contract import Facet, Store
from headrace.store.facets import DayStats, Tally
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.store.stats import DAY, LONGEST, tally_of
from headrace.values.clock import ManualClock

from .helpers import Worker, new, outcome, put
from .test_retention import sweep
from .test_settings import set_
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.STATISTICS)


def stats(store: Store, clock: ManualClock, queue: str = "default", ago: int = 0) -> DayStats:
    return store.run(store.stats(queue, clock.now() // DAY - ago))


def run(store: Store, worker: Worker, clock: ManualClock, wait: int, length: int, **fields: object) -> None:
    """One job that waits and runs for so many milliseconds. Its end is told at once."""
    put(store, f"{clock.now()} {clock.steady()} {wait} {length}", **fields)
    clock.advance(wait + length)
    (lease,) = worker.take(1, 0, str(fields.get("queue", "default")))
    worker.settle(lease, began=clock.steady() - length, ended=clock.steady())


def settle_in(clock: ManualClock) -> None:
    """To noon, so that nothing here crosses midnight by chance."""
    clock.jump((DAY // 2 - clock.now()) % DAY)


@pytest.mark.needs(Trait.DURATIONS)
def test_nothing_happened(store: Store, clock: ManualClock) -> None:
    day = clock.now() // DAY
    assert stats(store, clock) == DayStats(queue="default", day=day)


def test_runs_and_failures_are_counted_on_their_day(store: Store, worker: Worker, clock: ManualClock) -> None:
    settle_in(clock)
    run(store, worker, clock, 2_000, 3_000)
    put(store, "a", "b")
    worker.run_one(Kind.FAILED)
    worker.run_one()
    today = stats(store, clock)
    assert (today.run.count, today.failures, today.failed) == (2, 1, 1)
    yesterday = stats(store, clock, ago=1)
    assert (yesterday.run.count, yesterday.failures) == (0, 0)


@pytest.mark.parametrize("gone", ["kept", "deleted", "purged", "some purged"])
@pytest.mark.needs(Trait.DURATIONS)
def test_waits_and_runs_are_summed_up_and_outlive_their_jobs(
    store: Store, worker: Worker, clock: ManualClock, gone: str, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    settle_in(clock)
    waits, runs = [0, 3, 15, 16, 1_000, 0], [7, 60_000, 1, 0, 17, 130]
    for wait, length in zip(waits, runs, strict=True):
        run(store, worker, clock, wait, length)
    run(store, worker, clock, 5, 6, queue="other")
    if gone == "deleted":
        ids = [job.id for job in store.run(store.find(Filter(limit=1_000))).jobs]
        store.run(store.delete(ids))
    elif gone != "kept":
        set_(store, jobs_history_count=0 if gone == "purged" else 3)
        sweep(store)
    assert stats(store, clock) == DayStats(
        queue="default", day=clock.now() // DAY, wait=tally_of(waits), run=tally_of(runs)
    )
    assert (stats(store, clock, "other").wait, stats(store, clock, "other").run) == (tally_of([5]), tally_of([6]))
    if gone in ("deleted", "purged"):
        assert leftovers(store) == {}


@pytest.mark.needs(Trait.DURATIONS)
def test_days_are_apart(store: Store, worker: Worker, clock: ManualClock) -> None:
    settle_in(clock)
    run(store, worker, clock, 1, 2)
    clock.jump(DAY)
    run(store, worker, clock, 3, 4)
    run(store, worker, clock, 5, DAY)
    for purged in (False, True):
        assert stats(store, clock, ago=2).run == tally_of([2])
        assert (stats(store, clock, ago=1).wait, stats(store, clock, ago=1).run) == (tally_of([3, 5]), tally_of([4]))
        assert (stats(store, clock).wait, stats(store, clock).run) == (tally_of([]), tally_of([DAY]))
        if not purged:
            set_(store, jobs_history_count=0)
            sweep(store)


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.needs(Trait.DURATIONS)
def test_a_wait_counts_on_the_day_of_the_take_and_a_run_on_that_of_its_end(
    store: Store, worker: Worker, clock: ManualClock, gone: bool
) -> None:
    settle_in(clock)
    run(store, worker, clock, 5, 3 * DAY)
    run(store, worker, clock, 7, 11)
    if gone:
        set_(store, jobs_history_count=0)
        sweep(store)
    days = [(found.wait, found.run) for found in (stats(store, clock, ago=ago) for ago in (3, 2, 1, 0))]
    nothing = tally_of([])
    assert days == [
        (tally_of([5]), nothing), (nothing, nothing), (nothing, nothing), (tally_of([7]), tally_of([3 * DAY, 11]))
    ]  # fmt: skip


@pytest.mark.needs(Trait.DURATIONS)
def test_no_duration_is_negative_or_longer_than_two_years(store: Store, worker: Worker, clock: ManualClock) -> None:
    settle_in(clock)
    put(store, "a", run_at=0)
    lease = worker.take_one()
    worker.settle(lease, began=clock.steady() + 10, ended=clock.steady())
    for _ in range(2):
        assert (stats(store, clock).wait, stats(store, clock).run) == (tally_of([LONGEST]), tally_of([0]))
        set_(store, jobs_history_count=0)
        sweep(store)


@pytest.mark.needs(Trait.CHARGES, witness=True)
def test_retries_and_failures(store: Store, worker: Worker, clock: ManualClock) -> None:
    settle_in(clock)
    put(store, *"abcd", max_crashes=1)
    worker.run_one(Kind.AGAIN, charge=Charge.ATTEMPT)
    worker.run_one(Kind.AGAIN, charge=Charge.ATTEMPT)
    worker.run_one(Kind.AGAIN)  # a snooze is no retry
    worker.run_one(Kind.AGAIN, charge=Charge.DEFERRAL)
    worker.run_one(Kind.FAILED, group="g")
    worker.run_one(Kind.BROKEN)
    worker.run_one(Kind.CRASHED)
    worker.run_one(Kind.RELEASED)
    found = stats(store, clock)
    assert (found.retries, found.failures, found.failed, found.run.count) == (2, 3, 3, 0)
    store.run(store.revive(["a"]))
    store.run(store.delete(["b"]))
    found = stats(store, clock)
    assert (found.retries, found.failures, found.failed) == (2, 3, 1)
    clock.jump(DAY)
    assert (stats(store, clock).failures, stats(store, clock, ago=1).failures) == (0, 3)


@pytest.mark.needs(Trait.DURATIONS)
def test_a_cancelled_run_is_neither_retry_nor_failure(store: Store, worker: Worker, clock: ManualClock) -> None:
    settle_in(clock)
    put(store, "a", "b")
    for kind in (Kind.AGAIN, Kind.FAILED):
        lease = worker.take_one()
        store.run(store.cancel([lease.id]))
        worker.settle(lease, kind, charge=Charge.ATTEMPT)
    assert stats(store, clock) == DayStats(queue="default", day=clock.now() // DAY)


@pytest.mark.needs(Trait.DURATIONS)
def test_histograms_go_before_the_rest(store: Store, worker: Worker, clock: ManualClock) -> None:
    settle_in(clock)
    set_(store, jobs_history=10 * DAY, histogram_history=2 * DAY, stats_history=4 * DAY)
    lengths = [1, 2, 300]
    for length in lengths[:2]:
        run(store, worker, clock, 0, length)
    set_(store, jobs_history_count=0)
    sweep(store)
    set_(store, jobs_history_count=None)
    run(store, worker, clock, 0, lengths[2])
    whole = tally_of(lengths)
    for ago in range(3):
        sweep(store)
        assert stats(store, clock, ago=ago).run == whole
        clock.jump(DAY)
    for ago in (3, 4):
        sweep(store)
        assert stats(store, clock, ago=ago).run == Tally(whole.count, whole.total, whole.squares)
        if ago == 3:  # what goes now adds to the sums alone
            set_(store, jobs_history_count=0)
        clock.jump(DAY)
    sweep(store)
    assert stats(store, clock, ago=5) == DayStats(queue="default", day=clock.now() // DAY - 5)


@pytest.mark.needs(Trait.DURATIONS)
def test_nothing_is_left_of_days_that_are_past_keeping(
    store: Store, worker: Worker, clock: ManualClock, entry: object
) -> None:
    settle_in(clock)
    set_(store, jobs_history_count=0, stats_history=DAY, histogram_history=DAY)
    for _ in range(3):
        for queue in ("default", "other"):
            run(store, worker, clock, 1, 2, queue=queue)
            put(store, f"{clock.now()} {queue}", queue=queue)
            (lease,) = worker.take(1, 0, queue)
            worker.settle(lease, Kind.FAILED)
        clock.jump(DAY)
    clock.jump(40 * DAY)
    set_(store, failed_history=0)
    for _ in range(10):
        sweep(store)
    assert left_of_statistics(store) == 0


def left_of_statistics(store: Store) -> int:
    if isinstance(store, SqliteStore):
        return store._db.read(lambda connection: connection.execute("SELECT count(*) FROM stat").fetchall()[0][0])
    if isinstance(store, RedisStore):
        return len(store.driver.command("KEYS", f"{store.keys.prefix}stat*"))
    return 0


@pytest.mark.needs(Trait.DURATIONS, witness=True)
def test_many_jobs_of_many_lengths(store: Store, worker: Worker, clock: ManualClock) -> None:
    """Half of them purged: whichever way each is counted, none is missed and none counted twice."""
    settle_in(clock)
    lengths = []
    for batch in range(3):
        store.run(store.put([new(f"{batch} {i}") for i in range(600)]))
        leases = worker.take(600)
        clock.advance(1)
        now = clock.steady()
        times = [(7 * i * i) % (3 * i + 1 + batch) for i in range(600)]
        lengths += times
        worker.exchange([outcome(lease, began=now - t, ended=now) for lease, t in zip(leases, times, strict=True)])
    assert stats(store, clock).run == tally_of(lengths)
    set_(store, jobs_history_count=491)
    sweep(store)
    assert stats(store, clock).run == tally_of(lengths)
