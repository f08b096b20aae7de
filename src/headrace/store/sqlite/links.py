"""Whether an open file still has a name, at a third of the cost of `fstat`.

After `fstat` has read the time of the last change, Linux has to take the time of the next write exactly, and a put is
13 % slower. `statx` can ask for the number of names alone. Python does not have it, so it is called in libc.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_EMPTY_PATH, _DONT_SYNC = 0x1000, 0x4000
_NLINK = 4  # in the mask: this field is asked for
_NLINK_AT = 4  # in the answer, in words of 32 bits
_SIZE = 256


def nameless(file: int) -> Callable[[], bool]:
    """A function that answers, whenever it is called, whether an open file has been deleted."""

    def by_fstat() -> bool:
        return not os.fstat(file).st_nlink

    try:
        statx = ctypes.PyDLL(None).statx  # it keeps the interpreter's lock: to release it takes as long as the call
    except (OSError, AttributeError):
        return by_fstat
    buffer = ctypes.create_string_buffer(_SIZE)
    words = memoryview(buffer).cast("B").cast("I")
    values = (file, b"", _EMPTY_PATH | _DONT_SYNC, _NLINK, ctypes.c_void_p(ctypes.addressof(buffer)))

    def by_statx() -> bool:
        return statx(*values) != 0 or not words[_NLINK_AT]

    return by_fstat if by_statx() else by_statx
