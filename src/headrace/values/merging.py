"""Changes of one JSON object that were made at the same time: all count, unless they are of the same key."""

from __future__ import annotations

import msgspec

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def merged(base: bytes | None, mine: bytes, theirs: bytes | None) -> bytes:
    """What I have made of `base`, on top of what others have made of it meanwhile. No data counts as an empty object.

    The keys that I have added, changed or removed are as I have them, the others as they are there. Values that are not
    objects can't be merged: mine replaces theirs.

    >>> merged(b'{"a":1,"b":2}', b'{"a":5}', b'{"a":1,"b":2,"c":3}')
    b'{"a":5,"c":3}'
    >>> merged(b'{"a":1}', b"[1]", b'{"a":2}')
    b'[1]'
    """
    if theirs == base:
        return mine
    try:
        before, own, other = map(_parts, (base, mine, theirs))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return mine
    kept = {key: value for key, value in other.items() if key in own or key not in before}
    changed = {key: value for key, value in own.items() if before.get(key) != value}
    return _encode({key: msgspec.Raw(value) for key, value in {**kept, **changed}.items()})


def _parts(value: bytes | None) -> dict[str, bytes]:
    return {key: bytes(part) for key, part in _decode(value or b"{}").items()}
