"""Statistics: derived from jobs while these are kept, summed up when they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headrace.store import limits
from headrace.store.facets import DayStats, Tally
from headrace.store.sql.codes import CANCELLED, DONE, FAILED, FAILURES, RETRIES, RUN_TIMES, WAITS
from headrace.store.sql.transaction import Transaction
from headrace.store.stats import DAY, LONGEST, add, bucket_of
from headrace.store.throughput import SLOT, Throughput, first_slot, throughput_of

ALL = -1
"""The bucket of what has no histogram."""

Times = tuple[str, int, int, int]
"""Of a job: its queue, when it was due, started and finished."""


def first_day(tx: Transaction, setting: str) -> int:
    """The first day that a setting says to keep."""
    return (tx.now - tx.number(setting)) // DAY


def fold(tx: Transaction, jobs: Iterable[Times]) -> None:
    """These jobs are done and about to go: they leave their durations behind."""
    first, first_with_buckets = first_day(tx, "stats-history"), first_day(tx, "histogram-history")
    sums: dict[tuple[int, str, int, int], tuple[int, float, float]] = {}
    for (queue, day, kind, length), number in _durations(jobs).items():
        if day >= first:
            place = (day, queue, kind, bucket_of(length) if day >= first_with_buckets else ALL)
            count, total, squares = sums.get(place, (0, 0.0, 0.0))
            sums[place] = count + number, total + number * length, squares + number * length * length
    tx.change_many("stat_add", [(*place, *summed) for place, summed in sums.items()])


def _durations(jobs: Iterable[Times]) -> dict[tuple[str, int, int, int], int]:
    """How many waited and ran for how long, per queue and day. (Runs for every job that goes: kept lean.)"""
    numbers: dict[tuple[str, int, int, int], int] = {}
    for queue, due, started, finished in jobs:
        wait, run = started - due, finished - started
        taken = (started if run >= 0 else finished) // DAY
        key = queue, taken, WAITS, wait if 0 <= wait <= LONGEST else min(max(wait, 0), LONGEST)
        numbers[key] = numbers.get(key, 0) + 1
        key = queue, finished // DAY, RUN_TIMES, run if 0 <= run <= LONGEST else min(max(run, 0), LONGEST)
        numbers[key] = numbers.get(key, 0) + 1
    return numbers


def of_day(tx: Transaction, queue: str, day: int) -> DayStats:
    if day < first_day(tx, "stats-history"):
        return DayStats(queue=queue, day=day)
    span = (queue, day * DAY, (day + 1) * DAY)
    tallies = {kind: Tally() for kind in range(4)}
    for kind, bucket, number, total, squares in tx.rows("stat_kept", (queue, day)):
        tallies[kind] = add(tallies[kind], Tally(number, total, squares, {} if bucket == ALL else {bucket: number}))
    for (_, its_day, kind, length), number in _durations(tx.rows("stat_derived", span)).items():
        if its_day == day:
            buckets = {bucket_of(length): number}
            tallies[kind] = add(tallies[kind], Tally(number, number * length, number * length * length, buckets))
    with_buckets = day >= first_day(tx, "histogram-history")
    waits, runs = (
        tally if with_buckets else Tally(tally.count, tally.total, tally.squares)
        for tally in (tallies[WAITS], tallies[RUN_TIMES])
    )
    return DayStats(
        queue=queue,
        day=day,
        wait=waits,
        run=runs,
        retries=tallies[RETRIES].count,
        failures=tallies[FAILURES].count,
        failed=tx.value("stat_failed", span),
    )


def throughput(tx: Transaction) -> Throughput:
    first = first_slot(tx.now)
    span = SLOT, limits.LATELY, first * SLOT
    ended = [tx.rows("ended_lately", (*span, state)) for state in (DONE, FAILED, CANCELLED)]
    return throughput_of(tx.now, limits.LATELY, tx.rows("came_lately", span), ended, tx.rows("gone_lately", (first,)))


def let_go(tx: Transaction, jobs: Sequence[int]) -> None:
    """These jobs are about to go: rates count what came or ended a moment ago."""
    tx.execute("gone_add", (tx.array(jobs), SLOT, first_slot(tx.now) * SLOT))


def count_gone(tx: Transaction, ended: Iterable[tuple[str, int, int]]) -> None:
    """The same of ended jobs, by queue, and when they came and ended."""
    first = first_slot(tx.now)
    came, gone = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
    for queue, created, finished in ended:
        came[created // SLOT, queue] += 1
        gone[finished // SLOT, queue] += 1
    counts = [(slot, queue, came[slot, queue], gone[slot, queue]) for slot, queue in came | gone if slot >= first]
    tx.change_many("gone_count", counts)


def _old_day(tx: Transaction) -> int | None:
    day: int | None = tx.maybe_value("stat_old", (first_day(tx, "stats-history"),))
    return day


def _day_to_flatten(tx: Transaction) -> int | None:
    day: int | None = tx.maybe_value("stat_with_buckets", (first_day(tx, "histogram-history"),))
    return day


def out_of_date(tx: Transaction) -> bool:
    """Is there anything to forget?"""
    return _old_day(tx) is not None or _day_to_flatten(tx) is not None


def forget(tx: Transaction) -> None:
    """Give up one day that is past keeping, the histograms of another, and what rates no longer count."""
    if (day := _old_day(tx)) is not None:
        tx.execute("stat_forget", (day,))
    if (day := _day_to_flatten(tx)) is not None:
        tx.execute("stat_flatten", (day,))
        tx.execute("stat_no_buckets", (day,))
    tx.execute("gone_forget", (first_slot(tx.now),))
