"""Text from the wire. Other clients may send bytes that are no UTF-8, in any place: they must not end anything here."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_ODD = re.compile("[\udc80-\udcff]")
"""What bytes that are no UTF-8 are decoded to."""


def understood(text: bytes, *, exact: bool) -> Any:
    r"""What JSON text says. Odd bytes are written out, for people; if it is to be `exact` they are in surrogates, which
    only `to_the_wire` and `shown` can take.

    >>> odd = b'["caf' + bytes([0xE9]) + b'"]'
    >>> understood(odd, exact=False), understood(odd, exact=True)
    (['caf\\xe9'], ['caf\udce9'])
    """
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        odd = text.decode(errors="surrogateescape")
        return json.loads(odd if exact else _ODD.sub(lambda byte: rf"\\x{ord(byte[0]) & 0xFF:02x}", odd))


def shown(text: str) -> str:
    r"""One text from the wire, for people.

    >>> shown("caf\udce9")
    'caf\\xe9'
    """
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def to_the_wire(text: str) -> str | msgspec.Raw:
    """A name that came from the wire, for MessagePack: as the bytes that it was."""
    try:
        text.encode()
    except UnicodeEncodeError:
        odd = text.encode(errors="surrogateescape")
        return msgspec.Raw(b"\xdb" + len(odd).to_bytes(4, "big") + odd)
    return text
