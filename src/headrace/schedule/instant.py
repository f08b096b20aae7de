"""Instants: every way to say one point in time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headrace.schedule.duration import seconds
from headrace.schedule.errors import ScheduleError
from headrace.schedule.once import parse_once
from headrace.schedule.zone import to_instant, zone

_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?\s?(?:Z|UTC|[+-]\d{2}:?\d{2})?",
    re.IGNORECASE | re.ASCII,
)


def parse_instant(
    value: datetime | timedelta | int | float | str, *, now: datetime, tz: ZoneInfo | str = "UTC"
) -> datetime:
    """The instant that a value means when given at ``now``, in UTC.

    A datetime without zone is on the wall clock of ``tz``, and so are words. A timedelta or a number of
    seconds counts from now. A timestamp in digits (``2026-06-01``, ``2026-06-01 07:05:00``,
    ``2026-06-01T07:05Z``) is on that clock, too, unless it carries an offset; it may lie in the past, words may not.

    >>> noon = datetime(2026, 5, 14, 12, tzinfo=UTC)
    >>> parse_instant("7pm tomorrow", now=noon, tz="Europe/Zurich")
    datetime.datetime(2026, 5, 15, 17, 0, tzinfo=datetime.timezone.utc)
    >>> parse_instant(90, now=noon)
    datetime.datetime(2026, 5, 14, 12, 1, 30, tzinfo=datetime.timezone.utc)
    >>> parse_instant("2026-06-01 07:05:00", now=noon, tz="Europe/Zurich")
    datetime.datetime(2026, 6, 1, 5, 5, tzinfo=datetime.timezone.utc)
    """
    tz = zone(tz)
    if now.tzinfo is None:
        raise ScheduleError("'now' must say its zone; use datetime.now(UTC)")
    try:
        if isinstance(value, datetime):
            if value.tzinfo is not None:
                return value.astimezone(UTC)
            # The fold of a naive time picks the second pass of an overlap; nothing else can mean it.
            return value.replace(tzinfo=tz).astimezone(UTC) if value.fold else to_instant(value, tz)
        if isinstance(value, str):
            stripped = " ".join(value.split())
            if _TIMESTAMP.fullmatch(stripped):
                return _timestamp(stripped, tz)
            return parse_once(stripped, now=now, tz=tz)
        if not isinstance(value, timedelta | int | float):
            raise ScheduleError(
                f"{value!r} is not a time; give a datetime, a timedelta, seconds from now, or words like '7pm tomorrow'"
            )
        return now.astimezone(UTC) + seconds(value)
    except OverflowError:
        raise ScheduleError(f"{value!r} is beyond the years 1 to 9999") from None


def _timestamp(text: str, tz: ZoneInfo) -> datetime:
    try:
        moment = datetime.fromisoformat(re.sub(r"\s?(?:UTC|Z)$", "+00:00", text, flags=re.IGNORECASE))
    except ValueError as error:
        raise ScheduleError(f"'{text}' is not a time that exists: {error}") from None
    return moment.astimezone(UTC) if moment.tzinfo else to_instant(moment, tz)
