"""Classic cron: five fields, or six with the second first.

Fields: [second] minute hour day-of-month month day-of-week. Names, ranges, steps and lists; ``L``, ``LW`` and
``15W`` for the day of the month; ``5L`` and ``MON#2`` for the day of the week, where 0 and 7 are Sunday.

The day rule is the one of classic cron: when both day fields are given a day matches if *either* does, but
when one of them begins with a star (``*/2`` too) both must match.
"""

from __future__ import annotations

import re
from dataclasses import replace
from zoneinfo import ZoneInfo

from headrace.schedule import fields
from headrace.schedule.days import DayOfMonth, DayOfWeek, Days
from headrace.schedule.errors import ScheduleError
from headrace.schedule.fields import Field, Kind, complain, read_field, read_value, split_fields
from headrace.schedule.schedules import Calendar
from headrace.schedule.times import Times
from headrace.schedule.vocabulary import WEEKDAYS

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Read with 7 as a second Sunday, so that 5-7 and SAT-SUN are ranges.
_DAY_OF_WEEK = Kind("day of week", 0, 7, 6, WEEKDAYS)
_NTH = re.compile(r"(\w+)#(\w+)", re.ASCII)


def parse_cron(text: str, tz: ZoneInfo) -> Calendar:
    """Read classic cron text, or a macro such as ``@daily``.

    >>> parse_cron("0 12 L * *", ZoneInfo("UTC")).echo()
    'on the last day of every month at 12:00 UTC'
    """
    parts = split_fields(text)
    if len(parts) == 1 and parts[0].startswith("@"):
        macro = MACROS.get(parts[0].lower())
        if macro is None:
            raise ScheduleError(f"'{parts[0]}' is not a cron macro; there are {', '.join(MACROS)}")
        parts = macro.split()
    if len(parts) == 5:
        parts = ["0", *parts]
    if len(parts) != 6:
        raise ScheduleError(f"'{text}' has {len(parts)} fields; classic cron has 5, or 6 with the second first")
    second = read_field(parts[0], fields.SECOND)
    minute = read_field(parts[1], fields.MINUTE)
    hour = read_field(parts[2], fields.HOUR)
    month = read_field(parts[4], fields.MONTH)
    of_month, month_field = _day_of_month(parts[3])
    # A range that ends on Sunday by name (SAT-SUN) ends on 7.
    named = re.sub(r"-sun(day)?\b", "-7", parts[5], flags=re.IGNORECASE)
    of_week, week_field = read_day_of_week(named, _DAY_OF_WEEK)
    both = month_field.starred or week_field.starred
    days = join_days(Days(months=month.values, of_month=of_month, of_week=of_week, both=both))
    return Calendar(days, times_of(hour, minute, second), tz)


def times_of(hour: Field, minute: Field, second: Field) -> Times:
    """The times of the day of three fields."""
    return Times(
        hours=hour.values,
        minutes=minute.values,
        seconds=second.values,
        hour_turns=tuple(turn for turn in hour.turns if turn[1] <= 31),
        minute_turns=tuple(turn for turn in minute.turns if turn[1] <= 24),
        second_turns=tuple(turn for turn in second.turns if turn[1] <= 60),
        running=any(part.starred or part.full for part in (hour, minute, second)),
    )


def join_days(days: Days) -> Days:
    """Drop day parts that don't restrict, so that equal schedules are equal values."""
    of_month, of_week, both = days.of_month, days.of_week, days.both
    if not both and of_month is not None and of_week is not None:  # a part that never matches adds nothing
        of_month, of_week = (None, of_week) if of_month == DayOfMonth() else (of_month, of_week)
        of_month, of_week = (of_month, None) if of_month and of_week == DayOfWeek() else (of_month, of_week)
    every_date = of_month is not None and len(of_month.values) == 31
    every_weekday = of_week is not None and len(of_week.values) == 7
    if of_month is not None and of_week is not None and not both and (every_date or every_weekday):
        return replace(days, of_month=None, of_week=None)
    of_month = None if every_date else of_month
    of_week = None if every_weekday else of_week
    both = both and of_month is not None and of_week is not None
    return replace(days, of_month=of_month, of_week=of_week, both=both)


def _day_of_month(text: str) -> tuple[DayOfMonth | None, Field]:
    nearest: set[int] = set()
    lasts: set[str] = set()

    def special(item: str) -> bool:
        upper = item.upper()
        if upper in ("L", "LW"):
            lasts.add(upper)
        elif upper.endswith("W"):
            nearest.add(read_value(item[:-1], item, fields.DAY_OF_MONTH))
        else:
            return False
        return True

    field = read_field(text, fields.DAY_OF_MONTH, special=special)
    if field.free:
        return None, field
    return DayOfMonth(
        values=field.values,
        last="L" in lasts,
        last_workday="LW" in lasts,
        nearest_workdays=tuple(sorted(nearest)),
    ), field


def read_day_of_week(text: str, kind: Kind, *, turns: bool = False) -> tuple[DayOfWeek | None, Field]:
    """Read a weekday field, with ``5#2`` and ``5L``."""
    nth: set[tuple[int, int]] = set()
    lasts: set[int] = set()

    def special(item: str) -> bool:
        if match := _NTH.fullmatch(item):
            if match[2] not in ("1", "2", "3", "4", "5"):
                raise complain(item, kind, "after '#' comes 1 to 5")
            nth.add((read_value(match[1], item, kind) % 7, int(match[2])))
        elif len(item) > 1 and item[-1] in "lL" and item.lower() not in kind.names:
            lasts.add(read_value(item[:-1], item, kind) % 7)
        else:
            return False
        return True

    field = read_field(text, kind, special=special, turns=turns)
    if field.free:
        return None, field
    values = tuple(sorted({value % 7 for value in field.values}))
    return DayOfWeek(
        values=values,
        turns=tuple(turn for turn in field.turns if turn[1] <= 5),
        nth=tuple(sorted(pair for pair in nth if pair[0] not in values)),
        last=tuple(sorted(weekday for weekday in lasts if weekday not in values)),
    ), field
