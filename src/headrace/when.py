"""What users write where a time or a duration is asked for, in milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headrace.errors import ConfigurationError
from headrace.schedule import ScheduleError, parse_duration, parse_instant

Duration = float | timedelta | str
Instant = datetime | timedelta | float | str

LATEST = 253_402_300_799_000  # the last second of the year 9999


def milliseconds(value: Duration, what: str) -> int:
    """A duration in milliseconds.

    >>> milliseconds("1h30m", "timeout")
    5400000
    """
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta | str):
        raise ConfigurationError(f"{what} takes seconds, a timedelta or words like '5 minutes', not {value!r}.")
    try:
        length = parse_duration(value)
    except (ScheduleError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{what}: {error}") from None
    if length < timedelta(0):
        raise ConfigurationError(f"{what} cannot be negative: {value!r}.")
    return round(length.total_seconds() * 1000)


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
        return None, _in_range(milliseconds(value, what), what)
    if isinstance(value, str):
        try:
            return None, _in_range(milliseconds(value.removeprefix("in "), what), what)
        except ConfigurationError:
            pass  # not a duration: then it is an instant, or nothing
    try:
        instant = parse_instant(value, now=datetime.fromtimestamp(now / 1000, UTC), tz=zone)
    except (ScheduleError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{what}: {error}") from None
    return _in_range(round(instant.timestamp() * 1000), what), None


def _in_range(value: int, what: str) -> int:
    if not 0 <= value <= LATEST:
        raise ConfigurationError(f"{what} must be between the years 1970 and 9999.")
    return value


def as_datetime(value: int | None) -> datetime | None:
    """A store's time as an aware datetime."""
    return None if value is None else datetime.fromtimestamp(value / 1000, UTC)
