"""What stands in the keys. A raw job is a JSON array of an id and a payload; its bytes are its identity.

A time, in the progress and broken hashes, is a JSON string of UTC in ISO 8601, quotes included. Our scripts write six
digits after the point; here is read what any peer may have written.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from uuid import uuid4

import msgspec
from msgspec import Raw

PHANTOM = b"false"
"""What released workers write into the progress hash when there is nothing to do. It is never a job."""

_decoder = msgspec.json.Decoder(tuple[str, Raw])
_whole = json.JSONDecoder()
_BLANK = " \t\r\n"
_TIME = re.compile(
    rb'\s*"(?P<date>\d{4,}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{0,12}))?)?'
    rb'\s*(?P<zone>Z|[+-]\d\d:?\d\d)"\s*'
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PICOSECONDS = 10**12


class BrokenEntry(ValueError):
    """An entry that is no raw job. Says why."""


def new_id() -> str:
    """A fresh random UUID, as producers must write it."""
    return str(uuid4())


def write(job_id: str, payload: bytes) -> bytes:
    """A raw job, without insignificant white space around its two elements. The payload is JSON already.

    >>> write("0f1e", b"[]")
    b'["0f1e",[]]'
    """
    return b'["%s",%s]' % (job_id.encode(), payload)


def read(raw: bytes) -> tuple[str, bytes]:
    """The id and the payload of an entry. The first JSON value counts; what comes after it is ignored.

    >>> read(b' [ "a" , {"n": 1} ] and more')
    ('a', b'{"n": 1}')
    >>> read(b'["a"]')
    Traceback (most recent call last):
    headrace.dialects.hworker.wire.BrokenEntry: Expected `array` of length 2, got 1
    """
    try:
        raw.decode()
        try:
            job_id, payload = _decoder.decode(raw)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            job_id, payload = _decoder.decode(_first_value(raw))
    except (ValueError, RecursionError) as error:
        raise BrokenEntry(str(error)) from None
    return job_id, bytes(payload)


def _first_value(raw: bytes) -> bytes:
    text = raw.decode().lstrip(_BLANK)
    _, end = _whole.raw_decode(text)
    return text[:end].encode()


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
