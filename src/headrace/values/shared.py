"""Whole numbers in memory that processes share. A reader sees the old number or the new one, never a part of either.

`struct.pack_into` fills its place with zeros before it writes, and another process may look in between. So a number is
packed first, and copied in one go. That needs the machine's own order of bytes: others are copied byte by byte.
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct

NUMBER = Struct("q")


def read(memory: mmap, at: int) -> int:
    return int(NUMBER.unpack_from(memory, at)[0])


def write(memory: mmap, at: int, number: int) -> None:
    memory[at : at + 8] = NUMBER.pack(number)
