"""What users write where a time or a duration is asked for, in milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from headrace.errors import ConfigurationError

# The language of schedules is imported when words are used: a worker process that needs none starts sooner.

Duration = float | timedelta | str
Instant = datetime | timedelta | float | str

MOST_STARTS = 10_000
"""The most that a rate may allow within its period."""
LATEST = 253_402_300_799_000  # the last second of the year 9999
LONGEST = timedelta(days=8_000 * 365)


def milliseconds(value: Duration, what: str) -> int:
    """A duration in milliseconds.

    >>> milliseconds("1h30m", "timeout")
    5400000
    """
    return round(seconds(value, what) * 1000)


def seconds(value: Duration, what: str) -> float:
    """A duration in seconds.

    >>> seconds("half an hour", "timeout")
    1800.0
    """
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta | str):
        raise ConfigurationError(f"{what} takes seconds, a timedelta or words like '5 minutes', not {value!r}.")
    try:
        length = _length(value)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{what}: {error}") from None
    if length > LONGEST:
        raise ConfigurationError(f"{what} must be shorter than 8,000 years.")
    return length.total_seconds()


def _length(value: Duration) -> timedelta:
    if isinstance(value, timedelta) and value >= timedelta(0):
        return value
    if isinstance(value, int | float) and 0 <= value < 1e9:
        return timedelta(seconds=value)
    from headrace.schedule import parse_duration  # noqa: PLC0415

    return parse_duration(value)


def doubled(first: float, times: int, most: float) -> float:
    """Seconds to pause: twice as long each time, up to a bound, however often that was.

    >>> doubled(0.05, 3, most=2.0), doubled(0.05, 10_000, most=2.0)
    (0.4, 2.0)
    """
    return min(first * 2.0 ** min(times, 60), most)


def moment(value: Instant, zone: ZoneInfo, what: str, now: int) -> tuple[int | None, int | None]:
    """When something is to run: as an instant, or as a delay that the store's own clock will count.

    >>> moment(90, ZoneInfo("UTC"), "run_after", now=0)
    (None, 90000)
    >>> moment("noon tomorrow", ZoneInfo("UTC"), "run_after", now=0)
    (129600000, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta | str | datetime):
        raise ConfigurationError(f"{what} takes a datetime, a timedelta, seconds or words, not {value!r}.")
    if isinstance(value, int | float | timedelta):
        return None, milliseconds(value, what)
    if isinstance(value, str):
        try:
            return None, milliseconds(value.removeprefix("in "), what)
        except ConfigurationError:
            pass  # not a duration: then it is an instant, or nothing
    from headrace.schedule import parse_instant  # noqa: PLC0415

    try:
        instant = parse_instant(value, now=datetime.fromtimestamp(now / 1000, UTC), tz=zone)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{what}: {error}") from None
    at = round(instant.timestamp() * 1000)
    if not 0 <= at <= LATEST:
        raise ConfigurationError(f"{what} must be between the years 1970 and 9999.")
    return at, None


def as_datetime(value: int | None) -> datetime | None:
    """A store's time as an aware datetime."""
    return None if value is None else datetime.fromtimestamp(value / 1000, UTC)


def parse_rate(rate: object) -> tuple[int, int]:
    """How many starts within how many milliseconds.

    >>> parse_rate("10/minute"), parse_rate("100 per 5 seconds"), parse_rate((3, 60))
    ((10, 60000), (100, 5000), (3, 60000))
    """
    starts: Any = None
    if isinstance(rate, str) and (match := _RATE.fullmatch(rate.strip())):
        starts, period = int(match[1]), match[2]
        per = milliseconds(period if period[0].isdigit() else f"1 {period}", "rate")
    elif isinstance(rate, tuple) and len(rate) == 2:
        starts, per = rate[0], milliseconds(rate[1], "rate")
    else:
        raise ConfigurationError(f"rate is written like '10/minute' or (10, '1 minute'), not {rate!r}.")
    if isinstance(starts, bool) or not isinstance(starts, int) or not 1 <= starts <= MOST_STARTS:
        raise ConfigurationError(f"rate allows 1 to {MOST_STARTS:,} starts per period, not {starts!r}.")
    if per < 1:
        raise ConfigurationError("rate needs a period of at least a millisecond.")
    return starts, per


_RATE = re.compile(r"(\d{1,9})\s*(?:/|per)\s*(\S.*)")
