"""What a worker process holds on a wire that knows no owner, written where its supervisor reads it after a kill -9.

Who holds a job there is known to its process alone. So the store (a `Custodian`) writes down by what each lease can be
given back: a member and its score, a raw job and its time.

Two files in shared memory, of which one counts. Each begins with all that is held, and goes on with what has changed
since. When that has grown long the other one is begun anew: until its beginning is complete, the former one counts.
What was not written to its end has a wrong checksum, and is left out.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Any

import msgspec

from headrace.records import Ref
from headrace.worker.ledger import shared_file

_FRAME = Struct("<II")  # length and checksum of what follows
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[Ref], dict[Ref, list[Any]]]).decode

ROOM = 1 << 20
"""Bytes of changes after which a file is begun anew; or as many as all that is held takes, if that is more."""


class Custody:
    """Written by the worker process, read by its supervisor."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self.descriptors = tuple(descriptors)
        self._held: dict[Ref, Sequence[Any]] = {}
        self._number = 0
        """How many files have been begun. The last one counts."""
        self._end = self._most = 0

    @classmethod
    def shared(cls) -> Custody:
        """One whose descriptors can be inherited."""
        return cls([shared_file("headrace-custody") for _ in range(2)])

    # -- the worker's side --

    def keep(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        """All that is held now, by ref. What has changed is written when this returns."""
        before = self._held
        gone = [ref for ref in before if ref not in held]
        changed = {ref: fence for ref, fence in held.items() if before.get(ref) != fence}
        if not gone and not changed:
            return
        self._held = dict(held)
        if self._end >= self._most:
            self._number += 1
            self._end = 0
            os.ftruncate(self._descriptor, 0)
            self._write([], self._held)
            self._most = self._end + max(self._end, ROOM)
        else:
            self._write(gone, changed)

    @property
    def _descriptor(self) -> int:
        return self.descriptors[self._number % 2]

    def _write(self, gone: list[Ref], held: Mapping[Ref, Sequence[Any]]) -> None:
        packed = _encode((self._number, gone, held))
        frame = memoryview(_FRAME.pack(len(packed), zlib.crc32(packed)) + packed)
        while frame:
            written = os.pwrite(self._descriptor, frame, self._end)
            self._end += written
            frame = frame[written:]

    # -- the supervisor's side --

    def held(self) -> dict[Ref, list[Any]]:
        """What the process held, as its store wrote it."""
        files = [frames for descriptor in self.descriptors if (frames := list(_frames(descriptor)))]
        found: dict[Ref, list[Any]] = {}
        for _, gone, held in max(files, key=lambda frames: frames[0][0], default=[]):
            for ref in gone:
                found.pop(ref, None)
            found.update(held)
        return found

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def _frames(descriptor: int) -> Iterator[tuple[int, list[Ref], dict[Ref, list[Any]]]]:
    """What a file says, up to where it ends or was not written to its end."""
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    at = 0
    while at + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, at)
        at += _FRAME.size
        packed = content[at : at + length]
        if len(packed) < length or zlib.crc32(packed) != checksum:
            return
        at += length
        yield _decode(packed)


class Crashes:
    """How often jobs took their process with them, as a supervisor has seen it: these wires have no place for it.

    Twice such a job goes back at once; then, until it has been good for a while, it is left to the end of its lease.
    Otherwise one that kills every process that runs it would do so without a pause.
    """

    AT_ONCE = 2
    FORGOTTEN_AFTER = 600.0
    """Seconds without a crash."""
    REMEMBERED = 10_000

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def goes_back(self, job: str) -> bool:
        """Count a crash. Whether the job goes back at once."""
        now = time.monotonic()
        count, at = self._seen.pop(job, (0, now))
        count = 1 if now - at > self.FORGOTTEN_AFTER else count + 1
        self._seen[job] = count, now
        if len(self._seen) > self.REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return count <= self.AT_ONCE
