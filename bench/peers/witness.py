"""What the jobs do, whatever runs them. Imported by every peer's workers: needs nothing but the standard library.

Each is as cheap as can be: counting costs a fraction of a microsecond, in memory that is shared with the benchmark.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from pathlib import Path

SLOTS = 4096
"""One for each thread that ever ran a job."""
NAP = 0.005
"""Seconds that a job of the crash test takes, so that a kill finds many at work."""

_number = struct.Struct("<Q")


class _Tally(threading.local):
    """This thread's place in the shared memory: no two threads write to the same one, so no count gets lost."""

    def __init__(self) -> None:
        folder = Path(os.environ["BENCH_FOLDER"])
        # One byte appended takes one slot: that is atomic, also between processes.
        descriptor = os.open(folder / "taken", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, b".")
        self.offset = 8 * (os.lseek(descriptor, 0, os.SEEK_CUR) - 1)
        os.close(descriptor)
        with open(folder / "counts", "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8 * SLOTS)
        self.count = 0


_tally: _Tally | None = None


def _forget() -> None:
    global _tally  # noqa: PLW0603  (a forked worker must not write to its parent's slot)
    _tally = None


os.register_at_fork(after_in_child=_forget)


def count(_argument: object = None) -> None:
    """A no-op job."""
    global _tally  # noqa: PLW0603
    tally = _tally
    if tally is None:
        tally = _tally = _Tally()
    tally.count += 1
    _number.pack_into(tally.memory, tally.offset, tally.count)


def stamp(sent: float) -> None:
    """A job that tells how long ago it was sent."""
    _append("stamps", b"%.9f\n" % (time.time() - float(sent)))


def begin(number: int) -> None:
    """A job that tells that it has started."""
    _append("begun", b"%d\n" % int(number))


def mark(number: int) -> None:
    """A job that tells that it has ended."""
    _append("marks", b"%d %.6f\n" % (int(number), time.time()))


def _append(name: str, line: bytes) -> None:
    descriptor = os.open(Path(os.environ["BENCH_FOLDER"]) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line)
    os.close(descriptor)


class Reader:
    """The benchmark's side of a folder of witnesses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "counts").write_bytes(bytes(8 * SLOTS))
        with open(folder / "counts", "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8 * SLOTS)

    def counted(self) -> int:
        """How many no-op jobs have run."""
        taken = self._size("taken")
        return sum(struct.unpack_from(f"<{taken}Q", self._memory))

    def stamps(self) -> list[float]:
        """Seconds from enqueue to start, in order of the starts."""
        return [float(line) for line in self._lines("stamps")]

    def begun(self) -> set[int]:
        """Which jobs have started."""
        return set(map(int, self._lines("begun")))

    def marks(self) -> list[tuple[int, float]]:
        """Which jobs ran to their end, as often as they did, and when."""
        return [(int(number), float(at)) for number, at in map(bytes.split, self._lines("marks"))]

    def _lines(self, name: str) -> list[bytes]:
        """Those that are whole: somebody may just be writing another."""
        path = self.folder / name
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []

    def _size(self, name: str) -> int:
        path = self.folder / name
        return path.stat().st_size if path.exists() else 0
