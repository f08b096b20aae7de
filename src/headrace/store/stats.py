"""Durations summed up: in which bucket one falls, and what buckets and sums tell about all of them.

Buckets grow with the durations, eight for every doubling: below 16 ms they are exact, above within an eighth. Redis
computes the same by itself (store/redis/lua/stats.lua).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from math import sqrt
from typing import NamedTuple

from headrace.errors import ConfigurationError
from headrace.store.facets import DayStats, Tally

DAY = 86_400_000
LONGEST = 2**36 - 1
"""Two years: what takes longer counts as this long."""


def bucket_of(milliseconds: int) -> int:
    """The number of the bucket that a duration falls into.

    >>> [bucket_of(length) for length in (0, 7, 15, 16, 17, 18, 1_000, 60_000)]
    [0, 7, 15, 16, 16, 17, 63, 110]
    """
    length = min(max(milliseconds, 0), LONGEST)
    shift = max(length.bit_length() - 4, 0)
    return 8 * shift + (length >> shift)


def bounds(bucket: int) -> tuple[int, int]:
    """The durations of a bucket: from, and up to but not including.

    >>> bounds(5), bounds(63), bounds(110)
    ((5, 6), (960, 1024), (57344, 61440))
    """
    shift = max(bucket // 8 - 1, 0)
    low = (bucket - 8 * shift) << shift
    return low, low + (1 << shift)


def add(tally: Tally, *others: Tally) -> Tally:
    """Both together."""
    buckets = Counter(tally.buckets)
    count, total, squares = tally.count, tally.total, tally.squares
    for other in others:
        count, total, squares = count + other.count, total + other.total, squares + other.squares
        buckets.update(other.buckets)
    return Tally(count, total, squares, dict(buckets))


def tally_of(lengths: Sequence[int]) -> Tally:
    """Durations, summed up.

    >>> tally = tally_of([3, 5, 1_000])
    >>> tally.count, tally.total, tally.buckets
    (3, 1008.0, {3: 1, 5: 1, 63: 1})
    """
    counted = [min(max(length, 0), LONGEST) for length in lengths]
    buckets = dict(Counter(map(bucket_of, counted)))
    return Tally(len(counted), float(sum(counted)), float(sum(length**2 for length in counted)), buckets)


def mean(tally: Tally) -> float | None:
    return tally.total / tally.count if tally.count else None


def deviation(tally: Tally) -> float | None:
    """How far they are apart; of all of them, not of a sample."""
    if not tally.count:
        return None
    return sqrt(max(tally.squares / tally.count - (tally.total / tally.count) ** 2, 0.0))


def percentile(tally: Tally, percent: float) -> float | None:
    """The duration that so many percent do not exceed, as well as the buckets tell. None: there are no buckets.

    >>> tally = tally_of(range(10))
    >>> percentile(tally, 50), percentile(tally, 90), percentile(tally, 100)
    (4.0, 8.0, 9.0)
    """
    found = _bar_of(tally, percent)
    if found is None:
        return None
    low, high, share = found
    return low + (high - 1 - low) * share if high - low > 1 else float(low)


def _bar_of(tally: Tally, percent: float) -> tuple[int, int, float] | None:
    """From, up to, and how far into it one has to go."""
    bars = filled(tally)
    if not bars:
        return None
    left = max(percent * sum(number for _, _, number in bars) / 100, 1)
    for low, high, number in bars:
        if left <= number:
            return low, high, left / number
        left -= number
    low, high, _ = bars[-1]
    return low, high, 1.0


def filled(tally: Tally) -> list[tuple[int, int, int]]:
    """The buckets, or bars, that are not empty: from, up to, how many.

    >>> filled(tally_of([1, 1, 9])), filled(Tally(2, bars=((0, 1_000, 0), (1_000, 2_000, 2))))
    ([(1, 2, 2), (9, 10, 1)], [(1000, 2000, 2)])
    """
    if tally.bars:
        return [bar for bar in tally.bars if bar[2]]
    return [(*bounds(bucket), tally.buckets[bucket]) for bucket in sorted(tally.buckets)]


def histogram(tally: Tally, bars: int = 12) -> list[tuple[int, int, int]]:
    """Few bars for a terminal: (from, up to, how many), each of as many buckets, empty ends left out.

    >>> histogram(tally_of([1, 1, 2, 9, 9, 9]), bars=3)
    [(1, 4, 3), (4, 7, 0), (7, 10, 3)]
    """
    steps = list(tally.bars)
    if tally.buckets:
        every = range(min(tally.buckets), max(tally.buckets) + 1)
        steps = [(*bounds(bucket), tally.buckets.get(bucket, 0)) for bucket in every]
    while steps and not steps[0][2]:
        steps.pop(0)
    while steps and not steps[-1][2]:
        steps.pop()
    width = -(-len(steps) // bars)
    parts = [steps[start : start + width] for start in range(0, len(steps), width or 1)]
    return [(part[0][0], part[-1][1], sum(number for _, _, number in part)) for part in parts]


class Durations:
    """What is known about many durations.

    >>> found = Durations(tally_of([10, 12, 14]))
    >>> found.count, found.mean, found.percentile(50)
    (3, datetime.timedelta(microseconds=12000), datetime.timedelta(microseconds=12000))
    """

    __slots__ = ("tally",)

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def __repr__(self) -> str:
        return f"<{self.count} durations, mean {self.mean}>"

    @property
    def count(self) -> int:
        return self.tally.count

    @property
    def mean(self) -> timedelta | None:
        return _length(mean(self.tally))

    @property
    def deviation(self) -> timedelta | None:
        """The standard deviation."""
        return _length(deviation(self.tally))

    def percentile(self, percent: float) -> timedelta | None:
        """What so many percent do not exceed, to within an eighth. None: none were seen, or the histogram is gone."""
        return _length(percentile(self.tally, percent))

    def at_most(self, percent: float) -> timedelta | None:
        """What so many percent are certainly below, where a dialect's bars are wide. None: they are not."""
        found = _bar_of(self.tally, percent) if self.tally.bars else None
        return None if found is None else _span(found[1])

    def histogram(self, bars: int = 12) -> list[tuple[timedelta, timedelta, int]]:
        """From, up to, how many; in steps that grow."""
        return [(_span(low), _span(high), number) for low, high, number in histogram(self.tally, bars)]


def _span(milliseconds: float) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def _length(milliseconds: float | None) -> timedelta | None:
    return None if milliseconds is None else _span(milliseconds)


class QueueStats(NamedTuple):
    """What happened in a queue on one day (UTC)."""

    queue: str
    day: date
    wait: Durations
    """Of jobs that were taken that day, and done since: from when their last run was due to when it began."""
    run: Durations
    """Of jobs that were done that day: how long their last run took."""
    retries: int
    failures: int
    """Jobs that failed that day."""
    failed: int
    """Of these, how many are failed still."""


def of_day(found: DayStats) -> QueueStats:
    """A day as a store tells it, for people who program."""
    return QueueStats(
        found.queue,
        date_of(found.day),
        Durations(found.wait),
        Durations(found.run),
        found.retries,
        found.failures,
        found.failed,
    )


def day_of(value: date | str | int | None, now: int) -> int:
    """A day (UTC) as the number that stores count days by; None is today.

    >>> day_of("2026-11-15", 0), day_of(None, DAY * 3 + 5)
    (20772, 3)
    """
    if value is None:
        return now // DAY
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise ConfigurationError(f"{value!r} is not a day. Write for example 2026-11-15.") from None
    if isinstance(value, datetime):
        value = value.astimezone(UTC).date()
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"A day is a date, text like '2026-11-15' or a number of days, not {value!r}.")
    return value


def date_of(day: int) -> date:
    return date.fromordinal(date(1970, 1, 1).toordinal() + day)
