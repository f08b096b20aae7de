"""The process in which the SQL of a Query runs.

Some functions of SQLite (`instr` on long values) run for hours and look at nothing meanwhile: no handler in the same
process can end them. So a query has a process, which the kernel ends by a timer when the query's time is up.

Two guards confine a Query, and neither reads the SQL: SQLite's authorizer is asked about everything that a statement
wants to do, and the connection for reading is opened read-only. A watchman ends a query that takes too long, or too
much memory, in good order; the timer ends one that does not let the watchman look.
"""

from __future__ import annotations

import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, TypeVar

import apsw
import msgspec
from msgspec import Struct

from headrace.dialects.bedrock.server.database import connect
from headrace.dialects.bedrock.server.statements import SQL
from headrace.dialects.bedrock.server.values import render, render_text
from headrace.dialects.bedrock.wire import MEBIBYTE, Refused

T = TypeVar("T")

ENTRY = "from headrace.dialects.bedrock.server.query_process import main; main()"
LENGTH_BYTES = 8
"""Each message is preceded by its length."""
GRACE = 0.2
"""Seconds between the end of a query's time and the end of its process."""

READING = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE})
FORBIDDEN = frozenset({apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH, apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT})
TEMPORARY = frozenset({
    apsw.SQLITE_CREATE_TEMP_INDEX, apsw.SQLITE_CREATE_TEMP_TABLE, apsw.SQLITE_CREATE_TEMP_TRIGGER,
    apsw.SQLITE_CREATE_TEMP_VIEW,
})  # fmt: skip
"""What would hide the tables of the file from later queries."""
CREATIONS = frozenset(
    {apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_VIEW, apsw.SQLITE_CREATE_VTABLE}
)
SCHEMA_CHANGES = frozenset(
    {apsw.SQLITE_ALTER_TABLE, apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_DROP_TABLE, apsw.SQLITE_DROP_INDEX}
)
FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
PRAGMAS_WITH_NAMES = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)
READING_PRAGMAS = PRAGMAS_WITH_NAMES | {
    "application_id", "auto_vacuum", "cache_size", "collation_list", "compile_options", "data_version", "database_list",
    "encoding", "freelist_count", "function_list", "journal_mode", "max_page_count", "module_list", "page_count",
    "page_size", "pragma_list", "query_only", "schema_version", "synchronous", "user_version", "wal_autocheckpoint",
}  # fmt: skip
OURS = {
    "jobs", "server", "jobsName", "jobsParentJobIDState", "jobsMockedNamePriorityNextRun",
    "jobsMockedPriorityNextRunName", "jobsSequentialKeyState",
}  # fmt: skip
"""What the server cannot do without: its rows may be changed, its shape may not."""

LONGEST_VALUE = 4 * MEBIBYTE
MOST_MEMORY = 256 * MEBIBYTE
LONGEST_ANSWER = 64 * MEBIBYTE
WATCH_EVERY = 200
"""Steps of SQLite's machine between two looks of the watchman."""


class Setup(Struct, frozen=True):
    """What a process is told first."""

    path: str
    full_sync: bool
    most_rows: int


class Ask(Struct, frozen=True):
    """One query."""

    sql: str
    format: str
    seconds: float
    writes: bool = False


class Told(Struct, frozen=True):
    """What came of a query: a body, a refusal, or the news that it wants to write."""

    body: bytes = b""
    refused: str = ""
    error: str = ""
    wants_to_write: bool = False
    row_id: int | None = None
    """The row that was inserted last."""


class Watch:
    """How long a query may take, and how much memory."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._before = apsw.memory_used()

    @property
    def late(self) -> bool:
        return time.monotonic() > self._deadline

    def over(self) -> bool:
        return self.late or apsw.memory_used() - self._before > MOST_MEMORY

    def refusal(self) -> Told:
        if self.late:
            return Told(refused="555 Timeout")
        return Told(refused="402 Bad query", error="it takes too much memory")


def main() -> None:
    """Answer queries that come on the socket that is standard input, until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the server ends it, after the last answer
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=sys.stdin.fileno()) as server, server.makefile("rwb") as stream:
        setup = receive(stream, _decode_setup)
        if setup is None:
            return
        queries = Queries(setup)
        while (ask := receive(stream, _decode_ask)) is not None:
            # The kernel ends this process then, whatever it is doing.
            signal.setitimer(signal.ITIMER_REAL, ask.seconds + GRACE)
            told = queries.write(ask) if ask.writes else queries.read(ask)
            signal.setitimer(signal.ITIMER_REAL, 0)
            stream.write(message(told))
            stream.flush()


_decode_setup = msgspec.msgpack.Decoder(Setup).decode
_decode_ask = msgspec.msgpack.Decoder(Ask).decode
decode_told = msgspec.msgpack.Decoder(Told).decode


def message(value: Struct) -> bytes:
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def receive(stream: BinaryIO | Any, decode: Callable[[bytes], T]) -> T | None:
    """The next message; None if there is none."""
    length = stream.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    data = stream.read(int.from_bytes(length, "big"))
    return decode(data)


class Queries:
    """The connections of a process, one for each kind of query."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._reader = _read_only(setup.path)
        self._reader.authorizer = self._authorize
        self._wants_to_write = False
        self._writer: apsw.Connection | None = None

    def read(self, ask: Ask) -> Told:
        """Read rows, or say that there is anything in it but reading."""
        self._wants_to_write = False
        watch = Watch(ask.seconds)
        with _watched(self._reader, watch):
            try:
                return Told(body=_read_rows(self._reader, ask, self._setup.most_rows).encode())
            except apsw.ReadOnlyError:
                return Told(wants_to_write=True)
            except apsw.InterruptError:
                return watch.refusal()
            except apsw.Error as error:
                if self._wants_to_write:
                    return Told(wants_to_write=True)
                return Told(refused="402 Bad query", error=str(error))
            except Refused as refused:
                return Told(refused=refused.status, error=dict(refused.headers)["error"])
            except UnicodeError:
                return Told(refused="402 Bad query", error="a value is not UTF-8: ask for its hex()")

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in READING or (action == apsw.SQLITE_FUNCTION and second not in FORBIDDEN_FUNCTIONS):
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_PRAGMA:
            return _authorize_pragma(first, second)
        if action not in FORBIDDEN and action != apsw.SQLITE_FUNCTION:
            self._wants_to_write = True
        return apsw.SQLITE_DENY

    def write(self, ask: Ask) -> Told:
        """Run a query that writes, in a transaction of its own. Confined, but trusted with the data."""
        if self._writer is None:
            self._writer = connect(self._setup.path, full_sync=self._setup.full_sync)
            self._writer.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection = self._writer
        watch = Watch(ask.seconds)
        connection.execute("BEGIN IMMEDIATE")
        try:
            before = Counters.read(connection)
            connection.authorizer = _authorize_write
            try:
                with _watched(connection, watch):
                    for _ in connection.execute(ask.sql, can_cache=False):
                        pass
            finally:
                connection.authorizer = None
            if not before.may_become(Counters.read(connection)):
                return Told(refused="502 Query failed", error="the server's own counters can't be changed")
            row_id = connection.last_insert_rowid()
            connection.execute(SQL["count_commit"])
            connection.execute("COMMIT")
        except apsw.InterruptError:
            return watch.refusal()
        except apsw.Error as error:
            return Told(refused="502 Query failed", error=str(error))
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return Told(row_id=row_id)


def _read_only(path: str) -> apsw.Connection:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(1_000)
    connection.execute("PRAGMA query_only = 1")
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    # What is sorted stays in memory, where the watchman sees it: no file of any size on the disk.
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


class Counters(NamedTuple):
    """How many writes were committed, and the highest id that a job was ever given."""

    commits: list[Any]
    highest_id: int

    @staticmethod
    def read(connection: apsw.Connection) -> Counters:
        (given, *_) = [row[0] for row in connection.execute(SQL["given_id"])] or [0]
        return Counters(connection.execute(SQL["commit_count"]).fetchall(), given if isinstance(given, int) else -1)

    def may_become(self, later: Counters) -> bool:
        return self.commits == later.commits and self.highest_id <= later.highest_id


def _authorize_write(action: int, first: str | None, second: str | None, place: str | None, *_: str | None) -> int:
    if action in FORBIDDEN or (action == apsw.SQLITE_FUNCTION and second in FORBIDDEN_FUNCTIONS):
        return apsw.SQLITE_DENY
    if action == apsw.SQLITE_PRAGMA:
        return _authorize_pragma(first, second)
    if action in TEMPORARY or (action in CREATIONS and place == "temp"):
        return apsw.SQLITE_DENY
    if action == apsw.SQLITE_CREATE_TRIGGER or (action in SCHEMA_CHANGES and {first, second} & OURS):
        return apsw.SQLITE_DENY  # a trigger would act when the server writes
    return apsw.SQLITE_OK


def _authorize_pragma(name: str | None, value: str | None) -> int:
    """Reading ones pass; one with a value passes only where the value is the name of something."""
    name = (name or "").lower()
    allowed = name in PRAGMAS_WITH_NAMES if value is not None else name in READING_PRAGMAS
    return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY


@contextmanager
def _watched(connection: apsw.Connection, watch: Watch) -> Iterator[None]:
    connection.set_progress_handler(watch.over, WATCH_EVERY)
    try:
        yield
    finally:
        connection.set_progress_handler(None)


def _read_rows(connection: apsw.Connection, ask: Ask, most_rows: int) -> str:
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
        for row in cursor.execute(ask.sql, can_cache=False):
            values = map(render, row)
            if ask.format == "objects":
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
    return f'{{"headers":[{",".join(names)}],"rows":{listed}}}' if ask.format == "table" else listed
