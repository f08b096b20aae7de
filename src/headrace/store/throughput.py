"""In and out rates of queues: how many jobs came in and how many ended, derived from jobs that are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from headrace.store.contract import Operation

MINUTE, HOUR = 60_000, 3_600_000

Row = tuple[str, int, int, int, int]
"""Of the jobs that one look goes through: a queue, how many it has, the moment of the first, how many are of the last
minute and how many of the last hour."""


class Moved(Struct, frozen=True):
    """How many jobs of which queue came in, or ended."""

    queues: dict[str, tuple[int, int]]
    """In the last minute, and in the last hour."""
    since: int
    """How far back the look went: an hour, or less where it met too many jobs."""


class Throughput(Struct, frozen=True):
    """What came in and what ended, at one moment of the store's clock."""

    now: int
    came: Moved
    ended: Moved


class Measuring(Protocol):
    """A store that can tell how many jobs come and go."""

    def throughput(self) -> Operation[Throughput]:
        """How many jobs of each queue came in and how many ended in the last minute and the last hour."""


class Rate(Struct, frozen=True):
    """Jobs per second, measured over so many seconds."""

    per_second: float
    seconds: float


class QueueRates(Struct, frozen=True):
    """The rates of a queue."""

    in_minute: Rate
    out_minute: Rate
    in_hour: Rate
    out_hour: Rate


def counted(looks: Iterable[Iterable[Row]], now: int, most: int) -> Moved:
    """What several looks have found, each of which ends after `most` jobs.

    >>> counted([[("mail", 2, 5_000_000, 1, 2), ("web", 1, 4_000_000, 0, 1)]], 5_050_000, 3)
    Moved(queues={'mail': (1, 2), 'web': (0, 1)}, since=4000000)
    """
    queues: dict[str, tuple[int, int]] = {}
    since = now - HOUR
    for look in looks:
        rows = list(look)
        for queue, _, _, minute, hour in rows:
            if hour:
                before = queues.get(queue, (0, 0))
                queues[queue] = before[0] + minute, before[1] + hour
        if sum(row[1] for row in rows) >= most:
            since = max(since, min(row[2] for row in rows))
    return Moved(queues, since)


def rates_of(found: Throughput, queue: str) -> QueueRates:
    """The rates of one queue.

    >>> found = Throughput(100_000, Moved({"mail": (30, 90)}, 10_000), Moved({}, 0))
    >>> rates_of(found, "mail").in_minute, rates_of(found, "mail").in_hour
    (Rate(per_second=0.5, seconds=60.0), Rate(per_second=1.0, seconds=90.0))
    """
    rates = []
    for which, span in enumerate((MINUTE, HOUR)):
        for moved in (found.came, found.ended):
            seconds = max(min(span, found.now - moved.since), 1_000) / 1_000
            rates.append(Rate(moved.queues.get(queue, (0, 0))[which] / seconds, seconds))
    return QueueRates(*rates)
