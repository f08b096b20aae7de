"""In and out rates of queues: how many jobs came in and how many ended in the last minute.

They are derived from jobs that are kept. What goes is counted as it goes, by slots of time, if it came or ended in the
last minute; so no job is missed, and a put or an exchange writes nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from headrace.store.contract import Operation

SLOT = 5_000
"""Milliseconds. Slots are numbered since 1970."""
SLOTS = 12
"""How many slots before the present one are looked at."""

Row = tuple[str, int, int]
"""A queue, a slot of time, and how many jobs came or ended in it."""
Gone = tuple[str, int, int, int]
"""A queue, a slot of time, how many jobs came in it and how many ended, of those that are gone."""


class Moved(Struct, frozen=True):
    """How many jobs of which queue came in, or ended, since a moment."""

    queues: dict[str, int]
    since: int
    """A minute ago, to the slot; or later, where there were too many to look at."""


class Throughput(Struct, frozen=True):
    """What came in and what ended, at one moment of the store's clock."""

    now: int
    came: Moved
    ended: Moved


class Measuring(Protocol):
    """A store that can tell how many jobs come and go."""

    def throughput(self) -> Operation[Throughput]:
        """How many jobs of each queue came in and how many ended in the last minute."""


class Rate(Struct, frozen=True):
    """Jobs per second, measured over so many seconds."""

    per_second: float
    seconds: float


class QueueRates(Struct, frozen=True):
    """The rates of a queue in the last minute."""

    come: Rate
    go: Rate


NO_RATES = QueueRates(Rate(0.0, SLOTS * SLOT / 1_000), Rate(0.0, SLOTS * SLOT / 1_000))
"""Those of a queue in which nothing came or ended."""


def first_slot(now: int) -> int:
    """The first slot of the last minute."""
    return now // SLOT - SLOTS


def throughput_of(
    now: int, most: int, came: Sequence[Row], ended: Sequence[Sequence[Row]], gone: Iterable[Gone]
) -> Throughput:
    """From what is kept, one look for each way to end, and from what is gone. A look goes through `most` jobs.

    >>> throughput_of(100_000, 9, [("mail", 9, 2), ("mail", 20, 3)], [], [("mail", 10, 4, 1)])
    Throughput(now=100000, came=Moved(queues={'mail': 9}, since=40000), ended=Moved(queues={'mail': 1}, since=40000))
    >>> throughput_of(100_000, 5, [("mail", 9, 2), ("mail", 20, 3)], [], [("mail", 10, 4, 1)]).came
    Moved(queues={'mail': 7}, since=50000)
    """
    gone = list(gone)
    come = [(queue, slot, number) for queue, slot, number, _ in gone]
    go = [(queue, slot, number) for queue, slot, _, number in gone]
    return Throughput(now, _moved(now, most, [came], come), _moved(now, most, ended, go))


def _moved(now: int, most: int, looks: Sequence[Sequence[Row]], gone: Sequence[Row]) -> Moved:
    """A look that has met as many as it may has not gone through all of its first slot: that does not count."""
    first = first_slot(now)
    for look in looks:
        if sum(number for _, _, number in look) >= most:
            first = max(first, min(min(slot for _, slot, _ in look) + 1, now // SLOT))
    queues: dict[str, int] = {}
    for rows in (*looks, gone):
        for queue, slot, number in rows:
            if slot >= first and number:
                queues[queue] = queues.get(queue, 0) + number
    return Moved(queues, first * SLOT)


def rates_of(found: Throughput, queue: str) -> QueueRates:
    """The rates of one queue.

    >>> found = Throughput(100_000, Moved({"mail": 30}, 40_000), Moved({}, 90_000))
    >>> rates_of(found, "mail")
    QueueRates(come=Rate(per_second=0.5, seconds=60.0), go=Rate(per_second=0.0, seconds=10.0))
    """

    def rate(moved: Moved) -> Rate:
        seconds = max(found.now - moved.since, 1_000) / 1_000
        return Rate(moved.queues.get(queue, 0) / seconds, seconds)

    return QueueRates(rate(found.came), rate(found.ended))
