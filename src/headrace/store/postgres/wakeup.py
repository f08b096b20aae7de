"""How processes that share a schema wake each other up.

Each process has one connection that listens, on a channel of its own, and a row in `waiter` for each of its waiters. A
transaction that may concern a sleeper looks for it before it commits, and notifies as many as there are jobs.

A notification carries a waiter's number, or the name of a queue, as a hint: it says "look now" and nothing else. Every
role of the database may send one, so whatever arrives only makes waiters look, and many in vain make them look seldom.

The order that loses no wake-up: such a transaction has the lock of puts, shared, from before it looks until it
has committed. A waiter has that lock alone while it arms its row, and looks for news afterwards. So a sleeper sees what
was committed before, and is seen by all that comes later. A wake-up disarms, so that a busy worker is left alone.

A connection that was cut without a word, as firewalls do, is as silent as one on which nothing is said. So with its
looks, every few seconds at most, a waiter notifies its own process: if that is not heard, the process connects again.

Where a connection can't listen (behind a pooler that hands out a server process per transaction) waiters poll.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import md5
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import psycopg

from headrace.errors import HeadraceError
from headrace.locks import reentrant_lock
from headrace.records import ExchangeReply
from headrace.store import forks
from headrace.store.postgres.arrays import Texts
from headrace.store.postgres.database import Database
from headrace.store.postgres.statements import SUBSCRIBER, WORKER
from headrace.store.postgres.troubles import explain
from headrace.store.postgres.wire import Wire, rows_of
from headrace.store.sql.settle import Request
from headrace.store.wakeup import Left, Pokes, areadable, left_of, readable
from headrace.values.glob import any_fits, as_regex, is_glob

log = logging.getLogger("headrace.store")

Look: TypeAlias = Callable[[], bool]
LOOK_SECONDS = 10
"""A waiter looks by itself now and then, should a wake-up have been lost."""
SHORTEST, LONGEST = 0.005, 0.25
"""How long a waiter sleeps between two looks where nothing wakes it: longer and longer."""
ECHO_EVERY = 5.0
"""Seconds from one notification to oneself to the next, at least."""
ECHO_SECONDS = 2.0
"""By then it must have been heard."""
IN_VAIN = 3
"""After so many wake-ups in a row that brought nothing, looks keep apart."""
GAP, WIDEST_GAP = 0.005, 0.05
"""How many seconds apart, at first and at most."""
FLOOD_SECONDS = 1.0
"""Wake-ups that are further apart are no flood."""
Told: TypeAlias = tuple[int | None, int | None]
"""When the next job falls due and the next schedule ticks, as a worker's last exchange was told."""


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
        # Callers' transactions notify of a queue that has work. (A channel's name is short, and has no quotes.)
        self._common = f"headrace {md5(database.schema.encode(), usedforsecurity=False).hexdigest()}"
        self._sleepers: WeakValueDictionary[str, Sleeper] = WeakValueDictionary()  # by the hint that means each
        self._workers: WeakValueDictionary[str | None, Sleeper] = WeakValueDictionary()  # by session
        self._lock = reentrant_lock()
        self._stop = Pokes()
        self._wire: Wire | None = None
        self._deaf: bool | None = None
        self.echo = Echo()
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
            self._sleepers[str(sleeper.id)] = sleeper
        if kind == WORKER:
            self._workers[about] = sleeper
        if kind != WORKER or len(self._sleepers) > 1:
            self.start()
        return sleeper

    def note(self, request: Request, reply: ExchangeReply) -> None:
        """What a worker was told: what comes sooner is news, and one that is full is not woken for work."""
        if (worker := self._workers.get(request.session)) is not None:
            worker.full = request.take is None or len(reply.leases) >= request.take.slots
            told = reply.next_due, reply.next_tick
            if reply.leases or told != worker.told:
                worker.in_vain = 0
            worker.told = told

    def told_by(self, sleeper: Sleeper) -> int:
        """The server process that tells a sleeper of news; 0: none does at present."""
        return self.pid if str(sleeper.id) in self._sleepers else 0

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

    def patience(self) -> float:
        """For how many seconds the connection that listens is trusted. One that does not echo in time is cut."""
        if self.echo.left() <= 0:
            with self._lock, suppress(psycopg.Error):  # (The next that listens finds it out.)
                if (wire := self._wire) is not None:
                    self._hear(wire)  # it may have come, and no thread had the time to read it
                    if self.echo.left() <= 0:
                        self.echo.lost()
                        log.warning("%s: the connection that listens was cut silently.", self.database.where)
                        _cut(wire)
        return max(self.echo.left(), 0.0)

    def _connect(self) -> bool:
        """False: a pooler is in between, and what is meant for this connection would reach another."""
        wire = self.database.connect()
        try:
            ((pid,),) = wire.query("SELECT pg_backend_pid()")
            if pid != wire.pgconn.backend_pid:
                return False
            statements = "SET idle_session_timeout = 0", f'LISTEN "{self.channel}"', f'LISTEN "{self._common}"'
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
                hint = heard.extra.decode(errors="replace")
                if self.echo.is_back(hint):
                    continue
                if heard.relname.decode(errors="replace") == self._common:
                    woken = [each for each in self._sleepers.values() if any_fits(each.queues, hint)]
                else:
                    meant = self._sleepers.get(hint)
                    woken = list(self._sleepers.values()) if meant is None else [meant]
                for sleeper in woken:
                    sleeper.wake()

    def close(self) -> None:
        self._stop.poke()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()
        self._hang_up()

    def _hang_up(self) -> None:
        with self._lock:  # not while another thread reads
            wire, self._wire, self.pid = self._wire, None, 0
            self.echo.forget()
            if wire is not None:
                wire.close()

    def leave_to_parent(self) -> None:
        """In a child: the thread is not there, and connection and waiters are the parent's."""
        forks.abandoned.append(self._wire)
        self._wire, self.pid, self.thread, self._deaf = None, 0, None, None
        self._sleepers, self._lock, self._stop = WeakValueDictionary(), reentrant_lock(), Pokes()
        self.echo = Echo()


class Echo:
    """A notification of a process to itself, which comes through another connection than the one that listens."""

    def __init__(self) -> None:
        self._words = ""
        """What is expected; '': nothing."""
        self._due = math.inf
        self._asked_at = self._lost_at = -math.inf

    @contextmanager
    def asked_for(self) -> Iterator[tuple[str | None, int | None]]:
        """What to send, if it is time to; and how many milliseconds ago one was lost, if ever."""
        now = time.monotonic()
        due = not self._words and now >= self._asked_at + ECHO_EVERY
        if due:
            self._words, self._asked_at = f"echo {random.getrandbits(64):x}", now
        try:
            yield self._words if due else None, None if math.isinf(self._lost_at) else int(1000 * (now - self._lost_at))
        except BaseException:
            if due:
                self.forget()
            raise
        if due and self._words:  # else it is back
            self._due = time.monotonic() + ECHO_SECONDS

    def left(self) -> float:
        """Seconds until it must be back."""
        return self._due - time.monotonic()

    def is_back(self, words: str) -> bool:
        """Whether these are its words. It is heard then."""
        found = bool(self._words) and words == self._words
        if found:
            self.forget()
        return found

    def lost(self) -> None:
        self._lost_at = time.monotonic()
        self.forget()

    def forget(self) -> None:
        self._words, self._due = "", math.inf


def _cut(wire: Wire) -> None:
    """End a connection, so that the thread that sleeps on it finds out: to close it would leave that thread asleep."""
    with suppress(OSError), socket.socket(fileno=os.dup(wire.pgconn.socket)) as end:
        end.shutdown(socket.SHUT_RDWR)


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
        self.in_vain = 0
        """Wake-ups in a row that brought nothing."""
        self._woken_at = -FLOOD_SECONDS
        self._armed_with: tuple[int, bool] | None = None
        """The server process that would tell, and whether it was armed as full; None: it is not armed."""
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
            if self._gap():
                return False
        return self._sleep(left_of(timeout))

    async def wait_async(self, timeout: float | None) -> bool:
        self._wakeups.start()
        left = left_of(timeout)
        if gap := self._gap():
            await asyncio.sleep(gap)
            await asyncio.to_thread(self._look_again)
        for pause in self._pauses(left):
            if self._must_look() and await asyncio.to_thread(self._arm_and_look):
                return True
            await areadable([self._pokes.reader], pause)
        return self._take_news()

    def wait_and_run(self, request: Any, meanwhile: Left) -> None:
        """Wait for news or a poke. The thread that was woken sends the request itself, as the first thing it does."""
        left = left_of(LOOK_SECONDS)  # leases count from when it began to wait
        self._sleep(lambda: left() and meanwhile())

    def _sleep(self, left: Left) -> bool:
        if gap := self._gap():
            time.sleep(gap)
            self._look_again()
        for pause in self._pauses(left):
            if self._must_look() and self._arm_and_look():
                return True
            self._wakeups.watch(self._pokes.reader, pause)
        return self._take_news()

    def _pauses(self, left: Left) -> Iterator[float]:
        """How long to sleep, again and again, until there is news, a poke, or no time left."""
        pause = SHORTEST
        while not self._pokes.taken() and not self._news and (seconds := left()) is not None:
            yield min(seconds, LOOK_SECONDS if self._wakeups.told_by(self) else pause, self._wakeups.patience())
            pause = min(pause * 1.5, LONGEST)

    def _gap(self) -> float:
        """For how long it must not look, because it was woken in vain again and again."""
        if self.in_vain < IN_VAIN:
            return 0.0
        gap = min(GAP * 2 ** (self.in_vain - IN_VAIN), WIDEST_GAP)
        return max(self._woken_at + gap - time.monotonic(), 0.0)

    def _look_again(self) -> None:
        """Find out whether there was something all the same. (A worker's exchange tells; no other waiter is told.)"""
        if self._kind != WORKER and self._look():
            self.in_vain, self._news = 0, True

    def _must_look(self) -> bool:
        """Nothing would wake it yet, or nothing has for a long time."""
        armed = (self._wakeups.told_by(self), self.full)
        return armed != self._armed_with or not armed[0] or time.monotonic() >= self._look_at

    def _arm_and_look(self) -> bool:
        told = self._wakeups.told_by(self)
        if told and self._arm():
            return True
        return (not self.full or not told) and self._look()

    def _arm(self) -> bool:
        """Whether running jobs were to stop since the last time."""
        wakeups, full = self._wakeups, self.full
        self._armed_with = (wakeups.pid, full)  # before it is: a wake-up that comes at once disarms
        place = (self.id, wakeups.channel, wakeups.pid, self._kind, not full)
        with wakeups.echo.asked_for() as echo:
            ((stops,),) = rows_of(wakeups.database.function("arm", (*place, *self._about, *echo)))
        before, self._stops = self._stops, stops
        self._look_at = time.monotonic() + LOOK_SECONDS
        return before is not None and stops != before

    def _take_news(self) -> bool:
        news, self._news = self._news, False
        if news:
            before, self._woken_at = self._woken_at, time.monotonic()
            self.in_vain = self.in_vain + 1 if self._woken_at < before + FLOOD_SECONDS else 1
            if self.full:
                self._wakeups.look_for_work()
        return news

    def wake(self) -> None:
        """There may be news."""
        self._armed_with = None
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
