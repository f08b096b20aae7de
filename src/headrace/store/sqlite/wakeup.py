"""How processes that share a SQLite file wake each other up.

SQLite cannot push news. So each waiter has a datagram socket beside the file, and a slot in a small shared map that
says what it waits for and whether it sleeps. After a commit the writer reads the map (a memory search if all are awake,
about 0.1 µs) and sends a wake-up to sleepers that its changes concern.

The order that loses no news: a waiter arms its slot, then looks at the database; a writer commits, then reads the map.
The second of the two sees the first. A wake-up disarms, so that a busy worker is left alone.

As many workers are woken as there are jobs. No job is stranded by that: a worker that is woken and is full, finds
nothing, or finds more than it can take looks which queues have work, and wakes a sleeper for each. The process that
sweeps does the same once a second, for wake-ups that were lost.
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
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary
from zlib import crc32

from headrace.locks import reentrant_lock
from headrace.records import ExchangeReply, NewJob
from headrace.store.contract import Waiter
from headrace.store.sql.events import lasts
from headrace.store.sql.transaction import EVERYONE, Transaction
from headrace.store.sqlite.database import Database
from headrace.store.sqlite.guard import make_run_folder, open_beside
from headrace.store.sqlite.waiters import ChangeCounter, LocalTimes, PollingWaiter, ThreadWaiter
from headrace.values import shared
from headrace.values.clock import Clock
from headrace.values.glob import is_glob

if TYPE_CHECKING:
    from headrace.store.sql.settle import Request

SLOTS = 4096
FREE, BUSY = 0, 1
WORKER, CLIENT, SUBSCRIBER, FULL, LINE = 2, 3, 4, 5, 6
"""The kinds of waiters: also their states while they sleep. A worker that is full can take nothing: it is woken only
when a job is to stop. One with a line of jobs is also rung for a job that comes before them."""
LOOK_SECONDS = 15
"""A worker that sleeps looks for work by itself now and then, should a wake-up have been lost."""

NEWS, URGENT, POKE = b"!", b"^", b"."
"""What is sent. To a worker without a line of jobs it is the same whether what came is urgent."""

_STATES = 64
_ENTRIES = _STATES + SLOTS
_ENTRY = struct.Struct("<IiQ")  # the owner's pid, the priority of the jobs in its line, and the key it listens for
_ABOVE, _ABOVE_AT = struct.Struct("<i"), 4  # that priority alone
_SIZE = _ENTRIES + SLOTS * _ENTRY.size
_HIGH_AT, _UNTIL_AT, _SWEPT_AT = 0, 8, 16


def queue_key(queues: Iterable[str]) -> int:
    """One bit per queue (of 64): a false match costs a look, never a wake-up. A pattern may mean any queue."""
    key = 0
    for queue in queues:
        if is_glob(queue):
            return (1 << 64) - 1
        key |= _bit(queue)
    return key


def _bit(queue: str) -> int:
    return 1 << (crc32(queue.encode()) & 63)


def job_key(job_id: str) -> int:
    """What a client that waits for one job to end listens for."""
    return crc32(job_id.encode())


class WaiterMap:
    """The map of all waiters on one database file."""

    def __init__(self, folder: Path, mode: int = 0o666) -> None:
        self._folder = folder
        self._mode = mode
        make_run_folder(folder, mode)
        self._file = open_beside(folder / "waiters", mode)
        self._directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if os.fstat(self._file).st_size < _SIZE:
            os.ftruncate(self._file, _SIZE)
        self._map = mmap.mmap(self._file, _SIZE)
        self._sender = _datagram_socket()
        self._adding = reentrant_lock()  # a file lock keeps other processes out, but not other threads

    def wake_workers(self, queues: Mapping[str, int], first: int = 0, what: bytes = NEWS) -> None:
        """There may be work in these queues: wake as many workers as each needs, from a slot on."""
        if self._sleeper(WORKER, _STATES + first) < 0:
            return
        wanted = [[_bit(queue), workers] for queue, workers in queues.items()]
        for slot, key in self._sleepers(WORKER, first):
            need = next((need for need in wanted if need[0] & key), None)
            if need is not None and self._wake(slot, what):
                need[1] -= 1
                if not need[1]:
                    wanted.remove(need)
                    if not wanted:
                        break

    def some_worker_sleeps(self, first: int = 0) -> bool:
        # (Written out: every put asks.)
        return self._map.find(_BYTE[WORKER], _STATES + first, _STATES + self._high()) >= 0

    def ring(self, queue: str, priority: int) -> None:
        """There is an urgent job: have a worker with a line of less urgent ones take it, if none sleeps."""
        bit = _bit(queue)
        if any(key & bit for _, key in self._sleepers(WORKER)):
            return
        for slot, key in self._sleepers(LINE):
            above = _ABOVE.unpack_from(self._map, _ENTRIES + slot * _ENTRY.size + _ABOVE_AT)[0]
            if key & bit and above < priority and self._wake(slot, URGENT):
                return

    def wake_all(self, *kinds: int) -> None:
        for kind in kinds:
            for slot, _ in self._sleepers(kind):
                self._wake(slot)

    def wake_clients(self, job_ids: Iterable[str]) -> None:
        """These jobs have ended."""
        if self._sleeper(CLIENT, _STATES) >= 0:
            keys = {job_key(job_id) for job_id in job_ids}
            for slot, key in self._sleepers(CLIENT):
                if key in keys:
                    self._wake(slot)

    @property
    def listened_until(self) -> int:
        """Until when a subscriber reads events, on the steady clock; 0: there never was one."""
        return shared.read(self._map, _UNTIL_AT)

    @listened_until.setter
    def listened_until(self, steady: int) -> None:
        shared.write(self._map, _UNTIL_AT, steady)

    @property
    def swept(self) -> int:
        """When a process last began to sweep, on the steady clock; 0: there is more to sweep."""
        return shared.read(self._map, _SWEPT_AT)

    @swept.setter
    def swept(self, steady: int) -> None:
        shared.write(self._map, _SWEPT_AT, steady)

    def _high(self) -> int:
        return shared.read(self._map, _HIGH_AT)

    def _sleeper(self, kind: int, start: int) -> int:
        """Where in the map the next sleeper of a kind is, or -1."""
        return self._map.find(_BYTE[kind], start, _STATES + self._high())

    def _sleepers(self, kind: int, first: int = 0) -> Iterator[tuple[int, int]]:
        """The sleepers of a kind: their slots, and the keys they listen for."""
        at = self._sleeper(kind, _STATES + first)
        while at >= 0:
            slot = at - _STATES
            yield slot, _ENTRY.unpack_from(self._map, _ENTRIES + slot * _ENTRY.size)[2]
            at = self._sleeper(kind, at + 1)

    def _wake(self, slot: int, what: bytes = NEWS) -> bool:
        """Returns whether the wake-up was sent. A worker that is rung still hears that a job is to stop."""
        self._map[_STATES + slot] = BUSY if what == NEWS else FULL
        return self.send(slot, what)

    def send(self, slot: int, what: bytes) -> bool:
        """Send to one waiter. The slot of one that died is freed. Returns False if nothing could be sent."""
        try:
            self._sender.sendto(what, self.address(slot))
        except (ConnectionRefusedError, FileNotFoundError):
            self._map[_STATES + slot] = FREE
            return False
        except BlockingIOError:
            pass  # its socket is full: it will wake up
        except OSError:
            return False  # not allowed: the waiter looks by itself now and then
        return True

    def address(self, slot: int) -> str:
        """The path of a waiter's socket. By descriptor, as it must be short and the folder's path may not be."""
        folder = f"/proc/self/fd/{self._directory}" if os.path.isdir("/proc/self/fd") else self._folder
        return f"{folder}/waiter-{slot}"

    def add(self, kind: int, key: int, look: Callable[[], bool]) -> SocketWaiter:
        """Add a waiter. Raises OSError where that cannot be done. `look` says whether there is news after all."""
        socket_ = _datagram_socket()
        try:
            with self._adding:
                slot = self._add_at_free_slot(socket_, key)
        except BaseException:
            socket_.close()
            raise
        return SocketWaiter(self, slot, socket_, kind, look)

    def _add_at_free_slot(self, socket_: socket.socket, key: int) -> int:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            slot = self._free_slot()
            with suppress(FileNotFoundError):
                os.unlink(f"waiter-{slot}", dir_fd=self._directory)
            socket_.bind(self.address(slot))
            with suppress(OSError):
                os.chmod(f"waiter-{slot}", self._mode, dir_fd=self._directory)
            _ENTRY.pack_into(self._map, _ENTRIES + slot * _ENTRY.size, os.getpid(), 0, key)
            self._map[_STATES + slot] = BUSY
            shared.write(self._map, _HIGH_AT, max(self._high(), slot + 1))
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
        for slot in range(SLOTS):  # all taken: look for owners that died and were never woken
            pid, *_ = _ENTRY.unpack_from(self._map, _ENTRIES + slot * _ENTRY.size)
            if not os.path.exists(f"/proc/{pid}"):
                return slot
        raise OSError("all slots are taken")

    def set_state(self, slot: int, state: int) -> None:
        self._map[_STATES + slot] = state

    def fill(self, slot: int, above: int | None) -> None:
        """A worker that was armed, and not woken since, has no room; `above`: but for jobs of higher priority."""
        if self._map[_STATES + slot] == WORKER:
            if above is not None:
                _ABOVE.pack_into(self._map, _ENTRIES + slot * _ENTRY.size + _ABOVE_AT, above)
            self._map[_STATES + slot] = FULL if above is None else LINE

    def remove(self, slot: int) -> None:
        with suppress(OSError):
            os.unlink(f"waiter-{slot}", dir_fd=self._directory)
        self._map[_STATES + slot] = FREE

    def close(self) -> None:
        self._map.close()
        os.close(self._file)
        os.close(self._directory)
        self._sender.close()


_BYTE = {kind: bytes([kind]) for kind in (WORKER, CLIENT, SUBSCRIBER, FULL, LINE)}


class _Socket(socket.socket):
    """One that may last until the end of the program, which is no reason to warn."""

    def __del__(self) -> None:
        self.close()


def _datagram_socket() -> socket.socket:
    made = _Socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


class SocketWaiter:
    """A waiter woken by other processes."""

    pass_on: Callable[[], None] | None = None
    """Wakes another worker: for one that was woken and can take nothing."""

    def __init__(
        self, waiters: WaiterMap, slot: int, socket_: socket.socket, kind: int, look: Callable[[], bool]
    ) -> None:
        self._map = waiters
        self._kind = kind
        self._look = look
        self.slot = slot
        self._socket = socket_
        self._open = True
        self._full = self.urgent = self._has_line = self.woken = False
        self._look_at = 0.0
        self._guard = threading.RLock()  # a signal handler may poke while its own thread does

    def arm(self) -> None:
        self._full = self.urgent = self._has_line = False
        self._look_at = 0.0
        self._map.set_state(self.slot, self._kind)

    def fill(self, full: bool, above: int | None) -> None:
        """Whether the worker can take no more, until it is armed again. `above`: but jobs of higher priority."""
        self._full, self._has_line = full, full and above is not None
        if full:
            self._map.fill(self.slot, above)

    def wait(self, timeout: float | None) -> bool:
        # 0 makes the socket non-blocking: even the shortest time-out would take a millisecond.
        self._socket.settimeout(timeout)
        try:
            heard = self._socket.recv(16)
        except (TimeoutError, BlockingIOError):
            # Still armed: news that comes now ends the next wait. A writer may also die between its commit and the
            # wake-up, or not be allowed to send one: so look now and then.
            return bool(timeout) and self._may_look() and self._look()
        return self._is_news(heard)

    async def wait_async(self, timeout: float | None) -> bool:
        self._socket.setblocking(False)
        try:
            async with asyncio.timeout(timeout):
                heard = await asyncio.get_running_loop().sock_recv(self._socket, 16)
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
        """A wake-up means new data, and one read covers every wake-up before it. A poke only ends the wait."""
        heard += self._rest()
        self.woken = self.woken or NEWS in heard or URGENT in heard
        self.urgent = self.urgent or (self._has_line and URGENT in heard)
        if NEWS not in heard and (self._has_line or URGENT not in heard):
            return False
        self._map.set_state(self.slot, BUSY)
        self._rest()  # what came before the slot was disarmed
        if self._full and self.pass_on is not None:
            self.pass_on()
        return True

    def _rest(self) -> bytes:
        """Everything else that has come."""
        heard = b""
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                heard += self._socket.recv(16)
        return heard

    def poke(self) -> None:
        with self._guard:  # once it is removed, its slot may be another's
            if self._open:
                self._map.send(self.slot, POKE)

    def close(self) -> None:
        with self._guard:
            if self._open:
                self._open = False
                self._map.remove(self.slot)
                self._socket.close()


class Wakeups:
    """Makes the waiters of one store, and wakes them. A map cannot be had in memory or on every file system."""

    def __init__(self, database: Database, folder: str, find_work: Callable[[], dict[str, int]]) -> None:
        self._db = database
        self._folder = folder
        self._find_work = find_work
        """Which queues have work that could be taken, and how many workers should look."""
        self._map: WaiterMap | None = None
        self._old_maps: list[WaiterMap] = []
        self._trying = reentrant_lock()
        self._tried = not folder
        self._threads: set[ThreadWaiter] = set()
        self._workers: WeakValueDictionary[str, SocketWaiter] = WeakValueDictionary()
        """The waiters of this process' workers, by session."""
        self._local = LocalTimes()

    def map(self) -> WaiterMap | None:
        if not self._tried:
            with self._trying:
                if not self._tried:
                    with suppress(OSError):
                        self._map = WaiterMap(Path(self._folder), self._db.mode())
                    self._tried = True
        return self._map

    @property
    def times(self) -> WaiterMap | LocalTimes:
        """What all processes know; of this process alone, where they share no map."""
        return self.map() or self._local

    def _subscriptions(self) -> WaiterMap | LocalTimes | None:
        """None: the database has to say."""
        return self.map() or (self._local if self._db.in_memory else None)

    def is_listened(self, clock: Clock) -> bool | None:
        """Whether a subscriber reads events. None: only the database knows."""
        times = self._map or self._subscriptions()  # (the map first, as every put asks)
        if times is None:
            return None
        until = times.listened_until
        return until != 0 and lasts(until, clock.steady())

    def listen(self, until: int) -> bool:
        """A subscriber stays until then. False: only the database can tell that to others."""
        times = self._subscriptions()
        if times is not None:
            times.listened_until = until
        return times is not None

    def wake(self, tx: Transaction) -> None:
        """Wake those that a transaction, which has just been committed, concerns."""
        found = self.map()
        if found is not None:
            if tx.stop:
                found.wake_all(WORKER, FULL, LINE)
            elif tx.queues:
                for queue, priority in tx.urgent.items():
                    found.ring(queue, priority)
                found.wake_workers(tx.queues, what=URGENT if tx.urgent else NEWS)
            if tx.ended:
                found.wake_clients(tx.ended)
            if tx.happenings:
                found.wake_all(SUBSCRIBER)
        elif tx.ended or tx.queues or tx.stop or tx.happenings:
            self._wake_threads()

    def wake_for(self, job: NewJob) -> None:
        """The same for a put of one job, which was ready at once or will be due later."""
        found = self._map or self.map()
        if found is not None:
            urgent = job.priority > 0 and job.run_at is None and not job.delay
            if urgent:
                found.ring(job.queue, job.priority)
            if found.some_worker_sleeps():
                workers = 1 if job.run_at is None and not job.delay else EVERYONE
                found.wake_workers({job.queue: workers}, what=URGENT if urgent else NEWS)
        else:
            self._wake_threads()

    def _wake_threads(self) -> None:
        for waiter in tuple(self._threads):
            waiter.wake()

    def wake_for_work(self, first: int = 0) -> None:
        """Look which queues have work that could be taken, and wake a sleeping worker for each, from a slot on."""
        found = self.map()
        if found is not None and found.some_worker_sleeps(first):
            found.wake_workers(self._find_work(), first)

    def was_woken(self, session: str) -> bool:
        """Whether a worker of this process was woken since it last asked: then there most likely is work for it."""
        return (waiter := self._workers.get(session)) is not None and waiter.woken

    def note_room(self, request: Request, reply: ExchangeReply) -> None:
        """After an exchange: a worker that is full is not woken for work.

        One that got all that it asked for may have left some to others. One that got nothing may have been woken in
        the place of another: it wakes one that comes after it in the map, so that no wake-up goes round in circles.
        """
        waiter = self._workers.get(request.session)
        if waiter is not None:
            waiter.woken = False
            take, got = request.take, len(reply.leases)
            waiter.fill(take is None or got >= take.slots, None if take is None else take.above)
            if take is not None and not got:
                self.wake_for_work(waiter.slot + 1)
            elif take is not None and got == take.slots + take.spare:
                self.wake_for_work()

    def worker(self, session: str, queues: tuple[str, ...], look: Callable[[], bool]) -> Waiter:
        """A worker's waiter."""
        waiter = self.waiter(WORKER, queue_key(queues), look)
        if isinstance(waiter, SocketWaiter):
            waiter.pass_on = self.wake_for_work
            self._workers[session] = waiter
        return waiter

    def waiter(self, kind: int, key: int, look: Callable[[], bool]) -> Waiter:
        if self._db.in_memory:
            return ThreadWaiter(self._threads)
        if (found := self.map()) is not None:
            with suppress(OSError):
                return found.add(kind, key, look)
        return PollingWaiter(ChangeCounter(self._db.connect))

    def file_is_replaced(self) -> None:
        """The map is beside the old file: its sleepers get no more wake-ups."""
        if self._map is not None:
            self._old_maps.append(self._map)
        self._map, self._tried = None, not self._folder

    def close(self) -> None:
        for found in (self._map, *self._old_maps):
            if found is not None:
                found.close()
        self._map = None
        self._old_maps.clear()
