"""Times as they stand in the progress and broken hashes: a JSON string of UTC in ISO 8601, quotes included.

Our scripts write them (six digits after the point); this module reads what any peer may have written.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_TIME = re.compile(
    rb'\s*"(?P<date>\d{4,}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{0,12}))?)?'
    rb'\s*(?P<zone>Z|[+-]\d\d:?\d\d)"\s*'
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PICOSECONDS = 10**12


def read_time(value: bytes) -> int | None:
    """Picoseconds since 1970 (peers write up to twelve digits after the point); None if it cannot be read.

    >>> read_time(b'"1970-01-01T00:00:01.5Z"')
    1500000000000
    >>> read_time(b'"1970-01-01 01:00+01:00"')
    0
    >>> read_time(b"yesterday") is None
    True
    """
    found = _TIME.fullmatch(value)
    if found is None:
        return None
    # A leap second is read as the first moment of the next minute.
    second = int(found["second"] or 0)
    if second > 60:
        return None
    try:
        zone = _zone(found["zone"].decode())
        minute = datetime.fromisoformat(f"{found['date'].decode()}T{found['clock'].decode()}").replace(tzinfo=zone)
    except ValueError:
        return None
    whole = (minute - _EPOCH) // timedelta(seconds=1) + second
    fraction = (found["fraction"] or b"").ljust(12, b"0")
    return whole * _PICOSECONDS + int(fraction)


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))


def to_milliseconds(value: bytes) -> int | None:
    read = read_time(value)
    return None if read is None else read // 10**9


def to_datetime(value: bytes) -> datetime | None:
    read = read_time(value)
    return None if read is None else _EPOCH + timedelta(microseconds=read // 10**6)
