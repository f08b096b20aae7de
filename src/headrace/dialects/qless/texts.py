"""Text from the wire. Other clients may send bytes that are no UTF-8, in any place: they must not end anything here."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def from_the_wire(text: bytes) -> Any:
    """What JSON text says. Odd bytes are in surrogates, which only `to_the_wire` and `shown` can take.

    >>> from_the_wire(b'["caf' + bytes([0xE9]) + b'"]')
    ['caf\\udce9']
    """
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        return json.loads(text.decode(errors="surrogateescape"))


def for_people(text: bytes) -> Any:
    r"""The same, to be shown and stored anywhere: odd bytes are written out.

    >>> for_people(b'["caf' + bytes([0xE9]) + b'"]')
    ['caf\\xe9']
    """
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        return _all_shown(json.loads(text.decode(errors="surrogateescape")))


def shown(text: str) -> str:
    r"""One text from the wire, for people.

    >>> shown("caf\udce9")
    'caf\\xe9'
    """
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _all_shown(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [_all_shown(item) for item in value]
    if isinstance(value, dict):
        return {shown(name): _all_shown(item) for name, item in value.items()}
    return value


def to_the_wire(text: str) -> str | msgspec.Raw:
    """A name that came from the wire, for MessagePack: as the bytes that it was."""
    try:
        text.encode()
    except UnicodeEncodeError:
        odd = text.encode(errors="surrogateescape")
        return msgspec.Raw(b"\xdb" + len(odd).to_bytes(4, "big") + odd)
    return text
