"""What a recurring phrase said, part by part, before it is put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.schedule.days import DayOfMonth
from headrace.schedule.times import Clock
from headrace.schedule.vocabulary import SECONDS_IN
from headrace.schedule.words import Spoken

SUB_DAY = ("second", "minute", "hour", "elapsed")
PERIODS = {"second": 60, "minute": 60, "hour": 24, "month": 12}


def fits(count: int, unit: str) -> bool:
    """Whether the fields of a calendar say such an interval: it divides the minute, hour, day or year evenly.

    What does not fit is a strict interval, which has an anchor.

    >>> fits(15, "minute"), fits(45, "minute"), fits(2, "day")
    (True, False, False)
    """
    return count < PERIODS[unit] and PERIODS[unit] % count == 0 if unit in PERIODS else count == 1


@dataclass(slots=True)
class Draft:
    """What a phrase said, part by part."""

    recurring: bool = False
    pace: tuple[int, str] | None = None
    """An interval shorter than a day; with the unit "elapsed" the count is in seconds."""
    interval: tuple[int, str] | None = None
    """An interval of days or longer."""
    weekdays: tuple[int, ...] = ()
    weekday_turns: tuple[tuple[int, int], ...] = ()
    without: tuple[int, ...] = ()
    """Weekdays that are left out."""
    of_month: DayOfMonth = field(default_factory=DayOfMonth)
    of_every_month: bool = False
    """'every 15th' needs no month."""
    nth: tuple[tuple[int, int], ...] = ()
    last_weekdays: tuple[int, ...] = ()
    months: tuple[int, ...] = ()
    year: int | None = None
    spoken: tuple[Spoken, ...] = ()
    """Times of day as they were said."""
    part: str = ""
    """The part of the day that was named."""
    times_a_day: int | None = None
    clocks: tuple[Clock, ...] = ()
    """Times of day as they are meant."""
    marks: tuple[int, ...] = ()
    window: tuple[int, int] | None = None
    """First and last minute of the day, both included."""
    start: tuple[int, int, int] | None = None
    start_clock: Clock | None = None
    """'starting at 2am', without a date."""

    @property
    def by_date(self) -> bool:
        return self.of_month != DayOfMonth()

    @property
    def by_weekday(self) -> bool:
        return bool(self.weekdays or self.weekday_turns)

    @property
    def by_nth(self) -> bool:
        return bool(self.nth or self.last_weekdays)

    @property
    def by_day(self) -> bool:
        return self.by_date or self.by_weekday or self.by_nth

    @property
    def pace_seconds(self) -> int:
        assert self.pace is not None
        count, unit = self.pace
        return count if unit == "elapsed" else count * SECONDS_IN[unit]
