"""WorkKit's phrases: one time or recurring, to the seven-field cron that WorkKit stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headrace.schedule.errors import ScheduleError
from headrace.schedule.instant import parse_instant
from headrace.schedule.phrase import parse_phrase, says_recurring

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
        schedule = parse_phrase(text, _UTC)
        if schedule.cron7 is None or schedule.tz.key != "UTC":
            raise ScheduleError(f"no single WorkKit cron says '{text}', which headrace knows as '{schedule}'")
        return schedule.cron7
    moment = parse_instant(text, now=now, tz=_UTC)
    this_second = now.replace(microsecond=0)
    if moment == now:
        moment = this_second
    elif moment < this_second:
        raise ScheduleError(f"'{text}' can't be kept: it has passed")
    elif moment.microsecond:  # rounded up, so that a delay is never short
        moment = moment.replace(microsecond=0) + timedelta(seconds=1)
    return f"{moment.year} {moment.month} {moment.day} * {moment.hour} {moment.minute} {moment.second}"
