"""From clocks on the wall to instants: the daylight-saving rule, for every kind of schedule.

A schedule is written in wall-clock time. Twice a year most zones break the wall clock: in spring an hour
is missing (a *gap*), in autumn an hour comes twice (an *overlap*). One rule decides what runs then:

* **Fixed times** ("every day at 2:30", ``30 2 * * *``) run exactly once a day. A time inside a gap runs at
  the first valid instant after it (03:00), and several such times run there once together. A time inside
  an overlap runs on its first pass only.
* **Running patterns** ("every 15 minutes", ``*/15 2 * * *``, ``0 * * * *``) follow the clock hand: they run
  at every real instant whose wall clock matches. In a gap there is no such instant and nothing is made up
  for; in an overlap both passes count. So an hourly job runs every real hour.

A pattern is running when its hour, minute or second is written with a star (``*``, ``*/n``) or names every
value. Intervals that no clock shows ("every 90 minutes") count elapsed time and don't meet the rule at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headrace.schedule.errors import ScheduleError

SECOND = timedelta(seconds=1)
ZONE_NAME = re.compile(r"UTC|GMT|[A-Za-z_]+(?:/[A-Za-z][A-Za-z0-9_+-]*)+", re.IGNORECASE)

NextWall = Callable[[datetime], datetime | None]
"""Finds the first matching wall-clock second at or after a naive one."""


def zone(name: ZoneInfo | str) -> ZoneInfo:
    """The zone of that name; a zone made without a name (from a file) is refused, as it can't be stored.

    >>> zone("Europe/Zurich")
    zoneinfo.ZoneInfo(key='Europe/Zurich')
    """
    key = name if isinstance(name, str) else getattr(name, "key", None)
    if not key:
        raise ScheduleError(f"{name!r} is not a named time zone; use ZoneInfo('Area/City') or ZoneInfo('UTC')")
    try:
        return ZoneInfo(key.upper() if key.upper() in ("UTC", "GMT") else key)
    except (OSError, ValueError, LookupError):
        raise ScheduleError(f"{key!r} is not a known time zone; write one such as 'Europe/Zurich' or 'UTC'") from None


def to_instant(wall: datetime, tz: ZoneInfo) -> datetime:
    """The instant of a fixed wall-clock time: the first pass, or the first valid instant after a gap.

    >>> to_instant(datetime(2026, 3, 29, 2, 30), ZoneInfo("Europe/Zurich"))
    datetime.datetime(2026, 3, 29, 1, 0, tzinfo=datetime.timezone.utc)
    """
    first, second = _offsets(wall, tz)
    if first < second:
        whole = wall.replace(microsecond=0)
        return _transition(whole - second, whole - first, tz).replace(tzinfo=UTC)
    return (wall - first).replace(tzinfo=UTC)


def next_instant(find: NextWall, after: datetime, tz: ZoneInfo, *, running: bool) -> datetime | None:
    """The first instant strictly after ``after`` at which a wall-clock pattern runs in a zone.

    OverflowError when that leaves the calendar.
    """
    start = after.astimezone(UTC).replace(microsecond=0) + SECOND
    local = start.astimezone(tz)
    second_pass = bool(local.fold)
    wall = local.replace(tzinfo=None, fold=0)

    # Only a start inside an overlap needs care: from anywhere before it, both passes lie ahead and the
    # first one shows every wall-clock time of the second.
    if in_overlap(wall, tz):
        overlap_start, overlap_end = _overlap(wall, tz)
        if not running:
            wall = overlap_end if second_pass else wall
        else:
            found = find(wall)
            if not second_pass and (found is None or found >= overlap_end):
                found, second_pass = find(overlap_start), True
            if found is not None and found < overlap_end:
                return (found - _offsets(found, tz)[second_pass]).replace(tzinfo=UTC)
            wall = overlap_end

    while (found := find(wall)) is not None:
        before, after_change = _offsets(found, tz)
        if not running or before >= after_change:
            return to_instant(found, tz)
        change = _transition(found - after_change, found - before, tz)
        wall = change + after_change  # the clock hand jumps over the gap, and so do we
    return None


def in_overlap(wall: datetime, tz: ZoneInfo) -> bool:
    """Whether the wall clock shows this time twice."""
    first, second = _offsets(wall, tz)
    return first > second


def gap_before(instant: datetime, tz: ZoneInfo) -> tuple[datetime, datetime] | None:
    """The wall-clock gap ``[start, end)`` that ends exactly at an instant, if one does."""
    moment = instant.astimezone(UTC).replace(tzinfo=None)
    before, now = _offset_at(moment - SECOND, tz), _offset_at(moment, tz)
    return (moment + before, moment + now) if before < now else None


def _offsets(wall: datetime, tz: ZoneInfo) -> tuple[timedelta, timedelta]:
    """UTC offsets of the first and second reading; first < second in a gap, first > second in an overlap."""
    first, second = wall.replace(tzinfo=tz, fold=0).utcoffset(), wall.replace(tzinfo=tz, fold=1).utcoffset()
    assert first is not None
    assert second is not None
    return first, second


def _offset_at(moment: datetime, tz: ZoneInfo) -> timedelta:
    offset = moment.replace(tzinfo=UTC).astimezone(tz).utcoffset()
    assert offset is not None
    return offset


def _overlap(wall: datetime, tz: ZoneInfo) -> tuple[datetime, datetime]:
    first, second = _offsets(wall, tz)
    change = _transition(wall - first, wall - second, tz)
    return change + second, change + first


def _transition(low: datetime, high: datetime, tz: ZoneInfo) -> datetime:
    """The second in ``(low, high]`` (naive UTC) at which the offset changes, by halving."""
    before = _offset_at(low, tz)
    while high - low > SECOND:
        middle = low + timedelta(seconds=(high - low) // SECOND // 2)
        if _offset_at(middle, tz) == before:
            low = middle
        else:
            high = middle
    return high
