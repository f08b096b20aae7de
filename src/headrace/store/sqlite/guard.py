"""What a process holds on a database file while it has it open, beside SQLite's own locks.

SQLite's locks belong to the process, and a process loses those on a file as soon as it closes any descriptor of it.
Another copy of SQLite in the same process, such as the one in Python's `sqlite3`, does that whenever it closes a
connection. It also takes itself for the only user of the file, and then deletes the log. So what matters is locked once
more, in ways that belong to a descriptor: closing another one does not touch them, and they count within the process.

* A byte of the range that SQLite locks to be the only user of a file: so no other copy is, and none deletes the log.
* The byte of the log's index that says that it is in use: so it is not cleared as a left-over.
* The file itself (`flock`), during a write transaction: there is one writer, even if its other lock is lost. That
  takes a tenth of a put, so it begins when a process with another copy of SQLite says so, in a byte that all share.
* During the same transaction, the byte of the log's index that SQLite locks to rebuild it. A reader that finds the head
  of the index half written does that, unless the writer's lock keeps it from it: and that is the lock that is lost.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import logging
import mmap
import os
import random
import stat
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import get_ident

from headrace.errors import StoreBusy, StoreReplaced
from headrace.locks import reentrant_lock
from headrace.store.sqlite import writer

PATIENCE = 10.0
"""Seconds to wait for another process' write transaction. Ours last milliseconds."""

_FILES = ("", "-shm", "-wal")
_SHARED = 0x4000_0002  # the first byte that SQLite locks in a file that is in use
_IN_USE = 128  # its "dead man's switch"
_REBUILD = 122  # its lock for "recovery"
_HEAD_SIZE = 48  # of the log's index, which has it twice
_IS_SET = 12  # where the head says that it is one
_LOCK = struct.Struct("hhqqi")  # struct flock
_SET = getattr(fcntl, "F_OFD_SETLK", None)  # Linux: elsewhere it is noticed, not prevented

_BUSY = "{} has been locked by another process for {:.0f} seconds.{}"
_UNKNOWN = " Is a long transaction open in another program, or a backup running?"
INTERRUPTED = (
    "{} is in the middle of a transaction of this very thread, which this code interrupts (a signal handler, or "
    "__del__). Nothing was done. Set a flag there and enqueue where it is seen, or enqueue in a thread."
)
log = logging.getLogger("headrace.store")
REPLACED = (
    "{} was deleted or replaced while it was in use. (Its -wal and -shm files are part of it.) What was in the old "
    "file may not be in this one. This request was not done."
)


def busy(path: str) -> StoreBusy:
    """Another process has kept the file locked for too long: which one, and what can be done about it."""
    return StoreBusy(_BUSY.format(path, PATIENCE, writer.in_words(path) or _UNKNOWN))


def nap(attempt: int) -> None:
    """Sleep a little before looking once more whether another process has done writing.

    SQLite's own back-off sleeps too long for transactions that last a fraction of a millisecond.
    """
    time.sleep(random.uniform(0.0001, min(0.0002 * (attempt + 1), 0.005)))  # noqa: S311


def make_run_folder(folder: Path, mode: int) -> None:
    """Make the folder beside the file. Users that may write the file may write here.

    `PermissionError`: it belongs to a stranger, who may put other files under the names that are opened there.
    """
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in _trusted(folder):
            _refuse(folder, found.st_uid)
        return
    with suppress(OSError):
        folder.chmod(mode | (mode & 0o444) >> 2)


def _trusted(folder: Path) -> set[int]:
    """Users whose folder is used: this one, root, and the owner of the file, who may write there anyway."""
    users = {os.geteuid(), 0}
    with suppress(OSError):
        users.add(os.stat(str(folder).removesuffix("-run")).st_uid)
    return users


_refused: set[Path] = set()


def _refuse(folder: Path, user: int) -> None:
    words = f"{folder} is not used: it was made by another user (number {user}), who does not own the file beside it."
    if folder not in _refused:
        _refused.add(folder)
        log.warning("%s Wake-ups take up to a second longer. Remove it.", words)
    raise PermissionError(words)


def open_beside(path: Path | str, mode: int, *, create: bool = True) -> int:
    """Open a file in that folder: no link that leads elsewhere, and nothing but a file. A new one gets this mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise PermissionError(f"{path} is a link.")
    if create and found.st_size == 0 and found.st_uid == os.geteuid():
        with suppress(OSError):
            os.fchmod(descriptor, mode)
    return descriptor


def _shared_byte(folder: Path, mode: int) -> mmap.mmap | bytearray:
    """0 until a process with another copy of SQLite has come. Where nothing can be shared it is 1."""
    try:
        make_run_folder(folder, mode & 0o666)
        file = open_beside(folder / "copies", mode & 0o666)
        try:
            if os.fstat(file).st_size == 0:
                os.ftruncate(file, 1)
            return mmap.mmap(file, 1)
        finally:
            os.close(file)
    except OSError:
        return bytearray(b"\1")


class Hold:
    """One per process and file, shared by all connections; without files for a database that has no log."""

    def __init__(self, path: str, *, log: bool = True) -> None:
        self.path = path
        self.turn = reentrant_lock()
        """Held by the thread that writes."""
        self.gone = False
        """The log was deleted: what is written to it now is lost."""
        self.connections = 0
        self._shared: mmap.mmap | bytearray | None = None
        self._said = not log
        self.locked = False
        """Other processes are kept out."""
        self._files: list[int] = []
        self.log_is_deleted: Callable[[], bool] = lambda: False
        if log:
            self._open()

    def _open(self) -> None:
        try:
            for end in _FILES:
                self._files.append(os.open(self.path + end, os.O_RDONLY | os.O_CLOEXEC))
            self.log_is_deleted = nameless(self._files[2])
            self._lock(fcntl.F_RDLCK)
        except FileNotFoundError as error:
            self.close()
            raise StoreReplaced(REPLACED.format(self.path)) from error
        except BaseException:
            self.close()
            raise

    def _lock(self, kind: int) -> None:
        for file, byte in zip(self._files, (_SHARED, _IN_USE), strict=False):
            self._lock_byte(file, byte, kind, time.monotonic())

    def _lock_byte(self, file: int, byte: int, kind: int, since: float) -> None:
        if _SET is not None:
            lock = _LOCK.pack(kind, os.SEEK_SET, byte, 1, 0)
            self._insist(partial(fcntl.fcntl, file, _SET, lock), since)

    def _insist(self, act: Callable[[], object], since: float) -> None:
        """Try until it can be done. `since`: from when on it has been tried."""
        for attempt in itertools.count():
            try:
                act()
            except BlockingIOError:
                if time.monotonic() - since > PATIENCE:
                    raise busy(self.path) from None
            else:
                return
            nap(attempt)

    def file(self) -> tuple[int, int]:
        """Device and inode, which stay with a file that is renamed or deleted."""
        found = os.fstat(self._files[0])
        return found.st_dev, found.st_ino

    def keep_others_out(self, since: float) -> None:
        """Other processes write when this one has done, if one of them has another copy of SQLite (or may have).

        `since`: from when on it has been waiting.
        """
        if not self._said and ("_sqlite3" in sys.modules or "pysqlite3" in sys.modules or self._shared is None):
            self._look_for_copies()
        if self._shared is not None and self._shared[0]:
            self.lock(since)

    def lock(self, since: float) -> None:
        """Keep other processes out, whether they have another copy of SQLite or not."""
        self._insist(partial(fcntl.flock, self._files[0], fcntl.LOCK_EX | fcntl.LOCK_NB), since)
        self.locked = True
        try:
            if self._index_is_whole():  # else this transaction rebuilds it: its last writer was killed
                self._lock_byte(self._files[1], _REBUILD, fcntl.F_RDLCK, since)
        except BaseException:
            self.let_others_in()
            raise

    def let_others_in(self) -> None:
        self.locked = False
        self._lock_byte(self._files[1], _REBUILD, fcntl.F_UNLCK, time.monotonic())
        fcntl.flock(self._files[0], fcntl.LOCK_UN)

    def _index_is_whole(self) -> bool:
        heads = os.pread(self._files[1], 2 * _HEAD_SIZE, 0)
        first, second = heads[:_HEAD_SIZE], heads[_HEAD_SIZE:]
        return first == second and first[_IS_SET : _IS_SET + 1] == b"\1"

    def _look_for_copies(self) -> None:
        if self._files and self._shared is None:
            self._shared = _shared_byte(Path(f"{self.path}-run"), stat.S_IMODE(os.fstat(self._files[0]).st_mode))
        if self._shared is not None and ("_sqlite3" in sys.modules or "pysqlite3" in sys.modules):
            self._shared[0] = 1
            self._said = True

    def lost(self) -> bool:
        """Whether the log was deleted: then what was just committed is nowhere."""
        self.gone = self.gone or self.log_is_deleted()
        return self.gone

    def moved(self) -> bool:
        """Whether other files are now where ours were. (Slower, but it also finds what was renamed.)"""
        if self._files and not self.gone:
            try:
                there = [os.stat(self.path + end) for end in _FILES]
            except OSError:
                there = []
            ours = map(os.fstat, self._files)
            self.gone = [(s.st_dev, s.st_ino) for s in there] != [(s.st_dev, s.st_ino) for s in ours]
        return self.gone

    def release(self) -> None:
        """Let the last connection that closes tidy up, as SQLite does."""
        self._lock(fcntl.F_UNLCK)

    def close(self) -> None:
        """Only when no connection is open any more: SQLite's own locks go with these descriptors."""
        files, self._files = self._files, []
        for file in files:
            os.close(file)


_holds: dict[tuple[int, int], Hold] = {}
"""By device and inode: two stores of one process on the same file share theirs."""
_changing = reentrant_lock()


def held(path: str) -> Hold | None:
    """What this process already holds on a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return _holds.get((found.st_dev, found.st_ino))


def hold_on(path: str) -> Hold:
    """For a connection that was just opened, and has opened the log."""
    with _changing:
        hold = held(path)
        if hold is None:
            hold = Hold(path)
            _holds[hold.file()] = hold
        hold.connections += 1
        return hold


def let_go(hold: Hold, close: Callable[[], None]) -> None:
    """Close a connection, and the hold after the last one."""
    with _changing:
        hold.connections -= 1
        last = hold.connections == 0
        if last:
            _holds.pop(hold.file(), None)
            hold.release()
        try:
            close()
        finally:
            if last:
                hold.close()


def _forget_holds() -> None:
    """The child has no connection yet, and takes a hold of its own with its first."""
    for hold in _holds.values():
        hold.close()
    _holds.clear()


os.register_at_fork(after_in_child=_forget_holds)


# -- whether the log still has a name ----------------------------------------------------------------


# After `fstat` has read the time of the last change, Linux has to take the time of the next write exactly, and a put is
# 13 % slower. `statx` can ask for the number of names alone, at a third of the cost. Python does not have it, so it is
# called in libc.

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


# -- threads inside SQLite ---------------------------------------------------------------------------


# A process is not forked while threads are inside SQLite: a child has a copy of SQLite's mutexes, and one that a thread
# of its parent held in that moment is never released there.

LONGEST = 5.0
"""Seconds that a fork waits. Threads are inside for milliseconds: one that stays waits for a disk."""
_PAUSE = 0.0002

_inside: list[int] = []
"""The threads that are inside SQLite, once for each time. (Appending and removing happen in one go.)"""
_forking: list[int] = []


def enter() -> int:
    """This thread goes into SQLite, as soon as no other is about to fork. Returns what `leave` takes."""
    me = get_ident()
    _inside.append(me)
    while _forking and me not in _forking:
        _inside.remove(me)
        time.sleep(_PAUSE)
        _inside.append(me)
    return me


leave: Callable[[int], None] = _inside.remove
"""The thread comes out again."""


def _before_fork() -> None:
    me = get_ident()
    _forking.append(me)
    give_up = time.monotonic() + LONGEST
    while any(thread != me for thread in _inside) and time.monotonic() < give_up:
        time.sleep(_PAUSE)


def _parent_after_fork() -> None:
    _forking.remove(get_ident())


def _child_after_fork() -> None:
    me = get_ident()
    _forking.clear()
    _inside[:] = [thread for thread in _inside if thread == me]


os.register_at_fork(before=_before_fork, after_in_parent=_parent_after_fork, after_in_child=_child_after_fork)
