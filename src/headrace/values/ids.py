"""Job ids: version 7 UUIDs as 32 hexadecimal digits, so that they sort by the time they were made."""

from __future__ import annotations

import os
import struct
import time

from headrace.locks import reentrant_lock

_lock = reentrant_lock()  # a signal handler may make an id while its own thread does
_last = 0
_random: list[int] = []
"""Random numbers not used yet: asking the system for many at once costs hardly more than for one."""

_NUMBERS = struct.Struct("=64Q")
_ID = struct.Struct(">QQ")


os.register_at_fork(after_in_child=_random.clear)  # a child takes numbers of its own


def new_id() -> str:
    """A fresh id. Ids made by one process sort in the order they were made.

    >>> first, second = new_id(), new_id()
    >>> first < second, len(first)
    (True, 32)
    """
    global _last  # noqa: PLW0603  (the last id is what makes the next one larger)
    # 48 bits of milliseconds, then 12 bits that count within one: borrowed from the future when they run out.
    now = (time.time_ns() // 1_000_000) << 12
    with _lock:
        _last = now if now > _last else _last + 1
        stamp = _last
        if not _random:
            _random.extend(_NUMBERS.unpack(os.urandom(_NUMBERS.size)))
        random = _random.pop()
    return _ID.pack(
        stamp >> 12 << 16 | 0x7000 | stamp & 0xFFF, random & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    ).hex()
