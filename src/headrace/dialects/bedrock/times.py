"""Time as Bedrock writes it: UTC text, `YYYY-MM-DD HH:MM:SS`, compared as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from headrace.schedule.errors import ScheduleError
from headrace.schedule.repeat import parse_modifier, parse_repeat

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?)?", re.ASCII)


def write_moment(milliseconds: int) -> str:
    """With milliseconds: what `nextRun` is compared with.

    >>> write_moment(1_772_359_200_123)
    '2026-03-01 10:00:00.123'
    """
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}"


def write_seconds(moment: datetime) -> str:
    """In whole seconds, as all computed times are."""
    return moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")


def read_moment(text: str | int | float | None) -> datetime | None:
    """The moment that a text names: a date, or a date and a time; None for anything else.

    >>> read_moment("2014-12-29").isoformat()
    '2014-12-29T00:00:00+00:00'
    """
    found = _MOMENT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    date, clock, seconds, fraction = found.groups()
    try:
        return datetime.fromisoformat(f"{date}T{clock or '00:00'}:{seconds or '00'}.{(fraction or '0')[:6]:0<6}+00:00")
    except ValueError:
        return None


def next_run(repeat: str, *, scheduled: str | None, started: str | None, finished: datetime) -> str | None:
    """When a job repeats, or None when that cannot be said."""
    try:
        rule = parse_repeat(repeat)
        moment = rule.next(scheduled=read_moment(scheduled), started=read_moment(started), finished=finished)
    except ScheduleError:
        return None
    return None if moment is None else write_seconds(moment)


def shift(modifier: str, moment: datetime) -> str | None:
    """A moment moved by a `retryAfter`, or None when that leaves the calendar."""
    try:
        return write_seconds(parse_modifier(modifier).apply(moment.replace(microsecond=0)))
    except (ScheduleError, OverflowError, ValueError):
        return None
