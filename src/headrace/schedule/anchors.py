"""From when strict intervals count: 'every other Friday', 'every 3 days', 'every 7 minutes'.

No clock and no calendar says where these begin, so they are anchored when they are stored first: from then on the
schedule says when it started, and reads back as that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from headrace.schedule.days import Stride
from headrace.schedule.draft import fits
from headrace.schedule.schedules import Calendar, Elapsed, Schedule
from headrace.schedule.times import grid
from headrace.schedule.zone import SECOND, to_instant

_AN_HOUR = 3600


def is_open(schedule: Schedule) -> bool:
    """Whether a schedule still needs an anchor.

    >>> from headrace.schedule import parse
    >>> is_open(parse("every 7 minutes")), is_open(parse("every 10 minutes"))
    (True, False)
    """
    if isinstance(schedule, Elapsed):
        return schedule.start is None
    stride = _stride(schedule)
    return stride is not None and stride.start is None


def anchored(schedule: Schedule, now: datetime) -> Schedule:
    """The schedule as it is when stored at ``now`` for the first time: its first run is the first one after now.

    >>> from headrace.schedule import parse
    >>> now = datetime(2026, 11, 18, 14, 20, tzinfo=UTC)
    >>> anchored(parse("every other Friday at 9am"), now).echo()
    'every 2 weeks on Friday at 09:00 starting 2026-11-20 UTC'
    >>> anchored(parse("every 7 minutes"), now).echo()
    'every 7 minutes starting 2026-11-18 at 14:27 UTC'
    """
    if not is_open(schedule):
        return schedule
    now = now.astimezone(UTC).replace(microsecond=0)
    if isinstance(schedule, Elapsed):
        return anchored_at(schedule, now + timedelta(seconds=schedule.seconds))
    stride = _stride(schedule)
    if stride is None or stride.timed:
        return anchored_at(schedule, now + SECOND)
    wall = now.astimezone(schedule.tz).replace(tzinfo=None, fold=0)
    return anchored_at(schedule, to_instant(wall + timedelta(days=stride.count), schedule.tz))


def anchored_at(schedule: Schedule, start: datetime) -> Schedule:
    """The schedule with its first run at ``start``, or at the first of its times from there on.

    >>> from headrace.schedule import parse
    >>> anchored_at(parse("every 3 days"), datetime(2026, 11, 18, 9, 30, tzinfo=UTC)).echo()
    'every 3 days at 09:30 starting 2026-11-18 UTC'
    """
    start = start.astimezone(UTC).replace(microsecond=0)
    local = start.astimezone(schedule.tz)
    if isinstance(schedule, Elapsed):
        if local.fold:  # no words say the second pass of an hour that comes twice: count from a run before it
            start -= timedelta(seconds=-(-_AN_HOUR // schedule.seconds) * schedule.seconds)
        return replace(schedule, start=start)
    stride = _stride(schedule)
    if stride is None or not isinstance(schedule, Calendar):
        return schedule
    times = schedule.times if stride.timed else grid(((local.hour, local.minute, local.second),))
    first = Calendar(replace(schedule.days, stride=None), times, schedule.tz).next(start, inclusive=True)
    if first is None:
        return schedule
    stride = replace(stride, start=first.astimezone(schedule.tz).date(), timed=True)
    return replace(schedule, days=replace(schedule.days, stride=stride), times=times)


def opened(schedule: Schedule) -> Schedule:
    """The schedule without its anchor, if it is of the kind that needs one."""
    if isinstance(schedule, Elapsed):
        return replace(schedule, start=None)
    stride = _stride(schedule)
    if stride is None or fits(stride.count, stride.unit) or not isinstance(schedule, Calendar):
        return schedule
    return replace(schedule, days=replace(schedule.days, stride=replace(stride, start=None)))


def anchor_of(schedule: Schedule) -> datetime | None:
    """From when a schedule counts; None where that is not of its kind, or not known yet."""
    if isinstance(schedule, Elapsed):
        return schedule.start
    stride = _stride(schedule)
    if stride is None or stride.start is None:
        return None
    midnight = to_instant(datetime.combine(stride.start, datetime.min.time()), schedule.tz)
    return schedule.next(midnight, inclusive=True)


def _stride(schedule: Schedule) -> Stride | None:
    return schedule.days.stride if isinstance(schedule, Calendar) else None
