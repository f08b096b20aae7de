"""WorkKit's cron: year month day-of-month day-of-week hour minute second.

``v/n`` means every n-th occurrence of v within the enclosing period, so ``0/2`` as a weekday is the 2nd and
4th Sunday of each month. When neither day field is exactly ``*`` or ``?``, a day matches if either does.
WorkKit itself computes in UTC; elsewhere in headrace the seven fields may be read in any zone.
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from headrace.schedule import fields
from headrace.schedule.cron import join_days, read_day_of_week, times_of
from headrace.schedule.days import FIRST_YEAR, LAST_YEAR, DayOfMonth, Days
from headrace.schedule.errors import ScheduleError
from headrace.schedule.fields import read_field, read_step, read_value, split_fields
from headrace.schedule.schedules import Calendar

_UTC = ZoneInfo("UTC")
_TO_LAST = re.compile(r"(\w+)-[lL](?:/(\d{1,9}))?", re.ASCII)
_EVERY_YEAR = tuple(range(FIRST_YEAR, LAST_YEAR + 1))


def parse_cron7(text: str, tz: ZoneInfo = _UTC) -> Calendar:
    """Read a seven-field cron text. One that never comes (30 February) is fine here: its ``next`` is None.

    >>> from datetime import UTC, datetime
    >>> cron = parse_cron7("2014 3 * 0/2,3 9-17 * */5")
    >>> cron.next(datetime(2014, 3, 5, 17, 59, 56, tzinfo=UTC))
    datetime.datetime(2014, 3, 9, 9, 0, tzinfo=datetime.timezone.utc)
    """
    parts = split_fields(text)
    if len(parts) != 7:
        raise ScheduleError(f"'{text}' has {len(parts)} fields; a WorkKit cron has 7, from year to second")
    year = read_field(parts[0], fields.YEAR, turns=True)
    month = read_field(parts[1], fields.MONTH, turns=True)
    of_month = _day_of_month(parts[2])
    of_week, _ = read_day_of_week(parts[3], fields.DAY_OF_WEEK, turns=True)
    times = times_of(
        read_field(parts[4], fields.HOUR, turns=True),
        read_field(parts[5], fields.MINUTE, turns=True),
        read_field(parts[6], fields.SECOND, turns=True),
    )
    years = None if year.values == _EVERY_YEAR else year.values
    days = Days(years, month.values, month.turns, of_month=of_month, of_week=of_week)
    return Calendar(join_days(days), times, tz)


def _day_of_month(text: str) -> DayOfMonth | None:
    to_last: set[tuple[int, int]] = set()
    lasts: set[str] = set()

    def special(item: str) -> bool:
        if item in ("L", "l"):
            lasts.add(item)
        elif match := _TO_LAST.fullmatch(item):
            step = read_step(match[2], item, fields.DAY_OF_MONTH)
            to_last.add((read_value(match[1], item, fields.DAY_OF_MONTH), step))
        else:
            return False
        return True

    field = read_field(text, fields.DAY_OF_MONTH, special=special, turns=True)
    if field.free:
        return None
    turns = tuple(turn for turn in field.turns if turn[1] <= 12)
    return DayOfMonth(values=field.values, turns=turns, to_last=tuple(sorted(to_last)), last=bool(lasts))
