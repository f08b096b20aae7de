"""Waking up: which sleepers a store's transactions concern, and what its processes share in the map of the bells."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from headrace.locks import reentrant_lock
from headrace.records import ExchangeReply, NewJob
from headrace.store.contract import Waiter
from headrace.store.sqlite.database import Database
from headrace.store.sqlite.settle import Request
from headrace.store.sqlite.step import EVERYONE, Transaction
from headrace.store.sqlite.wakeup import WORKER, PollingWaiter, SocketWaiter, ThreadWaiter, WaiterMap, queue_key


class Ringer:
    """The bells of one store, where they can be had: not in memory, not on every file system."""

    def __init__(self, database: Database, folder: str, find_work: Callable[[], dict[str, int]]) -> None:
        self._db = database
        self._folder = folder
        self._find_work = find_work
        """Which queues have work that could be taken, and how many workers should look."""
        self._bells: WaiterMap | None = None
        self._old_bells: list[WaiterMap] = []
        self._trying = reentrant_lock()
        self._tried = not folder
        self._gongs: set[ThreadWaiter] = set()
        self._workers: WeakValueDictionary[str, SocketWaiter] = WeakValueDictionary()
        """The bells of this process' workers, by session."""
        self._swept = 0

    def bells(self) -> WaiterMap | None:
        if not self._tried:
            with self._trying:
                if not self._tried:
                    with suppress(OSError):
                        self._bells = WaiterMap(Path(self._folder), self._db.mode())
                    self._tried = True
        return self._bells

    # -- ringing --

    def ring(self, tx: Transaction) -> None:
        """Wake those that what has just been committed concerns."""
        bells = self.bells()
        if bells is not None:
            if tx.stop:
                bells.ring_all_workers()
            elif tx.queues:
                bells.ring_workers(tx.queues)
            if tx.ended:
                bells.ring_watchers(tx.ended)
            if tx.happenings:
                bells.ring_hearers()
        elif tx.ended or tx.queues or tx.stop or tx.happenings:
            self._strike()

    def ring_for(self, job: NewJob) -> None:
        """The same of a put of one job, which was ready at once or will be due later."""
        bells = self._bells or self.bells()
        if bells is not None:
            if bells.some_worker_sleeps():
                bells.ring_workers({job.queue: 1 if job.run_at is None and not job.delay else EVERYONE})
        else:
            self._strike()

    def _strike(self) -> None:
        for gong in tuple(self._gongs):
            gong.strike()

    def ring_for_work(self, first: int = 0) -> None:
        """Look which queues have work that could be taken, and ring a sleeping worker for each, from a slot on."""
        bells = self.bells()
        if bells is not None and bells.some_worker_sleeps(first):
            bells.ring_workers(self._find_work(), first)

    def note_room(self, request: Request, turn: ExchangeReply) -> None:
        """After an exchange: a worker that is full is not rung for work.

        One that got all that it asked for may have left some to others. One that got nothing may have been rung in the
        place of another: it rings one that comes after it in the map, so that no ring goes round in circles.
        """
        bell = self._workers.get(request.session)
        if bell is not None:
            take, got = request.take, len(turn.leases)
            bell.fill(take is None or got >= take.slots)
            if take is not None and not got:
                self.ring_for_work(bell.slot + 1)
            elif take is not None and got == take.slots + take.spare:
                self.ring_for_work()

    # -- waiting --

    def worker(self, session: str, queues: tuple[str, ...], look: Callable[[], bool]) -> Waiter:
        """What a worker waits with."""
        waiter = self.waiter(WORKER, queue_key(queues), look)
        if isinstance(waiter, SocketWaiter):
            waiter.pass_on = self.ring_for_work
            self._workers[session] = waiter
        return waiter

    def waiter(self, kind: int, key: int, look: Callable[[], bool]) -> Waiter:
        if self._db.in_memory:
            return ThreadWaiter(self._gongs)
        if (bells := self.bells()) is not None:
            with suppress(OSError):
                return bells.hang(kind, key, look)
        return PollingWaiter(self._db.change_counter())

    # -- sweeps --

    @property
    def swept(self) -> int:
        """When a process last began to sweep, on the steady clock. (Without bells: when this one did.)"""
        bells = self.bells()
        return self._swept if bells is None else bells.swept

    @swept.setter
    def swept(self, steady: int) -> None:
        bells = self.bells()
        if bells is None:
            self._swept = steady
        else:
            bells.swept = steady

    # -- the end --

    def file_is_replaced(self) -> None:
        """The bells hang beside the old file: sleepers there hear nothing more."""
        if self._bells is not None:
            self._old_bells.append(self._bells)
        self._bells, self._tried = None, not self._folder

    def close(self) -> None:
        for bells in (self._bells, *self._old_bells):
            if bells is not None:
                bells.close()
        self._bells = None
        self._old_bells.clear()
