"""What a worker process holds, written where its supervisor can read it after its death.

Shared memory: the pump's beat, and an entry for each job whose function has been entered.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from typing import NamedTuple

from headrace.records import Ref
from headrace.values import shared

_HEADER = struct.Struct("qqqq")
"""The pump's last beat, whether it ended in good order, when it renewed its session, whether its worker is to stop."""
_BEAT_AT, _FAREWELL_AT, _RENEWED_AT, _STOP_AT = range(0, 32, 8)
_ENTRY = struct.Struct("qqq232s")  # kind of ref, deadline (0: none), ref as a number, or as text
_TEXTUAL = struct.Struct("qq232s")  # the same without the kind, which is written last: then the entry counts
_NUMBERED = struct.Struct("qq")  # and without the text: most refs are numbers
_REST = 8  # where an entry goes on after its kind
_UNUSED, _NUMBER, _TEXT = range(3)
_DONE, _RECYCLING, _BORN_TOO_LARGE = 1, 2, 3
"""Farewells."""
_NOWHERE = 0
ENTRIES = 1024
SIZE = _HEADER.size + ENTRIES * _ENTRY.size


class Entry(NamedTuple):
    """A job whose function has been entered."""

    ref: Ref
    deadline: int | None


class Ledger:
    """Written by the worker process, read by its supervisor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, SIZE)
        self._free = [_HEADER.size + place * _ENTRY.size for place in range(ENTRIES - 1, -1, -1)]

    @classmethod
    def shared(cls) -> Ledger:
        """A ledger whose descriptor can be inherited."""
        descriptor = shared_file("headrace-ledger")
        os.ftruncate(descriptor, SIZE)
        return cls(descriptor)

    # -- the worker's side --

    def beat(self, now: int) -> None:
        shared.write(self._map, _BEAT_AT, now)

    def renewed(self, sent: int) -> None:
        """The store has answered a request that renews the session and was sent then."""
        shared.write(self._map, _RENEWED_AT, sent)

    def ask_to_stop(self) -> None:
        """The store has said that the whole worker is to stop."""
        shared.write(self._map, _STOP_AT, 1)

    def enter(self, ref: Ref, began: int, limit: int | None) -> int:
        """Note that a job's function is entered; answers with the place to `leave`."""
        try:
            place = self._free.pop()
        except IndexError:
            return _NOWHERE  # more at once than the ledger has room for: these will count as not started
        deadline = 0 if limit is None else began + limit
        rest = place + _REST
        if isinstance(ref, int):
            self._map[rest : rest + _NUMBERED.size] = _NUMBERED.pack(deadline, ref)
            self._map[place] = _NUMBER
        else:
            self._map[rest : rest + _TEXTUAL.size] = _TEXTUAL.pack(deadline, 0, ref.encode())
            self._map[place] = _TEXT
        return place

    def leave(self, place: int) -> None:
        if place != _NOWHERE:
            self._map[place] = 0
            self._free.append(place)

    def say_farewell(self, *, recycling: bool, born_too_large: bool = False) -> None:
        """All is settled or given back: this is not a crash. `recycling`: another process should go on.

        `born_too_large`: the next one will have to make way as well.
        """
        farewell = _BORN_TOO_LARGE if born_too_large else _RECYCLING
        shared.write(self._map, _FAREWELL_AT, farewell if recycling else _DONE)

    # -- the supervisor's side --

    @property
    def last_beat(self) -> int:
        """The pump's last beat on the steady clock; 0 before the first."""
        return shared.read(self._map, _BEAT_AT)

    @property
    def last_renewal(self) -> int:
        """When the pump sent the last request that renewed its session, on the steady clock; 0 before the first."""
        return shared.read(self._map, _RENEWED_AT)

    @property
    def asks_to_stop(self) -> bool:
        """Whether the store has told the process that the whole worker is to stop."""
        return bool(shared.read(self._map, _STOP_AT))

    @property
    def said_farewell(self) -> bool:
        """Whether the process ended in good order. An exit code alone may come from a job that called `os._exit`."""
        return bool(shared.read(self._map, _FAREWELL_AT))

    @property
    def recycling(self) -> bool:
        """Whether it left work for a successor."""
        return shared.read(self._map, _FAREWELL_AT) > _DONE

    @property
    def born_too_large(self) -> bool:
        """Whether it makes way for one that will have to as well."""
        return shared.read(self._map, _FAREWELL_AT) == _BORN_TOO_LARGE

    def entries(self) -> list[Entry]:
        """The jobs whose functions have been entered and not left."""
        found = []
        for place in range(_HEADER.size, SIZE, _ENTRY.size):
            if (kind := self._map[place]) != _UNUSED:
                deadline, number, text = _TEXTUAL.unpack_from(self._map, place + _REST)
                # Of a long text it has the beginning, which may end within a character.
                ref = number if kind == _NUMBER else text.rstrip(b"\0").decode(errors="ignore")
                found.append(Entry(ref, deadline or None))
        return found

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)


def shared_file(name: str) -> int:
    """Memory that two processes share: a file without a name in any folder, gone when both are."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp(prefix=f"{name}-")  # macOS
    os.unlink(path)
    return descriptor
