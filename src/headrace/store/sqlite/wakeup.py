"""How processes that share a SQLite file wake each other up.

SQLite has nobody to push news, so waiters hang up a bell beside the file: a datagram socket, and a slot in
a small shared map that says who listens for what and whether they sleep. After a commit the writer looks
at the map (a memory search when nobody sleeps, about 0.1 µs) and rings those that sleep.

The order that loses no news: a waiter arms its slot, then looks at the database; a writer commits, then
looks at the map. Whoever came second sees the other. A ring disarms, so that a busy worker is left alone.

As many workers are rung as there are jobs. No job is stranded by that: a worker that is rung and is full, finds
nothing, or finds more than it can take looks which queues have work, and rings a sleeper for each. The process that
sweeps does the same once a second, for rings whose worker died, or that were never rung.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from zlib import crc32

from headrace.locks import reentrant_lock
from headrace.values.glob import is_glob

if TYPE_CHECKING:
    from headrace.store.sqlite.database import ChangeCounter

SLOTS = 4096
FREE, BUSY = 0, 1
WORKER, WATCHER, HEARER, FULL = 2, 3, 4, 5
"""What a sleeper listens for: also its state while it sleeps. A worker that is full can take nothing: it is rung only
when a job is to stop."""
LOOK_SECONDS = 15
"""A worker that sleeps looks for work by itself now and then, should a ring have been lost."""

NEWS, POKE = b"!", b"."

_STATES = 64
_ENTRIES = _STATES + SLOTS
_ENTRY = struct.Struct("<IxxxxQ")  # the owner's pid, and the key it listens for
_SIZE = _ENTRIES + SLOTS * _ENTRY.size
_HIGH = struct.Struct("<I")
_TIME, _UNTIL_AT, _SWEPT_AT = struct.Struct("q"), 8, 16  # in the machine's own order, as only that is written in one go


def queue_key(queues: Iterable[str]) -> int:
    """One bit per queue (of 64): a false match costs a look, never a wake-up. A pattern may mean any queue."""
    key = 0
    for queue in queues:
        if is_glob(queue):
            return (1 << 64) - 1
        key |= 1 << (crc32(queue.encode()) & 63)
    return key


def job_key(job_id: str) -> int:
    """What a watcher of one job listens for."""
    return crc32(job_id.encode())


def make_run_folder(folder: Path, mode: int) -> None:
    """The folder beside the file: whoever may write the file may write here."""
    try:
        folder.mkdir()
    except FileExistsError:
        return
    with suppress(OSError):
        folder.chmod(mode | (mode & 0o444) >> 2)


class WaiterMap:
    """The map of all waiters on one database file."""

    def __init__(self, folder: Path, mode: int = 0o666) -> None:
        self._folder = folder
        self._mode = mode
        make_run_folder(folder, mode)
        self._directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        self._file = os.open(folder / "bells", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if os.fstat(self._file).st_size < _SIZE:
            os.ftruncate(self._file, _SIZE)
            with suppress(OSError):
                os.fchmod(self._file, mode)
        self._map = mmap.mmap(self._file, _SIZE)
        self._sender = _datagram_socket()
        self._hanging = reentrant_lock()  # a file lock keeps other processes out, but not other threads

    def ring_workers(self, queues: Mapping[str, int], first: int = 0) -> None:
        """There may be work in these queues: ring as many workers as each needs, from a slot on."""
        if self._sleeper(WORKER, _STATES + first) < 0:
            return
        wanted = [[queue_key((queue,)), workers] for queue, workers in queues.items()]
        for slot, key in self._sleepers(WORKER, first):
            need = next((need for need in wanted if need[0] & key), None)
            if need is not None and self._ring(slot):
                need[1] -= 1
                if not need[1]:
                    wanted.remove(need)
                    if not wanted:
                        break

    def some_worker_sleeps(self, first: int = 0) -> bool:
        # (Written out: every put asks.)
        return self._map.find(_WORKER, _STATES + first, _STATES + _HIGH.unpack_from(self._map, 0)[0]) >= 0

    def ring_all_workers(self) -> None:
        """A running job is to stop: the process that runs it should look."""
        for kind in (WORKER, FULL):
            for slot, _ in self._sleepers(kind):
                self._ring(slot)

    def ring_watchers(self, job_ids: Iterable[str]) -> None:
        """These jobs have ended."""
        if self._sleeper(WATCHER, _STATES) >= 0:
            keys = {job_key(job_id) for job_id in job_ids}
            for slot, key in self._sleepers(WATCHER):
                if key in keys:
                    self._ring(slot)

    def ring_hearers(self) -> None:
        """There are events."""
        for slot, _ in self._sleepers(HEARER):
            self._ring(slot)

    @property
    def listened_until(self) -> int:
        """Until when somebody listens to events, on the steady clock; 0: nobody ever has."""
        until: int = _TIME.unpack_from(self._map, _UNTIL_AT)[0]
        return until

    @listened_until.setter
    def listened_until(self, steady: int) -> None:
        _TIME.pack_into(self._map, _UNTIL_AT, steady)

    @property
    def swept(self) -> int:
        """When a process last began to sweep, on the steady clock; 0: there is more to sweep."""
        steady: int = _TIME.unpack_from(self._map, _SWEPT_AT)[0]
        return steady

    @swept.setter
    def swept(self, steady: int) -> None:
        _TIME.pack_into(self._map, _SWEPT_AT, steady)

    def _high(self) -> int:
        high: int = _HIGH.unpack_from(self._map, 0)[0]
        return high

    def _sleeper(self, kind: int, start: int) -> int:
        """Where in the map the next sleeper of a kind is, or -1."""
        return self._map.find(_BYTE[kind], start, _STATES + _HIGH.unpack_from(self._map, 0)[0])

    def _sleepers(self, kind: int, first: int = 0) -> Iterator[tuple[int, int]]:
        """The sleepers of a kind: their slots, and the keys they listen for."""
        at = self._sleeper(kind, _STATES + first)
        while at >= 0:
            slot = at - _STATES
            yield slot, _ENTRY.unpack_from(self._map, _ENTRIES + slot * _ENTRY.size)[1]
            at = self._sleeper(kind, at + 1)

    def _ring(self, slot: int) -> bool:
        """Whether the ring was heard."""
        self._map[_STATES + slot] = BUSY
        return self.send(slot, NEWS)

    def send(self, slot: int, what: bytes) -> bool:
        """Ring one bell. A bell whose owner died is taken down. False: it could not be rung."""
        try:
            self._sender.sendto(what, self.address(slot))
        except (ConnectionRefusedError, FileNotFoundError):
            self._map[_STATES + slot] = FREE
            return False
        except BlockingIOError:
            pass  # rung more often than it can hold
        except OSError:
            return False  # not ours to ring: its owner looks by itself now and then
        return True

    def address(self, slot: int) -> str:
        """Where a bell hangs. By descriptor, as a socket's path must be short and the folder's may not be."""
        if os.path.isdir("/proc/self/fd"):
            return f"/proc/self/fd/{self._directory}/bell-{slot}"
        return str(self._folder / f"bell-{slot}")

    def hang(self, kind: int, key: int, look: Callable[[], bool]) -> SocketWaiter:
        """Hang up a bell. Raises OSError where that cannot be done. `look` says whether there is news after all."""
        ear = _datagram_socket()
        try:
            with self._hanging:
                slot = self._hang_at_free_slot(ear, key)
        except BaseException:
            ear.close()
            raise
        return SocketWaiter(self, slot, ear, kind, look)

    def _hang_at_free_slot(self, ear: socket.socket, key: int) -> int:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            slot = self._free_slot()
            with suppress(FileNotFoundError):
                os.unlink(f"bell-{slot}", dir_fd=self._directory)
            ear.bind(self.address(slot))
            with suppress(OSError):
                os.chmod(f"bell-{slot}", self._mode, dir_fd=self._directory)
            _ENTRY.pack_into(self._map, _ENTRIES + slot * _ENTRY.size, os.getpid(), key)
            self._map[_STATES + slot] = BUSY
            _HIGH.pack_into(self._map, 0, max(self._high(), slot + 1))
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return slot

    def _free_slot(self) -> int:
        high = self._high()
        at = self._map.find(b"\0", _STATES, _STATES + high)
        if at >= 0:
            return at - _STATES
        if high < SLOTS:
            return high
        for slot in range(SLOTS):  # all taken: look for owners that died without ringing
            pid, _ = _ENTRY.unpack_from(self._map, _ENTRIES + slot * _ENTRY.size)
            if not os.path.exists(f"/proc/{pid}"):
                return slot
        raise OSError("all bells are taken")

    def set_state(self, slot: int, state: int) -> None:
        self._map[_STATES + slot] = state

    def state(self, slot: int) -> int:
        return self._map[_STATES + slot]

    def take_down(self, slot: int) -> None:
        with suppress(OSError):
            os.unlink(f"bell-{slot}", dir_fd=self._directory)
        self._map[_STATES + slot] = FREE

    def close(self) -> None:
        self._map.close()
        os.close(self._file)
        os.close(self._directory)
        self._sender.close()


_WORKER = bytes([WORKER])
_BYTE = {kind: bytes([kind]) for kind in (WORKER, WATCHER, HEARER, FULL)}


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


class SocketWaiter:
    """A waiter woken by other processes."""

    pass_on: Callable[[], None] | None = None
    """Rings another worker: for one that was rung and can take nothing."""

    def __init__(self, bells: WaiterMap, slot: int, ear: socket.socket, kind: int, look: Callable[[], bool]) -> None:
        self._bells = bells
        self._kind = kind
        self._look = look
        self.slot = slot
        self._ear = ear
        self._hangs = True
        self._full = False
        self._look_at = 0.0
        self._guard = threading.RLock()  # a signal handler may poke while its own thread does

    def arm(self) -> None:
        self._full = False
        self._look_at = 0.0
        self._bells.set_state(self.slot, self._kind)

    def fill(self, full: bool) -> None:
        """Whether the worker can take no more, until it is armed again."""
        self._full = full
        if full and self._bells.state(self.slot) == WORKER:
            self._bells.set_state(self.slot, FULL)

    def wait(self, timeout: float | None) -> bool:
        # 0 makes the socket non-blocking: even the shortest time-out would take a millisecond.
        self._ear.settimeout(timeout)
        try:
            heard = self._ear.recv(16)
        except (TimeoutError, BlockingIOError):
            # Still armed: news that comes now ends the next wait. Who rings may also die between its commit and the
            # ring, or not be allowed to ring: so look now and then.
            return bool(timeout) and self._may_look() and self._look()
        return self._is_news(heard)

    async def wait_async(self, timeout: float | None) -> bool:
        self._ear.setblocking(False)
        try:
            async with asyncio.timeout(timeout):
                heard = await asyncio.get_running_loop().sock_recv(self._ear, 16)
        except TimeoutError:
            return self._may_look() and await asyncio.to_thread(self._look)
        return self._is_news(heard)

    def _may_look(self) -> bool:
        """A worker looks once after it was armed, then now and then; others whenever they have waited in vain."""
        now = time.monotonic()
        if self._full or (self._kind == WORKER and now < self._look_at):
            return False
        self._look_at = now + LOOK_SECONDS
        return True

    def _is_news(self, heard: bytes) -> bool:
        """One look at the database answers all rings that came before it; a poke is none."""
        heard += self._rest()
        if NEWS not in heard:
            return False
        self._bells.set_state(self.slot, BUSY)
        self._rest()  # came before nobody had to ring any more
        if self._full and self.pass_on is not None:
            self.pass_on()
        return True

    def _rest(self) -> bytes:
        """What else was said."""
        heard = b""
        self._ear.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                heard += self._ear.recv(16)
        return heard

    def poke(self) -> None:
        with self._guard:  # once it is taken down another may hang there
            if self._hangs:
                self._bells.send(self.slot, POKE)

    def close(self) -> None:
        with self._guard:
            if self._hangs:
                self._hangs = False
                self._bells.take_down(self.slot)
                self._ear.close()


class PollingWaiter:
    """A waiter where no bell can be hung: looks at the file's change counter, at growing intervals."""

    SHORTEST, LONGEST = 0.001, 0.05

    def __init__(self, change_counter: ChangeCounter) -> None:
        self._change_counter = change_counter
        self._seen = change_counter()
        self._pokes: SimpleQueue[None] = SimpleQueue()  # an Event can't be set by a signal handler of who waits for it

    def arm(self) -> None:
        self._seen = self._change_counter()

    def wait(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            with suppress(Empty):
                self._pokes.get(timeout=pause)
                break
        return self._is_news()

    async def wait_async(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            if not self._pokes.empty():
                break
            await asyncio.sleep(pause)
        return self._is_news()

    def _is_news(self) -> bool:
        with suppress(Empty):
            while True:
                self._pokes.get_nowait()
        before, self._seen = self._seen, self._change_counter()
        return self._seen != before

    def _pauses(self, timeout: float | None) -> Iterable[float]:
        end = None if timeout is None else time.monotonic() + timeout
        pause = self.SHORTEST
        while self._change_counter() == self._seen:
            left = self.LONGEST if end is None else end - time.monotonic()
            if left <= 0:
                return
            yield min(pause, left)
            pause = min(pause * 1.5, self.LONGEST)

    def poke(self) -> None:
        self._pokes.put(None)

    def close(self) -> None:
        self._change_counter.close()


class ThreadWaiter:
    """A waiter on an in-memory database: everyone is in this process, so every change wakes everyone."""

    def __init__(self, gongs: set[ThreadWaiter]) -> None:
        self._gongs = gongs
        self._stirred = threading.Event()
        self._poked = False
        self._struck = False
        gongs.add(self)

    def arm(self) -> None:
        self._struck = False
        if not self._poked:
            self._stirred.clear()

    def wait(self, timeout: float | None) -> bool:
        self._stirred.wait(timeout)
        self._stirred.clear()  # first: what is struck after it ends the next wait
        struck, self._struck = self._struck, False
        self._poked = False
        return struck

    async def wait_async(self, timeout: float | None) -> bool:
        return await asyncio.to_thread(self.wait, timeout)

    def strike(self) -> None:
        self._struck = True
        self._stirred.set()

    def poke(self) -> None:
        self._poked = True
        self._stirred.set()

    def close(self) -> None:
        self._gongs.discard(self)
