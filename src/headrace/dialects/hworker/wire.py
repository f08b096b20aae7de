"""What stands in the keys. A raw job is a JSON array of an id and a payload; its bytes are its identity.

A time, in the progress and broken hashes, is a JSON string of UTC in ISO 8601, quotes included. Our scripts write six
digits after the point; here is read what any peer may have written.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
from msgspec import Raw

PHANTOM = b"false"
"""What released workers write into the progress hash when there is nothing to do. It is never a job."""

_decoder = msgspec.json.Decoder(tuple[str, Raw])
_whole = json.JSONDecoder()
_BLANK = " \t\r\n"
_text = msgspec.json.Decoder(str).decode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        text = raw.decode().lstrip(_BLANK)
        try:
            job_id, payload = _decoder.decode(raw)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            _, end = _whole.raw_decode(text)
            job_id, payload = _decoder.decode(text[:end].encode())
    except (ValueError, RecursionError) as error:
        raise BrokenEntry(str(error)) from None
    return job_id, bytes(payload)


def read_time(value: bytes) -> int | None:
    """Microseconds since 1970; None if it cannot be read.

    >>> read_time(b'"1970-01-01T00:00:01.5Z"'), read_time(b'"1970-01-01 01:00+01:00"'), read_time(b"yesterday")
    (1500000, 0, None)
    """
    moment = to_datetime(value)
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(value: bytes) -> datetime | None:
    """The moment. Peers write up to twelve digits after the point, of which six count."""
    try:
        # A leap second is read as the one before it.
        moment = datetime.fromisoformat(_text(value).replace(":60", ":59"))
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return None
