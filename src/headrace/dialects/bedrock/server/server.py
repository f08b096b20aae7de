"""The Bedrock::Jobs server: clients on one side, one SQLite file on the other, one thread in between.

Requests that have arrived are executed in batches (see `batch.py`), a few of each client at a time, so that a client
that sends a lot does not make others wait. Queries are read in threads of their own.
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
from headrace.dialects.bedrock.server.requests import Limits, Request
from headrace.dialects.bedrock.server.statements import SQL
from headrace.dialects.bedrock.server.wait import Waits
from headrace.dialects.bedrock.wire import MEBIBYTE, Refused, Unreadable, compose, escape
from headrace.values.clock import Clock, SystemClock

log = logging.getLogger("headrace.bedrock")

QUOTA = 16
"""How many requests of one client are executed in a batch."""
LARGEST_BATCH = 512
"""How many of all."""
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
    """Bytes of incomplete requests, of all clients together. Beyond it the largest of them are closed."""
    most_postponed: int = 100_000
    """Commands that wait for their `commandExecuteTime`."""


class Server:
    """A server on a database. `start` it on a running event loop; `stop` it to let what has arrived finish."""

    def __init__(self, database: Database, options: Options | None = None, *, clock: Clock | None = None) -> None:
        self.options = options or Options()
        self.database = database
        self.clock = clock or SystemClock()
        self.node_line = f"nodeName: {escape(self.options.node_name)}\r\n"
        self.blacklist: set[str] = set()
        self.by_names: set[tuple[str, int]] = set()
        self.commit_count: int = database.connection.execute(SQL["commit_count"]).fetchall()[0][0]  # type: ignore[assignment]
        self.commands = 0
        self.held = 0
        """Bytes that clients have sent and that are not a whole request yet."""
        self.waits = Waits(self)
        self.queries = Queries(self)
        self._connections: set[Connection] = set()
        self._active: deque[Connection] = deque()
        self._detached: deque[Request] = deque()
        self._postponed: set[asyncio.TimerHandle] = set()
        self._to_put_back: list[int] = []
        self._batch_scheduled = False
        self._listeners: list[asyncio.Server] = []
        self.stopping = False
        """What has arrived is finished; nothing new is begun."""

    # -- life --

    async def start(self, host: str | None, port: int) -> int:
        """Listen; returns the port (0 lets the system choose one)."""
        self.loop = asyncio.get_running_loop()
        tls = self.options.tls
        listener = await self.loop.create_server(lambda: Connection(self), host, port, backlog=4096, ssl=tls)
        self._listeners.append(listener)
        chosen: int = listener.sockets[0].getsockname()[1]
        return chosen

    async def stop(self) -> None:
        """Listen and read no more, finish what has arrived, end all waits, and close."""
        self.stopping = True
        for listener in self._listeners:
            listener.close()
        for timer in self._postponed:
            timer.cancel()
        for connection in self._connections:
            connection.stop_reading()
        await self._until_idle()
        await asyncio.to_thread(self.queries.shut_down)
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
        self.queries.close()
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

    def put_back(self, ids: Sequence[int]) -> None:
        """These jobs could not be delivered: they go back in line."""
        self._to_put_back += ids
        self._schedule_batch()

    def _schedule_batch(self) -> None:
        if not self._batch_scheduled:
            self._batch_scheduled = True
            self.loop.call_soon(self._run_batch)

    # -- batches --

    def _run_batch(self) -> None:
        self._batch_scheduled = False
        batch = Batch(self)
        worked: dict[Connection, bool] = {}
        try:
            if self._to_put_back:
                undelivered, self._to_put_back = self._to_put_back, []
                batch.run(lambda tx: put_back(tx, undelivered))
            while self._detached:
                execute(self, batch, None, self._detached.popleft())
            budget = LARGEST_BATCH
            for _ in range(len(self._active)):
                connection = self._active.popleft()
                connection.scheduled = False
                worked[connection] = True
                count = self._work(batch, connection)
                worked[connection] = count == QUOTA
                budget -= count
                if budget <= 0:
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

    def _work(self, batch: Batch, connection: Connection) -> int:
        """Execute some requests of a client; returns how many."""
        now = self.loop.time()
        for done in range(QUOTA):
            if connection.busy:
                return done
            try:
                request = connection.next_request()
            except Unreadable as refused:
                batch.refuse(connection, refused, last=True)
                return done
            if request is None:
                return done
            request.arrived = now
            self.commands += 1
            execute(self, batch, connection, request)
        return QUOTA

    def _make_room(self) -> None:
        """Too much is incomplete: the largest go, not the newest, so that small requests still come through."""
        batch = Batch(self)
        incomplete = [each for each in self._connections if not each.scheduled and not each.busy]
        for connection in sorted(incomplete, key=lambda each: each.held, reverse=True):
            if self.held <= self.options.most_held:
                break
            batch.refuse(connection, TOO_MUCH, last=True)
            connection.forget()
        batch.finish()

    # -- commands without a listener --

    def detach(self, request: Request, delay: float) -> bool:
        """Execute later, without an answer. False: too many are postponed already."""
        if len(self._postponed) >= self.options.most_postponed:
            return False

        def act() -> None:
            self._postponed.discard(timer)
            request.arrived = self.loop.time()
            self._detached.append(request)
            self._schedule_batch()

        timer = self.loop.call_later(delay, act)
        self._postponed.add(timer)
        return True
