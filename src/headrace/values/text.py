"""Times, lengths of time and numbers as they are shown: to people in words, to programs in ISO 8601."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def shown_seconds(at: int) -> float:
    """Seconds that have a date: a damaged job may be of a year that has none."""
    return min(max(at, 0), 253_370_764_800_000) / 1000


def iso(at: int | None) -> str | None:
    """For programs: ISO 8601 in UTC.

    >>> iso(1_700_000_000_123), iso(-(2**62))
    ('2023-11-14T22:13:20.123Z', '1970-01-01T00:00:00.000Z')
    """
    if at is None:
        return None
    return datetime.fromtimestamp(shown_seconds(at), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(at: int | None, now: int | None = None) -> str:
    """For people: local time with its zone, and how far away that is."""
    if at is None:
        return ""
    now = now_ms() if now is None else now
    then = datetime.fromtimestamp(shown_seconds(at)).astimezone()
    same_day = then.date() == datetime.fromtimestamp(now / 1000).astimezone().date()
    return f"{then.strftime('%H:%M:%S %Z' if same_day else '%Y-%m-%d %H:%M:%S %Z')} ({ago(at, now)})"


def ago(at: int, now: int) -> str:
    """How far away a time is.

    >>> ago(1_000_000, 1_180_000), ago(1_180_000, 1_000_000), ago(5, 5)
    ('3 min ago', 'in 3 min', 'just now')
    """
    distance = abs(now - at)
    if distance < 1000:
        return "just now"
    return f"{length(distance)} ago" if at < now else f"in {length(distance)}"


def length(milliseconds: int) -> str:
    """A length of time in one unit.

    >>> length(250), length(90_000), length(7_200_000), length(864_000_000)
    ('250 ms', '90 s', '2 h', '10 days')
    """
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    for unit, size, least in (("days", 86_400, 2), ("h", 3600, 2), ("min", 60, 2)):
        if seconds >= size * least:
            return f"{seconds / size:.0f} {unit}"
    return f"{f'{seconds:.1f}'.removesuffix('.0') if seconds < 10 else f'{seconds:.0f}'} s"


def percent(progress: tuple[float, float]) -> str:
    """How far a job is.

    >>> percent((3.0, 4.0))
    '75 % (3 of 4)'
    """
    done, total = progress
    return f"{100 * done / total:.0f} % ({done:g} of {total:g})" if total else f"{done:g}"


def count_of(number: int, noun: str) -> str:
    """
    >>> count_of(1, "job"), count_of(2000, "job")
    ('1 job', '2,000 jobs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
