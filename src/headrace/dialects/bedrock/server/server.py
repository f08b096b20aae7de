"""The Bedrock::Jobs server: clients on one side, one SQLite file on the other, one thread in between.

Requests that have arrived are executed in batches (see `batch.py`), a few of each client at a time, so that a client
that sends a lot does not make others wait. Queries run in processes of their own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.dialects.bedrock.server.batch import Batch, Broken
from headrace.dialects.bedrock.server.connection import Connection
from headrace.dialects.bedrock.server.database import Database
from headrace.dialects.bedrock.server.dispatch import STOPPING, execute
from headrace.dialects.bedrock.server.edit import put_back
from headrace.dialects.bedrock.server.find import Queries
from headrace.dialects.bedrock.server.listening import Listener
from headrace.dialects.bedrock.server.requests import Limits, Request
from headrace.dialects.bedrock.server.wait import LARGEST_ANSWERS, Waits
from headrace.dialects.bedrock.wire import MEBIBYTE, Refused, Unreadable, compose, escape
from headrace.values.clock import Clock, SystemClock

log = logging.getLogger("headrace.bedrock")

QUOTA = 16
"""How many requests of one client are executed in a batch."""
LARGEST_BATCH = 512
"""How many of all."""
QUOTA_BYTES = 1_000_000
"""Bytes of answers after which a client has had enough in a batch."""
STOP_PATIENCE = 10.0
"""Seconds that a server which stops waits for queries that run."""
TOO_MUCH = Refused("413 Request too large", ("error", "too much is waiting to be completed"))


@dataclass(frozen=True)
class Options:
    """How a server behaves."""

    node_name: str = field(default_factory=socket.gethostname)
    limits: Limits = field(default_factory=Limits)
    allow_query: bool = True
    allow_write_query: bool = False
    secret: str | None = field(default=None, repr=False)
    """Clients must know it, unless it is None."""
    tls: ssl.SSLContext | None = None
    query_seconds: float = 2.0
    query_rows: int = 100_000
    most_connections: int = 50_000
    most_held: int = 256 * MEBIBYTE
    """Bytes of requests that are incomplete or wait for those before them, of all clients together. Beyond it the
    connections that hold most are closed."""
    most_unread: int = 256 * MEBIBYTE
    """Bytes of answers that clients have not read, of all together. Beyond it the largest of these are closed."""
    most_postponed: int = 100_000
    """Commands that wait for their `commandExecuteTime`."""
    most_postponed_bytes: int = 64 * MEBIBYTE
    """Memory that they take."""


class Server:
    """A server on a database. `start` it on a running event loop; `stop` it to let what has arrived finish."""

    def __init__(self, database: Database, options: Options | None = None, *, clock: Clock | None = None) -> None:
        self.options = options or Options()
        self.database = database
        self.clock = clock or SystemClock()
        self.node_line = f"nodeName: {escape(self.options.node_name)}\r\n"
        self.blacklist: set[str] = set()
        self.by_names: set[tuple[str, int]] = set()
        self.commit_count = database.commit_count()
        self.commands = 0
        self.held = 0
        """Bytes that clients have sent and that are not executed yet."""
        self.unread = 0
        """Bytes of answers that clients have not read."""
        self.waits = Waits(self)
        self.queries = Queries(self)
        self._connections: set[Connection] = set()
        self._active: deque[Connection] = deque()
        self._detached: deque[Request] = deque()
        self._postponed: set[asyncio.TimerHandle] = set()
        self._postponed_bytes = 0
        """Memory of the commands that nobody listens to, until they are executed."""
        self._to_put_back: list[int] = []
        self._batch_scheduled = False
        self._listener = Listener(lambda: Connection(self), self.options.tls)
        self.paused = False
        """A query writes: nothing is executed until it has ended."""
        self.stopping = False
        """What has arrived is finished; nothing new is begun."""

    # -- life --

    async def start(self, host: str | None, port: int) -> int:
        """Listen; returns the port (0 lets the system choose one)."""
        self.loop = asyncio.get_running_loop()
        return await self._listener.start(host, port)

    async def stop(self) -> None:
        """Listen and read no more, finish what has arrived, end all waits, and close."""
        self.stopping = True
        self._listener.close()
        for timer in self._postponed:
            timer.cancel()
        for connection in self._connections:
            connection.stop_reading()
        await self._until_idle()
        await self.queries.shut_down(STOP_PATIENCE)
        await self._until_idle()
        batch = Batch(self)
        self.waits.end(batch)
        for connection in self._connections:
            if connection.query is not None:
                batch.refuse(connection, Refused(STOPPING), last=True)
        batch.finish()
        for connection in tuple(self._connections):
            connection.leave()
        await self._until_closed()
        await self._until_idle()  # jobs that could not be delivered go back
        self.waits.close()
        await self.queries.close()
        self.database.close()

    async def _until_idle(self) -> None:
        while self._batch_scheduled:  # noqa: ASYNC110  (each batch may schedule the next; there are but a few)
            await asyncio.sleep(0)

    async def _until_closed(self, patience: float = 1.0) -> None:
        """Clients that don't read their last answers are given a moment, then hung up on."""
        end = self.loop.time() + patience
        while self._connections:
            if self.loop.time() > end:
                for connection in tuple(self._connections):
                    connection.abort()
                end = float("inf")
            await asyncio.sleep(0.005)

    def now(self) -> float:
        return self.loop.time()

    # -- clients come and go --

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        if len(self._connections) > self.options.most_connections or self.stopping:
            status = STOPPING if self.stopping else "503 Too many connections"
            connection.send(compose(status, [("nodeName", self.options.node_name), ("Connection", "close")]), [])
            connection.close()

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def wake(self, connection: Connection) -> None:
        if not connection.scheduled and not connection.closing:
            connection.scheduled = True
            self._active.append(connection)
            self._schedule_batch()

    def account(self, more: int) -> None:
        """So many bytes more are held."""
        self.held += more
        if more > 0 and self.held > self.options.most_held:
            self._schedule_batch()  # which makes room when it has executed what it can

    def put_back(self, ids: Sequence[int]) -> None:
        """These jobs could not be delivered: they go back in line."""
        self._to_put_back += ids
        self._schedule_batch()

    def wake_waiters(self) -> None:
        """A query has written, or has tried to: any job may have become runnable, and the next batch may be run."""
        self.waits.look_again()
        self._schedule_batch()

    def _schedule_batch(self) -> None:
        if not self._batch_scheduled:
            self._batch_scheduled = True
            self.loop.call_soon(self._run_batch)

    # -- batches --

    def _run_batch(self) -> None:
        self._batch_scheduled = False
        if self.paused:
            return
        batch = Batch(self)
        worked: dict[Connection, bool] = {}
        try:
            if self._to_put_back:
                undelivered, self._to_put_back = self._to_put_back, []
                batch.run(lambda tx: put_back(tx, undelivered))
            for _ in range(min(len(self._detached), LARGEST_BATCH)):
                request = self._detached.popleft()
                self._postponed_bytes -= request.memory
                execute(self, batch, None, request)
            budget = LARGEST_BATCH
            for _ in range(len(self._active)):
                connection = self._active.popleft()
                connection.scheduled = False
                worked[connection] = True
                count, worked[connection] = self._work(batch, connection)
                budget -= count
                if budget <= 0 or batch.size > LARGEST_ANSWERS:
                    break
        except Broken as error:
            batch.give_up(error)
        else:
            batch.finish()
        for connection, more in worked.items():
            if more and not connection.busy:
                self.wake(connection)
            connection.rest(more=more)
        if self.held > self.options.most_held:
            self._make_room()
        if self._active or self._detached or self._to_put_back:
            self._schedule_batch()
        self.waits.set_timers()

    def _work(self, batch: Batch, connection: Connection) -> tuple[int, bool]:
        """Execute some requests of a client; returns how many, and whether there may be more."""
        now = self.loop.time()
        enough = batch.size + QUOTA_BYTES
        done = 0
        while done < QUOTA and batch.size <= enough:
            if connection.busy:
                return done, False
            try:
                request = connection.next_request()
            except Unreadable as refused:
                batch.refuse(connection, refused, last=True)
                return done, False
            if request is None:
                return done, False
            request.arrived = now
            self.commands += 1
            execute(self, batch, connection, request)
            done += 1
        return done, True

    def _make_room(self) -> None:
        """Too much is held: the largest go, not the newest, so that small requests still come through."""
        batch = Batch(self)
        stuck = [each for each in self._connections if not each.scheduled and each.held]
        for connection in sorted(stuck, key=lambda each: each.held, reverse=True):
            if self.held <= self.options.most_held:
                break
            if connection.busy:  # it has not had the answers that come before this one
                connection.abort()
            else:
                batch.refuse(connection, TOO_MUCH, last=True)
            connection.forget()
        batch.finish()

    def bound_unread(self) -> None:
        """Close the connections with the most unread bytes while there are too many: their jobs go back in line."""
        if self.unread <= self.options.most_unread:
            return
        for connection in self._connections:
            connection.count_unread()
        for connection in sorted(self._connections, key=lambda each: each.unread, reverse=True):
            if self.unread <= self.options.most_unread:
                break
            log.warning("a client does not read its answers: %d bytes are dropped", connection.unread)
            self.unread -= connection.unread
            connection.unread = 0
            connection.abort()

    # -- commands without a listener --

    def detach(self, request: Request, delay: float) -> bool:
        """Execute later, without an answer. False: too much is postponed already."""
        size = self._postponed_bytes + request.memory
        if len(self._postponed) >= self.options.most_postponed or size > self.options.most_postponed_bytes:
            return False
        self._postponed_bytes = size

        def act() -> None:
            request.arrived = self.loop.time()
            self._detached.append(request)
            self._schedule_batch()

        def act_later() -> None:
            self._postponed.discard(timer)
            act()

        if delay <= 0:  # not by a timer: it has been answered, and stopping the server must not drop it
            act()
        else:
            timer = self.loop.call_later(delay, act_later)
            self._postponed.add(timer)
        return True
