"""QueryJob, and Query: SQL on the table `jobs`, read by a connection that cannot write.

Two guards confine a Query, and neither reads the SQL: SQLite's authorizer is asked about everything that a statement
wants to do, and the connection is opened read-only. A watchman ends a query that takes too long, or too much memory.

Reading ones run in threads, where a slow one delays no other client; writing ones in a batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw

from headrace.dialects.bedrock.server.batch import Batch
from headrace.dialects.bedrock.server.connection import Connection
from headrace.dialects.bedrock.server.requests import Request
from headrace.dialects.bedrock.server.transaction import Answer, Transaction, describe
from headrace.dialects.bedrock.server.values import render, render_object, render_text
from headrace.dialects.bedrock.wire import MEBIBYTE, Refused

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.server import Server

log = logging.getLogger("headrace.bedrock")

READING = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE})
FORBIDDEN = frozenset({apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH, apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT})
SCHEMA_CHANGES = frozenset({apsw.SQLITE_ALTER_TABLE, apsw.SQLITE_DROP_TABLE, apsw.SQLITE_DROP_INDEX})
FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
PRAGMAS_WITH_NAMES = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)
READING_PRAGMAS = PRAGMAS_WITH_NAMES | {
    "application_id", "auto_vacuum", "cache_size", "collation_list", "compile_options", "data_version", "database_list",
    "encoding", "freelist_count", "function_list", "journal_mode", "max_page_count", "module_list", "page_count",
    "page_size", "pragma_list", "query_only", "schema_version", "synchronous", "user_version", "wal_autocheckpoint",
}  # fmt: skip

LONGEST_VALUE = 4 * MEBIBYTE
MOST_MEMORY = 256 * MEBIBYTE
LONGEST_ANSWER = 64 * MEBIBYTE
WATCH_EVERY = 200
"""Steps of SQLite's machine between two looks of the watchman."""


def query_job(tx: Transaction, request: Request) -> Answer:
    row = tx.job(request.job_id())
    return render_object([*describe(row), ("state", render(row.state))])


class Query:
    """A checked Query request."""

    __slots__ = ("abandoned", "deadline", "format", "last", "nowhere", "skip_writes", "sql")

    def __init__(self, request: Request) -> None:
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
        self.deadline = 0.0
        self.abandoned = False
        """The client has left: the watchman ends it."""
        self.last = False
        """The connection is closed after the answer."""

    def limit(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds


class Written(Exception):
    """The query wants to write."""


class Reader:
    """One read-only connection for queries, used by one thread at a time."""

    def __init__(self, connection: apsw.Connection, most_rows: int) -> None:
        self._connection = connection
        self._most_rows = most_rows
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        # What is sorted stays in memory, where the watchman sees it: no file of any size on the disk.
        connection.execute("PRAGMA temp_store = MEMORY")
        self._wants_to_write = False
        connection.authorizer = self._authorize

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in READING or (action == apsw.SQLITE_FUNCTION and second not in FORBIDDEN_FUNCTIONS):
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_PRAGMA:
            return _authorize_pragma(first, second)
        if action not in FORBIDDEN and action != apsw.SQLITE_FUNCTION:
            self._wants_to_write = True
        return apsw.SQLITE_DENY

    def read(self, query: Query) -> str:
        """The answer's body. Raises `Refused`, or `Written` if there is anything in it but reading."""
        self._wants_to_write = False
        with _watched(self._connection, query):
            try:
                return _read_rows(self._connection, query, self._most_rows)
            except apsw.ReadOnlyError:
                raise Written from None
            except apsw.InterruptError:
                raise _late(query) from None
            except apsw.Error as error:
                if self._wants_to_write:
                    raise Written from None
                raise Refused("402 Bad query", ("error", str(error))) from None
            except UnicodeError:
                raise Refused("402 Bad query", ("error", "a value is not UTF-8: ask for its hex()")) from None

    def close(self) -> None:
        self._connection.close()


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


def _write(connection: apsw.Connection, query: Query) -> None:
    """Run a query that writes, inside the transaction that is open. Confined, but trusted with the data."""
    connection.authorizer = _authorize_write
    try:
        with _watched(connection, query):
            for _ in connection.execute(query.sql):
                pass
    except apsw.InterruptError:
        raise _late(query) from None
    except apsw.Error as error:
        raise Refused("502 Query failed", ("error", str(error))) from None
    finally:
        connection.authorizer = None


def _authorize_write(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in FORBIDDEN or (action == apsw.SQLITE_FUNCTION and second in FORBIDDEN_FUNCTIONS):
        return apsw.SQLITE_DENY
    if action == apsw.SQLITE_PRAGMA:
        return _authorize_pragma(first, second)
    if action in SCHEMA_CHANGES and {first, second} & OURS:
        return apsw.SQLITE_DENY
    return apsw.SQLITE_OK


OURS = {
    "jobs", "server", "jobsName", "jobsParentJobIDState", "jobsMockedNamePriorityNextRun",
    "jobsMockedPriorityNextRunName", "jobsSequentialKeyState",
}  # fmt: skip
"""What the server cannot do without: its rows may be changed, its shape may not."""


def _authorize_pragma(name: str | None, value: str | None) -> int:
    """Reading ones pass; one with a value passes only where the value is the name of something."""
    name = (name or "").lower()
    allowed = name in PRAGMAS_WITH_NAMES if value is not None else name in READING_PRAGMAS
    return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY


@contextmanager
def _watched(connection: apsw.Connection, query: Query) -> Iterator[None]:
    before = apsw.memory_used()

    def look() -> bool:
        return query.abandoned or time.monotonic() > query.deadline or apsw.memory_used() - before > MOST_MEMORY

    connection.set_progress_handler(look, WATCH_EVERY)
    try:
        yield
    finally:
        connection.set_progress_handler(None)


def _late(query: Query) -> Refused:
    if time.monotonic() > query.deadline:
        return Refused("555 Timeout")
    return Refused("402 Bad query", ("error", "it takes too much memory"))


def _read_rows(connection: apsw.Connection, query: Query, most_rows: int) -> str:
    """The rows of a query, as JSON."""
    names: list[str] = []
    rows: list[str] = []
    size = 0

    def begin(cursor: apsw.Cursor, *_: Any) -> bool:
        # Called before each statement: the names of columns can be had even when no row follows.
        names[:] = [render_text(column[0]) for column in cursor.get_description()] or names
        return True

    cursor = connection.cursor()
    cursor.exec_trace = begin
    try:
        for row in cursor.execute(query.sql, can_cache=False):
            values = map(render, row)
            if query.format == "objects":
                text = "{" + ",".join([f"{name}:{value}" for name, value in zip(names, values, strict=True)]) + "}"
            else:
                text = "[" + ",".join(values) + "]"
            rows.append(text)
            size += len(text)
            if len(rows) > most_rows:
                raise Refused("402 Bad query", ("error", f"more than {most_rows} rows: add a LIMIT"))
            if size > LONGEST_ANSWER:
                raise Refused("402 Bad query", ("error", "the answer is too long: ask for less"))
    finally:
        cursor.close()
    listed = f"[{','.join(rows)}]"
    return f'{{"headers":[{",".join(names)}],"rows":{listed}}}' if query.format == "table" else listed


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
        query.limit(self._server.options.query_seconds)
        try:
            row_id = self.write(batch, query)
        except Refused as refused:
            batch.refuse(connection, refused, last=query.last)
            return
        headers = []
        if query.sql[:7].upper() == "INSERT " and row_id is not None:
            headers.append(("lastInsertRowID", render(row_id)))
        batch.reply(connection, "200 OK", headers, last=query.last)

    def write(self, batch: Batch, query: Query) -> int | None:
        """Run a query as one that writes; returns the row that it has inserted last, None if it is not to be run."""
        _check_write(query, allowed=self._server.options.allow_write_query)
        return None if query.skip_writes else batch.run(lambda tx: self._execute(tx, query), writes=True)

    def _execute(self, tx: Transaction, query: Query) -> int:
        _write(self._server.database.connection, query)
        tx.woken = True
        return tx.last_id()
