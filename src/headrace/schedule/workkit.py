"""WorkKit's phrases: one time or recurring, to the seven-field cron that WorkKit stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headrace.schedule.days import DayOfMonth, DayOfWeek, Stride
from headrace.schedule.errors import ScheduleError
from headrace.schedule.instant import parse_instant
from headrace.schedule.phrase import parse_phrase, says_recurring
from headrace.schedule.schedules import Calendar, Elapsed, Schedule

_UTC = ZoneInfo("UTC")


def cron7_of_phrase(text: str, now: datetime) -> str:
    """The seven-field cron that WorkKit stores for a phrase said at ``now``, in UTC.

    What no single such cron can say is refused, also where headrace's own schedules know it.

    >>> cron7_of_phrase("every 2nd Sunday at 9am", datetime(2026, 5, 14, tzinfo=UTC))
    '* * * 0/2 9 0 0'
    >>> cron7_of_phrase("in 5 minutes", datetime(2026, 5, 14, 10, 20, 30, tzinfo=UTC))
    '2026 5 14 * 10 25 30'
    """
    now = now.astimezone(UTC)
    if says_recurring(text):
        return cron7_of(parse_phrase(text, _UTC), text)
    moment = parse_instant(text, now=now, tz=_UTC)
    this_second = now.replace(microsecond=0)
    if moment == now:
        moment = this_second
    elif moment < this_second:
        raise ScheduleError(f"'{text}' can't be kept: it has passed")
    elif moment.microsecond:  # rounded up, so that a delay is never short
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    return f"{moment.year} {moment.month} {moment.day} * {moment.hour} {moment.minute} {moment.second}"


def cron7_of(schedule: Schedule, said: str) -> str:
    """The seven-field cron of a schedule, which was said in these words."""
    if schedule.cron7 is None or schedule.tz.key != "UTC":
        known = "" if said == str(schedule) else f", which headrace knows as '{schedule}'"
        raise ScheduleError(f"no single WorkKit cron says '{said}'{known}; {_instead(schedule)}")
    return schedule.cron7


def _instead(schedule: Schedule) -> str:
    """What to write in place of a phrase that the wire can't carry.

    A strict interval has a cron that comes near; it counts anew in each hour, day, month or year.
    """
    if schedule.tz.key != "UTC":
        return "say it in UTC, the only zone of this format, or keep it in a native store"
    if isinstance(schedule, Calendar) and schedule.times.window:
        return "give the window in whole hours, as in 'from 9am to 5pm', or keep it in a native store"
    nearest = None
    if isinstance(schedule, Elapsed):
        nearest = _nearest_pace(schedule.seconds)
    elif isinstance(schedule, Calendar) and schedule.days.stride is not None:
        nearest = _nearest_days(schedule, schedule.days.stride)
    if nearest is None:
        return "make it two schedules, or keep it in a native store"
    return (
        f"the cron that comes nearest is '{nearest}', which counts anew in each period; a native store keeps it exactly"
    )


def _nearest_pace(seconds: int) -> str | None:
    if seconds < 60:
        return f"* * * * * * */{seconds}"
    if seconds % 60 == 0 and seconds < 3600:
        return f"* * * * * */{seconds // 60} 0"
    if seconds % 3600 == 0 and seconds < 86400:
        return f"* * * * */{seconds // 3600} 0 0"
    return None


def _nearest_days(schedule: Calendar, stride: Stride) -> str | None:
    days = replace(schedule.days, stride=None)
    if stride.unit == "day" and stride.count < 31:
        days = replace(days, of_month=DayOfMonth(values=tuple(range(1, 32, stride.count))))
    elif stride.unit == "week" and stride.count <= 5 and days.of_week is not None:
        turns = tuple((weekday, stride.count) for weekday in days.of_week.values)
        days = replace(days, of_week=DayOfWeek(turns=turns))
    elif stride.unit == "month" and stride.count < 12:
        days = replace(days, months=tuple(range(1, 13, stride.count)))
    else:
        return None
    return replace(schedule, days=days).cron7
