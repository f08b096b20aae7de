"""How processes that share a schema wake each other up.

Each process has one connection that listens, on a channel of its own, and a row in `waiter` for each of its waiters. A
transaction that may concern a sleeper looks for it before it commits, and notifies as many as there are jobs. A put may
hand its job to a worker that sleeps: the notification brings it along.

The order that loses no wake-up: such a transaction has the advisory lock of puts, shared, from before it looks until it
has committed. A waiter has that lock alone while it arms its row, and looks for news afterwards. So a sleeper sees what
was committed before, and is seen by all that comes later. A wake-up disarms, so that a busy worker is left alone.

Where a connection can't listen (behind a pooler that hands out a server process per transaction) waiters poll.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias
from weakref import WeakValueDictionary

import psycopg

from headrace.errors import HeadraceError
from headrace.locks import reentrant_lock
from headrace.records import ExchangeReply
from headrace.store import forks
from headrace.store.contract import Operation
from headrace.store.postgres.arrays import Texts
from headrace.store.postgres.database import Database
from headrace.store.postgres.plain import Exchange, Told
from headrace.store.postgres.statements import SUBSCRIBER, WORKER
from headrace.store.postgres.troubles import explain
from headrace.store.postgres.wire import Wire, rows_of
from headrace.store.sql.settle import Request
from headrace.store.wakeup import Left, Pokes, areadable, left_of, readable
from headrace.values.glob import any_fits, as_regex, is_glob

Look: TypeAlias = Callable[[], bool]
LOOK_SECONDS = 10
"""A waiter looks by itself now and then, should a wake-up have been lost."""
SHORTEST, LONGEST = 0.005, 0.25
"""How long a waiter sleeps between two looks where nothing wakes it: longer and longer."""


class Wakeups:
    """Makes the waiters of one store, and hears what is said to them.

    A worker that is alone in its process hears it itself, while it sleeps; else there is a thread that does, and wakes.
    """

    def __init__(self, database: Database, look_for_work: Callable[[], None]) -> None:
        self.database = database
        self.look_for_work = look_for_work
        """Wakes a sleeper for each queue that has work."""
        self.channel = ""
        self.pid = 0
        """The server process of the connection that listens; 0: nothing is heard at present."""
        self.thread: threading.Thread | None = None
        self._common = f"headrace {database.schema}"[:63]  # callers' transactions notify of a queue that has work
        self._sleepers: WeakValueDictionary[int, Sleeper] = WeakValueDictionary()
        self._workers: WeakValueDictionary[str | None, Sleeper] = WeakValueDictionary()  # by session
        self._lock = reentrant_lock()
        self._stop = Pokes()
        self._wire: Wire | None = None
        self._deaf: bool | None = None
        forks.holders.add(self)

    @property
    def deaf(self) -> bool:
        """Whether waiters have to poll."""
        with self._lock:
            if self._deaf is None:
                self.channel = f"headrace {os.getpid()} {random.getrandbits(64):x}"
                self._deaf = not self._connect()
            return self._deaf

    def waiter(self, kind: int, look: Look, about: str | None = None, queues: Sequence[str] = ()) -> Sleeper:
        sleeper = Sleeper(self, kind, look, about, queues)
        if not self.deaf:
            self._sleepers[sleeper.id] = sleeper
        if kind == WORKER:
            self._workers[about] = sleeper
        if kind != WORKER or len(self._sleepers) > 1:
            self.start()
        return sleeper

    def note(self, request: Request, reply: ExchangeReply) -> None:
        """What a worker was told: what comes sooner is news, and one that is full is not woken for work."""
        if (worker := self._workers.get(request.session)) is not None:
            worker.full = request.take is None or len(reply.leases) >= request.take.slots
            worker.told = reply.next_due, reply.next_tick

    def told_by(self, sleeper: Sleeper) -> int:
        """The server process that tells a sleeper of news; 0: none does at present."""
        return self.pid if sleeper.id in self._sleepers else 0

    def start(self) -> None:
        """From now on a thread hears what is said."""
        with self._lock:
            if self.thread is None and not self.deaf:
                self.thread = threading.Thread(target=self._listen, name="headrace-listen", daemon=True)
                self.thread.start()

    def watch(self, own: int, seconds: float) -> None:
        """Sleep until there is something to read, or for so many seconds; and hear what is said, if no thread does."""
        wire = self._wire if self.thread is None else None
        try:
            if wire is None:
                readable([own], seconds)
            elif wire.pgconn.socket in readable([own, wire.pgconn.socket], seconds):
                self._hear(wire)
        except psycopg.Error:
            self.start()  # it finds out what is wrong, and connects again

    def _connect(self) -> bool:
        """False: a pooler is in between, and what is meant for this connection would reach another."""
        wire = self.database.connect()
        try:
            ((pid,),) = wire.query("SELECT pg_backend_pid()")
            if pid != wire.pgconn.backend_pid:
                return False
            alive = f"SELECT pg_advisory_lock(hashtextextended('{self.channel}', 0))"
            statements = "SET idle_session_timeout = 0", alive, f'LISTEN "{self.channel}"', f'LISTEN "{self._common}"'
            wire.run([(statement, ()) for statement in statements])
            self._wire, self.pid = wire, pid
            return True
        except psycopg.Error as error:
            raise explain(self.database.where, error) from error
        finally:
            if wire is not self._wire:
                wire.close()

    def _listen(self) -> None:
        pause = SHORTEST
        while not self._stop.taken():
            wire = self._wire
            try:
                if wire is None:
                    self._connect()
                    pause = SHORTEST
                else:
                    readable([wire.pgconn.socket, self._stop.reader], None)
                    self._hear(wire)
            except (psycopg.Error, HeadraceError, OSError, ValueError):  # the server is gone: be back when it is
                if wire is not None:
                    self._hang_up()
                    for sleeper in list(self._sleepers.values()):
                        sleeper.wake()
                readable([self._stop.reader], pause)
                pause = min(2 * pause, LONGEST)

    def _hear(self, wire: Wire) -> None:
        with self._lock:
            wire.pgconn.consume_input()
            while (heard := wire.pgconn.notifies()) is not None:
                words = heard.extra.decode()
                if heard.relname.decode() == self._common:
                    for sleeper in [each for each in self._sleepers.values() if any_fits(each.queues, words)]:
                        sleeper.wake()
                else:
                    number, _, answer = words.partition(" ")
                    if (told := self._sleepers.get(int(number))) is not None:
                        told.wake(answer)

    def close(self) -> None:
        self._stop.poke()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()
        self._hang_up()

    def _hang_up(self) -> None:
        with self._lock:  # not while another thread reads
            wire, self._wire, self.pid = self._wire, None, 0
            if wire is not None:
                wire.close()

    def leave_to_parent(self) -> None:
        """In a child: the thread is not there, and connection and waiters are the parent's."""
        forks.abandoned.append(self._wire)
        self._wire, self.pid, self.thread, self._deaf = None, 0, None, None
        self._sleepers, self._lock, self._stop = WeakValueDictionary(), reentrant_lock(), Pokes()


class Sleeper:
    """A waiter. `about`: the session of a worker, which serves `queues`; or the job that a client waits for."""

    def __init__(self, wakeups: Wakeups, kind: int, look: Look, about: str | None, queues: Sequence[str]) -> None:
        self.id = random.getrandbits(62)
        self.queues = queues
        self.full = False
        """It can take no more."""
        self.told: Told = None, None
        self._wakeups = wakeups
        self._kind = kind
        self._look = look
        self._about = (
            Texts(name for name in queues if not is_glob(name)),
            Texts(f"^(?:{as_regex(name)})$" for name in queues if is_glob(name)),
            about,
        )
        self._pokes = Pokes()
        self._news = False
        self._asks: int | None = None
        """The number of the request that a put may answer, and its answer."""
        self._answer = ""
        self._armed_with: tuple[int, bool, int | None] | None = None
        """The server process that would tell, whether it was armed as full, and what it asks; None: it is not armed."""
        self._stops: int | None = None
        self._look_at = 0.0

    def arm(self) -> None:
        """The first time. Later `wait` does, and looks at what has come since: a busy worker arms nothing.

        What is new to a subscriber depends on what it has read: it is always armed before it looks.
        """
        must = self._stops is None or (self._kind == SUBSCRIBER and self._armed_with is None)
        if must and self._wakeups.told_by(self):
            self._arm()

    def wait(self, timeout: float | None) -> bool:
        if timeout == 0:  # a busy worker hears what has been said, and arms nothing
            self._wakeups.watch(self._pokes.reader, 0.0)
        return self._sleep(left_of(timeout))

    async def wait_async(self, timeout: float | None) -> bool:
        self._wakeups.start()
        for pause in self._pauses(left_of(timeout)):
            if self._must_look() and await asyncio.to_thread(self._arm_and_look):
                return True
            await areadable([self._pokes.reader], pause)
        return self._take_news()

    def wait_and_run(self, request: Operation[ExchangeReply], meanwhile: Left) -> ExchangeReply | None:
        """Wait for news or a poke. A put may have answered the request, which is news, too."""
        left = left_of(LOOK_SECONDS)  # leases count from when it began to wait
        exchange = request if isinstance(request, Exchange) and request.attempt is not None else None
        if exchange is not None:
            self._asks, exchange.asked = exchange.request.number, True
        self._sleep(lambda: left() and meanwhile())
        answer, self._answer, self._asks = self._answer, "", None
        return exchange.answered(answer, self.told) if exchange is not None and answer else None

    def _sleep(self, left: Left) -> bool:
        for pause in self._pauses(left):
            if self._must_look() and self._arm_and_look():
                return True
            self._wakeups.watch(self._pokes.reader, pause)
        return self._take_news()

    def _pauses(self, left: Left) -> Iterator[float]:
        """How long to sleep, again and again, until there is news, a poke, or no time left."""
        pause = SHORTEST
        while not self._pokes.taken() and not self._news and (seconds := left()) is not None:
            yield min(seconds, LOOK_SECONDS if self._wakeups.told_by(self) else pause)
            pause = min(pause * 1.5, LONGEST)

    def _must_look(self) -> bool:
        """Nothing would wake it yet, or nothing has for a long time."""
        armed = (self._wakeups.told_by(self), self.full, self._asks)
        return armed != self._armed_with or not armed[0] or time.monotonic() >= self._look_at

    def _arm_and_look(self) -> bool:
        told = self._wakeups.told_by(self)
        if told and self._arm():
            return True
        return (not self.full or not told) and self._look()

    def _arm(self) -> bool:
        """Whether running jobs were to stop since the last time."""
        wakeups, full, asks = self._wakeups, self.full, self._asks
        self._armed_with = (wakeups.pid, full, asks)  # before it is: a wake-up that comes at once disarms
        place = (self.id, wakeups.channel, wakeups.pid, self._kind, not full, asks)
        ((stops,),) = rows_of(wakeups.database.function("arm", (*place, *self._about)))
        before, self._stops = self._stops, stops
        self._look_at = time.monotonic() + LOOK_SECONDS
        return before is not None and stops != before

    def _take_news(self) -> bool:
        news, self._news = self._news, False
        if news and self.full:
            self._wakeups.look_for_work()
        return news

    def wake(self, answer: str = "") -> None:
        """There is news, which may be the answer to what it asks."""
        self._armed_with = None
        self._answer = answer or self._answer
        self._news = True
        if self._wakeups.thread is not None:  # else it has heard so itself
            self._pokes.poke()

    def poke(self) -> None:
        self._pokes.poke()

    def close(self) -> None:
        self._pokes.close()
        if self._stops is not None:
            self._stops = None
            with suppress(HeadraceError):  # sweeps forget it
                self._wakeups.database.function("forget_waiter", (self.id,))
