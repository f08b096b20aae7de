"""When a job runs: cron texts to milliseconds and back, and what time it is at the server.

The server's clock is the one that counts. Every reply tells it; in between it is reckoned with this machine's steady
clock, so that neither a wrong nor a jumping clock here matters.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from headrace.schedule import Calendar, ScheduleError, parse_cron7
from headrace.values.clock import Clock, SystemClock
from headrace.values.durations import LATEST

PUBLISHED, CUCKOO = "workkit", "cuckoo"
ORDERS = (PUBLISHED, CUCKOO)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
TRUSTED = 60_000
"""Milliseconds after which the server is asked for its time again."""


def as_moment(milliseconds: float) -> datetime:
    """
    >>> str(as_moment(1893553445000))
    '2030-01-02 03:04:05+00:00'
    """
    return _EPOCH + timedelta(milliseconds=in_reach(milliseconds))


def in_reach(milliseconds: float) -> float:
    """A score may be any number, infinity included: brought between 1970 and 9999.

    >>> in_reach(float("-inf")), in_reach(5.5)
    (0, 5.5)
    """
    return min(max(milliseconds, 0), LATEST)


def as_milliseconds(moment: datetime) -> int:
    """A fraction is rounded up, so that nothing starts early."""
    return -((_EPOCH - moment) // _MILLISECOND)


def cron_of(milliseconds: int) -> str:
    """The cron of one second. A fraction is rounded up, so that nothing starts early.

    >>> cron_of(1893553444001)
    '2030 1 2 * 3 4 5'
    """
    moment = as_moment(-(-milliseconds // 1000) * 1000)
    return f"{moment.year} {moment.month} {moment.day} * {moment.hour} {moment.minute} {moment.second}"


@lru_cache(4096)
def read_cron(text: str, order: str = PUBLISHED) -> Calendar:
    """A cron text as it stands in a payload. Raises `ScheduleError` in words.

    >>> read_cron("5 4 3 1 2 ? 2030", "cuckoo") == read_cron("2030 1 2 * 3 4 5")
    True
    """
    if order == CUCKOO:
        fields = text.split()
        if len(fields) == 5:
            fields = ["0", *fields]
        if len(fields) == 6:
            fields.append("*")
        if len(fields) != 7:
            raise ScheduleError(f"'{text}' has {len(fields)} fields; cuckoo's cron has 5 to 7, from second to year")
        second, minute, hour, month, day, weekday, year = fields
        text = " ".join((year, month, day, weekday, hour, minute, second))
    return parse_cron7(text)


def in_order(cron: str, order: str) -> str:
    """A cron in the published order as a schedule's payloads have it.

    >>> in_order("2030 1 2 * 3 4 5", "cuckoo")
    '5 4 3 1 2 * 2030'
    """
    if order == PUBLISHED:
        return cron
    year, month, day, weekday, hour, minute, second = cron.split()
    return " ".join((second, minute, hour, month, day, weekday, year))


def next_time(cron: Calendar, now: int, *, inclusive: bool = False) -> int | None:
    """The first time after the present second, for what has just run. `inclusive`: or in it, for insertion."""
    moment = cron.next(as_moment(now), inclusive=inclusive)
    return None if moment is None else as_milliseconds(moment)


class Timekeeper:
    """The server's time, reckoned from what it last said.

    >>> from headrace.values.clock import ManualClock
    >>> keeper = Timekeeper(ManualClock(now=5_000))
    >>> keeper.now()
    5000
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self.steady = SystemClock().steady if clock is None else clock.steady
        self._ahead: int | None = None
        self._told_at = 0
        self._last = 0

    def told(self, now: int) -> None:
        self._told_at = self.steady()
        self._ahead = now - self._told_at

    @property
    def knows(self) -> bool:
        """Whether `now` can be trusted; if not, ask the server anything."""
        return self._clock is not None or (self._ahead is not None and self.steady() - self._told_at < TRUSTED)

    def now(self) -> int:
        if self._clock is not None:
            return self._clock.now()
        assert self._ahead is not None
        return self.steady() + self._ahead

    def instants(self, count: int) -> list[int]:
        """Scores of that many jobs that are due now, first in, first out: the milliseconds up to now.

        They grow from call to call. None is in the future, so the order of more than one job a millisecond is not kept.

        >>> from headrace.values.clock import ManualClock
        >>> keeper = Timekeeper(ManualClock(now=5_000))
        >>> keeper.instants(3), keeper.instants(1)
        ([4998, 4999, 5000], [5000])
        """
        now = self.now()
        first = max(self._last + 1, now - count + 1)
        self._last = min(first + count - 1, now)
        return [min(first + place, now) for place in range(count)]
