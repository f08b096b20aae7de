"""How processes that share a schema wake each other up.

Each process has one connection that listens, on a channel of its own, and a row in `waiter` for each of its waiters. A
transaction that may concern a sleeper looks for it before it commits, and notifies as many as there are jobs.

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
from weakref import WeakValueDictionary

import psycopg

from headrace.errors import HeadraceError
from headrace.locks import reentrant_lock
from headrace.store import forks
from headrace.store.postgres.arrays import Texts
from headrace.store.postgres.database import Database
from headrace.store.postgres.statements import SUBSCRIBER, WORKER
from headrace.store.postgres.troubles import explain
from headrace.store.postgres.wire import Wire, rows_of
from headrace.store.wakeup import Pokes, areadable, readable
from headrace.values.glob import any_fits, as_regex, is_glob

LOOK_SECONDS = 15
"""A waiter looks by itself now and then, should a wake-up have been lost."""
SHORTEST, LONGEST = 0.005, 0.25
"""How long a waiter sleeps between two looks where nothing wakes it: longer and longer."""


class Listener:
    """The connection of this process that listens, and the thread that passes on what it hears."""

    def __init__(self, database: Database) -> None:
        self.channel = f"headrace {os.getpid()} {random.getrandbits(64):x}"
        self.common = f"headrace {database.schema}"[:63]  # callers' transactions notify of a queue that has work
        self.pid = 0
        """The server process; 0: nothing is heard at present."""
        self._database = database
        self.waiters: WeakValueDictionary[int, Sleeper] = WeakValueDictionary()
        self._stop = Pokes()
        self.wire: Wire | None = None
        self.deaf = not self._connect()
        self._thread = threading.Thread(target=self._listen, name="headrace-listen", daemon=True)
        if not self.deaf:
            self._thread.start()

    def _connect(self) -> bool:
        """False: a pooler is in between, and what is meant for this connection would reach another."""
        wire = self._database.connect()
        try:
            ((pid,),) = wire.query("SELECT pg_backend_pid()")
            if pid != wire.pgconn.backend_pid:
                return False
            statements = "SET idle_session_timeout = 0", f'LISTEN "{self.channel}"', f'LISTEN "{self.common}"'
            wire.run([(statement, ()) for statement in statements])
            self.wire, self.pid = wire, pid
            return True
        except psycopg.Error as error:
            raise explain(self._database.where, error) from error
        finally:
            if wire is not self.wire:
                wire.close()

    def _listen(self) -> None:
        pause = SHORTEST
        while not self._stop.taken():
            wire = self.wire
            try:
                if wire is None:
                    self._connect()
                    pause = SHORTEST
                else:
                    readable([wire.pgconn.socket, self._stop.reader], None)
                    wire.pgconn.consume_input()
                    while (heard := wire.pgconn.notifies()) is not None:
                        self._pass_on(heard.relname.decode(), heard.extra.decode())
            except (psycopg.Error, HeadraceError, OSError, ValueError):  # the server is gone: be back when it is
                if wire is not None:
                    self.wire, self.pid = None, 0
                    wire.close()
                    for waiter in list(self.waiters.values()):
                        waiter.wake()
                readable([self._stop.reader], pause)
                pause = min(2 * pause, LONGEST)

    def _pass_on(self, channel: str, words: str) -> None:
        if channel == self.common:
            for sleeper in list(self.waiters.values()):
                if any_fits(sleeper.queues, words):
                    sleeper.wake()
        elif (waiter := self.waiters.get(int(words))) is not None:
            waiter.wake()

    def close(self) -> None:
        self._stop.poke()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        if self.wire is not None:
            self.wire.close()
            self.wire = None


class Sleeper:
    """A waiter."""

    near = True

    def __init__(
        self,
        listener: Listener,
        database: Database,
        kind: int,
        look: Callable[[], bool],
        *,
        queues: Sequence[str] = (),
        job: str | None = None,
        pass_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.id = random.getrandbits(62)
        self.full = False
        """It can take no more."""
        self._listener = listener
        self._database = database
        self._kind = kind
        self._look = look
        self._pass_on = pass_on
        self.queues = queues
        """What a worker serves."""
        self._about = (
            Texts(name for name in queues if not is_glob(name)),
            Texts(f"^(?:{as_regex(name)})$" for name in queues if is_glob(name)),
            job,
        )
        self._pokes = Pokes()
        self._news = False
        self._armed_with: tuple[int, bool] | None = None
        """The server process that would tell, and whether it was armed as full; None: it is not armed."""
        self._stops: int | None = None
        self._look_at = 0.0
        if not listener.deaf:
            listener.waiters[self.id] = self

    def arm(self) -> None:
        """The first time. Later `wait` does, and looks at what has come since: a busy worker arms nothing.

        What is new to a subscriber depends on what it has read: it is always armed before it looks.
        """
        must = self._stops is None or (self._kind == SUBSCRIBER and self._armed_with is None)
        if must and self._listener.pid:
            self._arm()

    def wait(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            if self._must_look() and self._arm_and_look():
                return True
            readable([self._pokes.reader], pause)
        return self._take_news()

    async def wait_async(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            if self._must_look() and await asyncio.to_thread(self._arm_and_look):
                return True
            await areadable([self._pokes.reader], pause)
        return self._take_news()

    def _must_look(self) -> bool:
        """Nothing would wake it yet, or nothing has for a long time."""
        armed = (self._listener.pid, self.full)
        return armed != self._armed_with or not self._listener.pid or time.monotonic() >= self._look_at

    def _arm_and_look(self) -> bool:
        if self._listener.pid and self._arm():
            return True
        return (not self.full or self._listener.deaf) and self._look()

    def _arm(self) -> bool:
        """Whether running jobs were to stop since the last time."""
        listener, full = self._listener, self.full
        place = (self.id, listener.channel, listener.pid, self._kind)
        self._armed_with = (listener.pid, full)  # before it is: a wake-up that comes at once disarms
        ((stops,),) = rows_of(self._database.function("arm", (*place, full, *self._about)))
        before, self._stops = self._stops, stops
        self._look_at = time.monotonic() + LOOK_SECONDS
        return before is not None and stops != before

    def _take_news(self) -> bool:
        news, self._news = self._news, False
        if news and self.full:
            self._pass_on()
        return news

    def _pauses(self, timeout: float | None) -> Iterator[float]:
        """How long to sleep, again and again, until there is news, a poke, or no time left."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = SHORTEST
        while not self._pokes.taken() and not self._news:
            left = LOOK_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                return
            yield min(left, LOOK_SECONDS if self._listener.pid else pause)
            pause = min(pause * 1.5, LONGEST)

    def wake(self) -> None:
        """There is news."""
        self._armed_with = None
        self._news = True
        self._pokes.poke()

    def poke(self) -> None:
        self._pokes.poke()

    def close(self) -> None:
        self._pokes.close()
        if self._stops is not None:
            self._stops = None
            with suppress(HeadraceError):  # sweeps forget it
                self._database.function("forget_waiter", (self.id,))


class Wakeups:
    """Makes the waiters of one store."""

    def __init__(self, database: Database, look_for_work: Callable[[], None]) -> None:
        self._database = database
        self._look_for_work = look_for_work
        """Wakes a sleeper for each queue that has work."""
        self._starting = reentrant_lock()
        self._listener: Listener | None = None
        self._workers: WeakValueDictionary[str, Sleeper] = WeakValueDictionary()
        """The waiters of this process' workers, by session."""
        forks.holders.add(self)

    @property
    def deaf(self) -> bool:
        """Whether waiters have to poll."""
        return self._listen().deaf

    def _listen(self) -> Listener:
        with self._starting:
            if self._listener is None:
                self._listener = Listener(self._database)
            return self._listener

    def waiter(self, kind: int, look: Callable[[], bool], *, job: str | None = None) -> Sleeper:
        return Sleeper(self._listen(), self._database, kind, look, job=job)

    def worker(self, session: str, queues: Sequence[str], look: Callable[[], bool]) -> Sleeper:
        waiter = Sleeper(self._listen(), self._database, WORKER, look, queues=queues, pass_on=self._look_for_work)
        self._workers[session] = waiter
        return waiter

    def fill(self, session: str, full: bool) -> None:
        """Whether a worker of this process can take no more."""
        waiter = self._workers.get(session)
        if waiter is not None:
            waiter.full = full

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def leave_to_parent(self) -> None:
        """In a child: the thread is not there, and the connection is the parent's."""
        listener, self._listener = self._listener, None
        if listener is not None:
            forks.abandoned.append(listener.wire)
            listener.wire, listener.pid, listener.deaf = None, 0, True
