"""Runs Query requests: reading ones in threads, where a slow one delays no other client; writing ones in a batch."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.dialects.bedrock.server.batch import Batch
from headrace.dialects.bedrock.server.connection import Connection
from headrace.dialects.bedrock.server.find import Query, Reader, Written, check_write, write
from headrace.dialects.bedrock.server.transaction import Transaction
from headrace.dialects.bedrock.server.values import render
from headrace.dialects.bedrock.wire import Refused

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.server import Server

log = logging.getLogger("headrace.bedrock")


class Queries:
    """The threads and read-only connections of a server's queries."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._readers: list[Reader] = []
        self._threads = ThreadPoolExecutor(2, "headrace-query")

    def start(self, connection: Connection, query: Query) -> None:
        """Read in a thread: the connection's next requests wait for it."""
        self._threads.submit(self._read, connection, query)

    def shut_down(self) -> None:
        """Begin no more queries, and wait for those that run."""
        self._threads.shutdown(cancel_futures=True)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _read(self, connection: Connection, query: Query) -> None:
        answer: str | Refused | None = None
        try:
            reader = self._reader()
            try:
                answer = reader.read(query)
            finally:
                self._readers.append(reader)
        except Written:
            pass
        except Refused as refused:
            answer = refused
        except Exception:
            log.exception("a query failed")
            answer = Refused("500 Unhandled Exception")
        self._server.loop.call_soon_threadsafe(self._answer, connection, query, answer)

    def _reader(self) -> Reader:
        try:
            return self._readers.pop()
        except IndexError:
            return Reader(self._server.database.read_only(), self._server.options.query_rows)

    def _answer(self, connection: Connection, query: Query, answer: str | Refused | None) -> None:
        if connection.lost:
            return
        connection.query = None
        batch = Batch(self._server)
        if answer is None:
            self._write(batch, connection, query)  # alone in its batch: no other client's commands are at stake
        elif isinstance(answer, Refused):
            batch.refuse(connection, answer, last=query.last)
        else:
            batch.succeed(connection, answer, last=query.last)
        batch.finish()
        self._server.wake(connection)

    def _write(self, batch: Batch, connection: Connection, query: Query) -> None:
        options = self._server.options
        refusal = () if options.allow_write_query else (("error", "read-only"),)
        try:
            try:
                check_write(query)
            except Refused as refused:
                raise Refused(refused.status, *refusal) from None
            if refusal:
                raise Refused("502 Query failed", *refusal)
            row_id = None
            if not query.skip_writes:
                query.limit(options.query_seconds)
                row_id = batch.run(lambda tx: self._execute(tx, query), writes=True)
        except Refused as refused:
            batch.refuse(connection, refused, last=query.last)
            return
        headers = []
        if query.sql[:7].upper() == "INSERT " and row_id is not None:
            headers.append(("lastInsertRowID", render(row_id)))
        batch.reply(connection, "200 OK", headers, last=query.last)

    def write_unheard(self, batch: Batch, query: Query) -> None:
        """A forgotten query: worth running only if it writes."""
        if self._server.options.allow_write_query and not query.skip_writes:
            check_write(query)
            batch.run(lambda tx: self._execute(tx, query), writes=True)

    def _execute(self, tx: Transaction, query: Query) -> int:
        write(self._server.database.connection, query)
        tx.woken = True
        return tx.last_id()
