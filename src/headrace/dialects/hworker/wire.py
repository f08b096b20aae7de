"""The raw job: a JSON array of an id and a payload. Its bytes are its identity and are never written anew."""

from __future__ import annotations

import json
from uuid import uuid4

import msgspec
from msgspec import Raw

PHANTOM = b"false"
"""What released workers write into the progress hash when there is nothing to do. It is never a job."""

_decoder = msgspec.json.Decoder(tuple[str, Raw])
_whole = json.JSONDecoder()
_BLANK = " \t\r\n"


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
