"""The process that has a file's write lock: nothing ends its transaction but the process itself, so people must know.

The kernel lists locks in /proc. To ask for one through a descriptor of the file would be no good: a process that closes
any loses its own locks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_WRITER = 120  # the byte of the log's index that SQLite locks to write
_STATES = {"T": " and is stopped: kill -CONT {0}, or end it", "t": " and is stopped by a debugger"}


def in_words(path: str, locks: str = "/proc/locks") -> str:
    """Who has kept a file locked, as a sentence that begins with a space; '' if that can't be found out."""
    with suppress(OSError, ValueError):
        file, index = _name(path), _name(f"{path}-shm")
        for line in Path(locks).read_text(encoding="ascii").splitlines():
            _, kind, _, how, pid, locked, *span = line.split()  # (of a process that waits, the second is an arrow)
            if how != "WRITE" or int(pid) in (-1, os.getpid()):
                continue
            whole = kind == "FLOCK" and locked == file
            if whole or (kind == "POSIX" and locked == index and int(span[0]) <= _WRITER <= int(span[1])):
                return f" It is process {pid}{_about(int(pid))}."
    return ""


def _name(path: str) -> str:
    """A file as the list of locks has it."""
    found = os.stat(path)
    return f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"


def _about(pid: int) -> str:
    """The program that a process runs, and what state it is in."""
    name, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").partition("(")[2].rpartition(")")
    shown = "".join(char if char.isprintable() else "?" for char in name)
    return f" ({shown}), which holds it{_STATES.get(rest.split()[0], '').format(pid)}"
