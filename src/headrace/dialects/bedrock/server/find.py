"""QueryJob, and Query: SQL on the table `jobs`, in processes of its own (see `query_process.py`).

A query first runs on a connection that cannot write, where a slow one delays no other client. One that wants to write
runs again, if that is allowed, in a transaction of its own; nothing else is executed meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.dialects.bedrock.server.batch import Batch
from headrace.dialects.bedrock.server.connection import Connection
from headrace.dialects.bedrock.server.query_process import ENTRY, LENGTH_BYTES, Ask, Setup, Told, decode_told, message
from headrace.dialects.bedrock.server.requests import Request
from headrace.dialects.bedrock.server.transaction import Answer, Transaction, describe
from headrace.dialects.bedrock.server.values import render, render_object
from headrace.dialects.bedrock.wire import MEBIBYTE, Refused

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.server import Server

log = logging.getLogger("headrace.bedrock")

MOST_PROCESSES = 2
BURIAL = 1.0
"""Seconds that the system is given to bury a process."""
LATE = Told(refused="555 Timeout")
FAILED = Told(refused="500 Unhandled Exception")


def query_job(tx: Transaction, request: Request) -> Answer:
    row = tx.job(request.job_id())
    return render_object([*describe(row), ("state", render(row.state))])


def is_query(request: Request) -> bool:
    """Whether a request is a Query, in either of its forms."""
    return request.verb == "query" or request.line[:6].lower() == "query:"


class Query:
    """A checked Query request."""

    __slots__ = ("abandoned", "arrived", "format", "last", "nowhere", "process", "seconds", "skip_writes", "sql")

    def __init__(self, request: Request, seconds: float) -> None:
        sql = request.line[6:] if request.line[:6].lower() == "query:" else request.get("query")
        self.sql = sql.strip()
        if not self.sql or len(self.sql.encode(errors="replace")) > MEBIBYTE:
            raise Refused("402 Missing query")
        if not self.sql.endswith(";"):
            raise Refused("502 Query Missing Semicolon")
        self.nowhere = request.get("nowhere").lower()
        self.skip_writes = request.find("mockrequest") is not None
        flags = f"{request.get('readdbflags')} {request.get('sqliteargs')}".split()
        if request.get("format").lower() == "json":
            self.format = "table"
        else:
            self.format = "objects" if "-json" in flags else "arrays"
        self.arrived = request.arrived
        self.seconds = seconds
        """How long it may take, its wait for a process included."""
        self.process: QueryProcess | None = None
        """Where it is being read."""
        self.abandoned = False
        self.last = False
        """The connection is closed after the answer."""

    def abandon(self) -> None:
        """The client has left: nobody needs what is being read."""
        self.abandoned = True
        self.sql = ""
        if self.process is not None:
            self.process.kill()


class QueryProcess:
    """A process for queries, as the server sees it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", ENTRY],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C in a terminal is for the server alone
                )
            except BaseException:
                ours.close()
                raise
        self.usable = False
        """It waits for a query."""

    async def start(self, setup: Setup) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=MEBIBYTE)
        self._writer.write(message(setup))
        self.usable = True

    async def ask(self, ask: Ask) -> Told | None:
        """None: the process has ended."""
        self.usable = False
        try:
            self._writer.write(message(ask))
            length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            told = decode_told(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            return None
        self.usable = True
        return told

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> bool:
        """End the process; False if the system has not buried it yet."""
        self._process.kill()
        self._writer.close()
        return self._process.poll() is not None

    def wait(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(BURIAL)


class Queries:
    """The processes of a server's queries. A query waits until one is free."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._waiting: deque[tuple[Connection | None, Query]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._idle: list[QueryProcess] = []
        self._dying: list[QueryProcess] = []
        self._writing = asyncio.Lock()

    def start(self, connection: Connection | None, query: Query) -> None:
        """Run a query: the connection's next requests wait for it. Without a connection nobody hears what it reads."""
        self._waiting.append((connection, query))
        self._begin()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < MOST_PROCESSES:
            connection, query = self._waiting.popleft()
            if query.abandoned:
                continue
            task = self._server.loop.create_task(self._run(connection, query))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._begin()

    async def shut_down(self, patience: float) -> None:
        """Begin no more queries, and wait for those that run, but not for ever."""
        self._waiting.clear()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=patience)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def close(self) -> None:
        for process in self._idle:
            self._bury(process)
        await asyncio.sleep(0)  # which closes their sockets
        for process in self._dying:
            process.wait()

    async def _run(self, connection: Connection | None, query: Query) -> None:
        told = FAILED
        try:
            told = await self._ask(query)
        except Refused as refused:
            told = Told(refused=refused.status, error=dict(refused.headers).get("error", ""))
        except OSError as error:  # no more processes, or files
            log.error("a query could not be run: %s", error)
        except Exception:
            log.exception("a query failed")
        if connection is None or connection.lost:
            return
        connection.query = None
        batch = Batch(self._server)
        self._answer(batch, connection, query, told)
        batch.finish()
        self._server.wake(connection)

    def _answer(self, batch: Batch, connection: Connection, query: Query, told: Told) -> None:
        if told.refused:
            headers = (("error", told.error),) if told.error else ()
            batch.refuse(connection, Refused(told.refused, *headers), last=query.last)
            return
        inserted = query.sql[:7].upper() == "INSERT " and told.row_id is not None
        headers = (("lastInsertRowID", render(told.row_id)),) if inserted else ()
        batch.reply(connection, "200 OK", headers, told.body, last=query.last)

    async def _ask(self, query: Query) -> Told:
        """What comes of a query."""
        loop = self._server.loop
        begin = loop.time()
        process = await self._process()
        deadline = query.arrived + query.seconds + (loop.time() - begin)  # a start of a process is not its fault
        try:
            told = await self._read(process, query, deadline - loop.time())
            if told is None or not told.wants_to_write:
                return told or (LATE if loop.time() > deadline else FAILED)
            _check_write(query, allowed=self._server.options.allow_write_query)
            async with self._writing:
                if query.skip_writes or query.abandoned:
                    return Told()
                return await self._write(process, query)
        finally:
            if process.usable:
                self._idle.append(process)
            else:
                self._bury(process)

    async def _read(self, process: QueryProcess, query: Query, seconds: float) -> Told | None:
        if seconds <= 0:
            return LATE
        query.process = process
        try:
            return await process.ask(Ask(query.sql, query.format, seconds))
        finally:
            query.process = None

    async def _write(self, process: QueryProcess, query: Query) -> Told:
        """Run a query as one that writes. No batch is run meanwhile: the process has the file's only write lock."""
        server = self._server
        server.paused = True
        try:
            told = await process.ask(Ask(query.sql, query.format, query.seconds, writes=True))
        finally:
            server.paused = False
            before, server.commit_count = server.commit_count, server.database.commit_count()
            server.wake_waiters()
        if told is None:  # it may have ended after its commit
            return Told() if server.commit_count != before else LATE
        return told

    async def _process(self) -> QueryProcess:
        self._dying = [process for process in self._dying if not process.close()]
        if self._idle:
            return self._idle.pop()
        server = self._server
        setup = Setup(server.database.path, server.database.full_sync, server.options.query_rows)
        process = QueryProcess()
        await process.start(setup)
        return process

    def _bury(self, process: QueryProcess) -> None:
        if not process.close():
            self._dying.append(process)


def _check_write(query: Query, *, allowed: bool) -> None:
    """What Bedrock asks of a query that writes, before it is run."""
    reason = () if allowed else (("error", "read-only"),)
    if query.nowhere not in ("", "true", "false"):
        raise Refused("402 Malformed nowhere", *reason)
    upper = query.sql.upper()
    if upper.startswith(("UPDATE", "DELETE")) and " WHERE " not in upper and query.nowhere != "true":
        raise Refused("502 Query aborted", *reason)
    if not allowed:
        raise Refused("502 Query failed", *reason)
