"""Which days a schedule runs on: the date half of every calendar pattern."""

from __future__ import annotations

from bisect import bisect_left
from calendar import isleap, monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

FIRST_YEAR, LAST_YEAR = 1970, 2099
EPOCH = date(1970, 1, 1)
ALL_MONTHS = tuple(range(1, 13))

StrideUnit = Literal["day", "week", "month", "year"]
Turn = tuple[int, int]
"""``(v, n)``: the n-th, 2n-th, 3n-th ... occurrence of v in its period; WorkKit's ``v/n``."""


@dataclass(frozen=True, slots=True)
class DayOfMonth:
    """Days picked by their number: a day matches when any of the parts does."""

    values: tuple[int, ...] = ()
    turns: tuple[Turn, ...] = ()
    to_last: tuple[tuple[int, int], ...] = ()
    """``(v, n)``: every n-th day from v to the end of the month (``v-L/n``)."""
    last: bool = False
    nearest_workdays: tuple[int, ...] = ()
    """``15W``: the Monday-to-Friday day nearest the 15th, in the same month."""
    last_workday: bool = False

    def matching(self, month: int, length: int, first: int, leap: bool) -> set[int]:
        """The matching days of a month of that length whose first day is weekday ``first`` (0 = Sunday)."""
        days = {day for day in self.values if day <= length}
        for value, n in self.turns:
            if value <= length and _months_with_day(value, month, leap) % n == 0:
                days.add(value)
        for value, step in self.to_last:
            days.update(range(value, length + 1, step))
        if self.last:
            days.add(length)
        days.update(_nearest_workday(day, length, first) for day in self.nearest_workdays if day <= length)
        if self.last_workday:
            days.add(_nearest_workday(length, length, first))
        return days


@dataclass(frozen=True, slots=True)
class DayOfWeek:
    """Days picked by their weekday, 0 = Sunday: a day matches when any of the parts does."""

    values: tuple[int, ...] = ()
    turns: tuple[Turn, ...] = ()
    nth: tuple[tuple[int, int], ...] = ()
    """``(weekday, k)``: only the k-th such day of the month."""
    last: tuple[int, ...] = ()
    """Weekdays of which only the month's last counts."""

    def matching(self, length: int, first: int) -> set[int]:
        """The matching days of a month of that length whose first day is weekday ``first``."""
        days: set[int] = set()
        for weekday in self.values:
            days.update(_each(weekday, length, first))
        for weekday, n in self.turns:
            days.update(_each(weekday, length, first)[n - 1 :: n])
        for weekday, k in self.nth:
            days.update(_each(weekday, length, first)[k - 1 : k])
        for weekday in self.last:
            days.add(_each(weekday, length, first)[-1])
        return days


@dataclass(frozen=True, slots=True)
class Stride:
    """Every n-th day, week (from Monday), month or year, counted from that of ``start``; never before it."""

    unit: StrideUnit
    count: int
    start: date | None = None
    """None: not anchored yet (see ``anchors.py``); until then it counts from 1970."""
    timed: bool = True
    """Whether a time of day was said; if not, the anchor gives it."""

    @property
    def origin(self) -> date:
        return self.start or EPOCH

    def next_period(self, day: date) -> date:
        """The day itself when its period counts, else the first day of the next period that does."""
        day = max(day, self.origin)
        ahead = -self._index(day) % self.count
        if not ahead:
            return day
        if self.unit == "year":
            return date(day.year + ahead, 1, 1)
        if self.unit == "month":
            months = day.year * 12 + day.month - 1 + ahead
            return date(months // 12, months % 12 + 1, 1)
        days = ahead if self.unit == "day" else ahead * 7 - day.weekday()
        return day + timedelta(days=days)

    def _index(self, day: date) -> int:
        start = self.origin
        if self.unit == "year":
            return day.year - start.year
        if self.unit == "month":
            return (day.year - start.year) * 12 + day.month - start.month
        if self.unit == "day":
            return (day - start).days
        return (day.toordinal() - day.weekday() - start.toordinal() + start.weekday()) // 7


@dataclass(frozen=True, slots=True)
class Days:
    """A set of dates. ``None`` for a part means that it does not restrict."""

    years: tuple[int, ...] | None = None
    months: tuple[int, ...] = ALL_MONTHS
    month_turns: tuple[Turn, ...] = ()
    of_month: DayOfMonth | None = None
    of_week: DayOfWeek | None = None
    both: bool = False
    """With both day parts given: must both match (True), or is either enough (cron's union)?"""
    stride: Stride | None = None

    def on_or_after(self, start: date, usable: frozenset[int]) -> date | None:
        """The first matching date from ``start`` on whose day of the month is ``usable``."""
        try:
            while True:
                if self.stride:
                    start = self.stride.next_period(start)
                found = self._rest_of_year(start, usable) or self._later_year(start.year, usable)
                if found is None or self.stride is None or self.stride.next_period(found) == found:
                    return found
                start = found
        except (OverflowError, ValueError):  # past the year 9999
            return None

    def _rest_of_year(self, start: date, usable: frozenset[int]) -> date | None:
        """Month by month, since the answer is nearly always in this one or the next."""
        if start.year not in self._years_from(start.year):
            return None
        for month in range(start.month, 13):
            if self._has_month(month, start.year):
                earliest = start.day if month == start.month else 1
                days = self._days_of(start.year, month, usable)
                day = min((day for day in days if day >= earliest), default=None)
                if day is not None:
                    return date(start.year, month, day)
        return None

    def _later_year(self, year: int, usable: frozenset[int]) -> date | None:
        """Year by year, about a microsecond each, so that even a hopeless search soon ends.

        The days of a year depend only on its length and its first weekday, so at most fourteen kinds of year
        are ever worked out.
        """
        wanted = sorted({*self.months, *(value for value, _ in self.month_turns)})
        kinds: dict[tuple[bool, int], list[tuple[int, int]]] = {}
        for later in self._years_from(year + 1):
            kind = (isleap(later), date(later, 1, 1).weekday())
            if kind not in kinds:
                days = [(month, self._days_of(later, month, usable)) for month in wanted]
                kinds[kind] = [(month, min(found)) for month, found in days if found]
            for month, day in kinds[kind]:
                if self._has_month(month, later):
                    return date(later, month, day)
        return None

    def _years_from(self, year: int) -> Sequence[int]:
        if self.years is None:
            return range(max(year, FIRST_YEAR), LAST_YEAR + 1)
        return self.years[bisect_left(self.years, year) :]

    def _has_month(self, month: int, year: int) -> bool:
        if month in self.months:
            return True
        return any(month == value and (year - 1969) % n == 0 for value, n in self.month_turns)

    def _days_of(self, year: int, month: int, usable: frozenset[int]) -> frozenset[int]:
        monday_based, length = monthrange(year, month)
        first = (monday_based + 1) % 7
        every = set(range(1, length + 1))
        by_number = every if self.of_month is None else self.of_month.matching(month, length, first, isleap(year))
        by_weekday = every if self.of_week is None else self.of_week.matching(length, first)
        if self.both or self.of_month is None or self.of_week is None:
            return usable & by_number & by_weekday
        return usable & (by_number | by_weekday)


def _each(weekday: int, length: int, first: int) -> range:
    """The days of a month that fall on a weekday."""
    return range((weekday - first) % 7 + 1, length + 1, 7)


def _months_with_day(day: int, month: int, leap: bool) -> int:
    """How many months from January to this one have such a day."""
    return sum(day <= monthrange(2000 if leap else 2001, each)[1] for each in range(1, month + 1))


def _nearest_workday(day: int, length: int, first: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
