"""One SQLite file: its connections, the transactions on them, and what its errors mean in words."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import apsw

from headrace import crashpoints
from headrace.errors import (
    HeadraceError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)
from headrace.locks import is_mine
from headrace.records import NewJob, Put, Ref
from headrace.store.contract import Operation
from headrace.store.facets import DETAIL
from headrace.store.settings import DEFINITIONS
from headrace.store.sqlite import guard
from headrace.store.sqlite.codes import TRACKED
from headrace.store.sqlite.guard import BUSY, INTERRUPTED, REPLACED, Hold, held, hold_on, let_go
from headrace.store.sqlite.opening import check_file_system, migrate, set_journal, set_up
from headrace.store.sqlite.statements import SQL

T = TypeVar("T")
R = TypeVar("R")

READ, WRITE = "BEGIN", "BEGIN IMMEDIATE"


class Connection(apsw.Connection):
    """A connection, and what keeps its file from being pulled away."""

    hold: Hold | None = None

    @cached_property
    def execute_alone(self) -> Callable[[str, tuple[Any, ...]], apsw.Cursor]:
        """`execute` with a cursor that is kept, for statements that answer nothing."""
        return self.cursor().execute

    def close(self, force: bool = False) -> None:
        guard.enter()
        try:
            hold, self.hold = self.hold, None
            if hold is None:
                super().close(force)
                return
            if hold.gone:  # a log that no other process sees must not be written into the file
                self.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            let_go(hold, lambda: super(Connection, self).close(force))
        finally:
            guard.leave()


class Database:
    """Connections to one file, handed out one per operation."""

    def __init__(
        self,
        path: str,
        *,
        full_sync: bool = False,
        immutable: bool = False,
        pragmas: dict[str, int] | None = None,
        mount_table: str = "/proc/self/mounts",
    ) -> None:
        self.in_memory = path == ":memory:"
        self.path = path if self.in_memory else os.path.abspath(path)  # a job may change the working directory
        self._full_sync = full_sync
        self._immutable = immutable
        self._pragmas = pragmas or {}
        self._idle: list[Connection] = []
        self._look_at = 0.0
        if not self.in_memory:
            check_file_system(self.path, immutable, mount_table)
        try:
            self._idle.append(self.connect())
        except apsw.Error as error:
            raise self._explain(error) from error
        _databases.add(self)

    def connect(self) -> Connection:
        if not self.in_memory and (hold := held(self.path)) is not None and hold.lost():
            # Connections to the old log are in use, and SQLite would share its index with a new one.
            raise self._replaced(hold)
        guard.enter()
        try:
            connection = self._new_connection()
            try:
                has_log = not (self.in_memory or self._immutable)
                set_up(connection, self._pragmas)
                if has_log:
                    set_journal(connection, self.path)
                if not self._immutable:
                    connection.execute(f"PRAGMA synchronous = {'FULL' if self._full_sync else 'NORMAL'}")
                    migrate(connection)
                connection.hold = hold_on(self.path) if has_log else Hold(self.path, log=False)
            except StoreReplaced:  # what this one has opened is half of the old file
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()
                raise
            except BaseException:
                connection.close()
                raise
        finally:
            guard.leave()
        return connection

    def _new_connection(self) -> Connection:
        if self._immutable:
            uri = f"file:{Path(self.path).resolve().as_uri().removeprefix('file://')}?immutable=1"
            return Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        return Connection(self.path)

    def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do some work in a write transaction: it sees the newest state, and all of it happens or none."""
        return self._transact(WRITE, work)

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do some work in a read transaction: one consistent view, and no writer waits."""
        try:
            return self._transact(READ, work)
        except StoreCorrupt:
            # A copy of SQLite other than ours can take a reader's lock away (see `hold`), so that it sees what is being
            # changed. Damage is there the second time, too.
            return self._transact(READ, work)

    def autocommit(self, statement: str, values: tuple[Any, ...]) -> None:
        """A write transaction of a single statement: `write` in one piece, which makes a put quicker."""
        try:
            connection = self._check_out()
            hold = connection.hold
            assert hold is not None
            try:
                if is_mine(hold.turn):
                    raise StoreBusy(INTERRUPTED.format(self.path))
                since = time.monotonic()
                with hold.turn:
                    hold.keep_others_out(since)
                    try:
                        guard.enter()
                        try:
                            connection.execute_alone(statement, values)
                        finally:
                            guard.leave()
                        if hold.lost():
                            raise self._replaced(hold)
                    finally:
                        if hold.locked:
                            hold.let_others_in()
            except BaseException:
                self._doubt(connection)
                raise
            self._check_in(connection)
        except apsw.Error as error:
            raise self._explain(error) from error

    def _transact(self, begin: str, work: Callable[[apsw.Connection], T]) -> T:
        try:
            connection = self._check_out()
            try:
                if begin is READ and not self.in_memory:
                    answer = self._inside(connection, begin, work)
                else:
                    answer = self._alone(connection, begin, work)
            except BaseException:
                self._doubt(connection)
                raise
            self._check_in(connection)
        except apsw.Error as error:
            raise self._explain(error) from error
        return answer

    def _doubt(self, connection: Connection) -> None:
        """A connection whose operation failed is not used again."""
        if not self.in_memory:
            with suppress(apsw.Error):
                connection.close()

    def _alone(self, connection: Connection, begin: str, work: Callable[[apsw.Connection], T]) -> T:
        """While no other thread and no other process does the same."""
        hold = connection.hold
        assert hold is not None
        if is_mine(hold.turn):
            raise StoreBusy(INTERRUPTED.format(self.path))
        since = time.monotonic()
        with hold.turn:
            hold.keep_others_out(since)
            try:
                answer = self._inside(connection, begin, work)
                if hold.lost():
                    raise self._replaced(hold)
            finally:
                if hold.locked:
                    hold.let_others_in()
        return answer

    @staticmethod
    def _inside(connection: Connection, begin: str, work: Callable[[apsw.Connection], T]) -> T:
        guard.enter()
        try:
            connection.execute(begin)
            answer = work(connection)
            if crashpoints.armed:
                crashpoints.reach("commit.before")
            connection.execute("COMMIT")
            if crashpoints.armed:
                crashpoints.reach("commit.after")
        except BaseException:
            with suppress(apsw.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            raise
        finally:
            guard.leave()
        return answer

    def _check_out(self) -> Connection:
        """A connection for one operation. Never shared between threads, never carried over a fork."""
        if self.in_memory:
            return self._idle[0]
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.connect()
        # What is written to a file that has been deleted or replaced is lost. (For the log see `Hold.lost`.)
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + 1.0
            if connection.hold is not None and connection.hold.moved():
                self._idle.append(connection)
                raise self._replaced(connection.hold)
        return connection

    def _replaced(self, hold: Hold) -> StoreReplaced:
        """Let go of files that others do not see; the next operation uses what is there now."""
        for database in list(_databases):
            database.close(hold)
        return StoreReplaced(REPLACED.format(self.path))

    def _check_in(self, connection: Connection) -> None:
        if self.in_memory:
            return
        if connection.hold is None or connection.hold.gone:
            connection.close()
        else:
            self._idle.append(connection)

    def mode(self) -> int:
        """The permissions of the file: users with these may send and get wake-ups."""
        try:
            return os.stat(self.path).st_mode & 0o666
        except OSError:
            return 0o666

    def _explain(self, error: apsw.Error) -> StoreError:
        where = self.path
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return StoreBusy(BUSY.format(where))
        if isinstance(error, apsw.FullError):
            return StoreFull(
                f"{where}: the disk (or the database's size limit) is full. Nothing was written; free some space."
            )
        if isinstance(error, apsw.ReadOnlyError):
            return StoreReadOnly(f"{where} cannot be written to. Check who owns it and its -wal and -shm files.")
        if isinstance(error, apsw.NotADBError):
            return StoreCorrupt(f"{where} is not a SQLite database.")
        if isinstance(error, apsw.CorruptError):
            return StoreCorrupt(f"{where} is damaged ({error}). Stop all workers and restore it from a backup.")
        if isinstance(error, apsw.CantOpenError):
            return StoreUnavailable(f"Cannot open {where}: check that its folder exists and that you may write there.")
        if isinstance(error, apsw.IOError):
            return StoreUnavailable(f"{where}: the disk reports an error ({error}).")
        return StoreError(f"{where}: {error}")

    def close(self, hold: Hold | None = None) -> None:
        """Close what is idle. (Operations in flight in other threads close theirs when they end.)"""
        for connection in list(self._idle):
            if hold is None or connection.hold is hold:
                with suppress(ValueError):  # another thread has just taken it
                    self._idle.remove(connection)
                    connection.close()

    def leave_to_parent(self) -> None:
        """A child must not touch, nor even close, what its parent opened: SQLite's locks would be lost."""
        if not self.in_memory:
            abandoned.extend(self._idle)
            self._idle = []


_databases: WeakSet[Database] = WeakSet()
abandoned: list[Connection] = []


def _after_fork() -> None:
    for database in list(_databases):
        database.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)


# -- operations --------------------------------------------------------------------------------------

EVERYONE = 1 << 30
"""All workers that serve a queue should look: its limit has changed, or a job will be due at a time that is news."""

INLINE = 1_000
"""Values up to this many bytes are carried along in the job's row."""


class Transaction:
    """One transaction: its connection, its time, and what to tell sleepers once it is committed."""

    __slots__ = (
        "_settings",
        "connection",
        "ended",
        "execute",
        "happenings",
        "listened",
        "now",
        "queues",
        "steady",
        "stop",
    )

    connection: apsw.Connection
    execute: Callable[..., apsw.Cursor]
    now: int
    steady: int

    def __init__(self) -> None:
        self.queues: dict[str, int] = {}
        """Queues that may have work now, or sooner than was known, and how many workers should look."""
        self.ended: list[str] = []
        """Jobs that reached a final state."""
        self.stop = False
        """A running job is to stop: all workers should look."""
        self._settings: dict[str, int] = {}
        self.listened = False
        """There is a subscriber to events."""
        self.happenings: list[tuple[object, ...]] = []
        """The events: rows of `event`."""

    def begin(self, connection: apsw.Connection, now: int, steady: int) -> Transaction:
        """Time is read inside the transaction: it never goes back between two that follow each other."""
        self.connection = connection
        self.execute = connection.execute
        self.now = now
        self.steady = steady
        return self

    def setting(self, name: str) -> int | None:
        """What has been set, or the default. Looked up once."""
        if name not in self._settings:
            found = self.maybe_value(SQL["setting_get"], (name,))
            value = DEFINITIONS[name].default if found is None else found
            if value is None:
                return None
            self._settings[name] = value
        return self._settings[name]

    def number(self, name: str) -> int:
        """The same, of one that always has a value."""
        value = self.setting(name)
        assert value is not None
        return value

    def rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of a query."""
        return self.execute(statement, values).fetchall()

    def row(self, kind: Callable[..., R], statement: str, values: tuple[Any, ...] = ()) -> R:
        """The row of a query that has one, with names."""
        return kind(*self.execute(statement, values).fetchall()[0])

    def maybe_row(self, kind: Callable[..., R], statement: str, values: tuple[Any, ...] = ()) -> R | None:
        """The first row of a query, with names, if there is one."""
        found = self.execute(statement, values).fetchall()
        return kind(*found[0]) if found else None

    def value(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """The first column of a query that has a row."""
        return self.execute(statement, values).fetchall()[0][0]

    def maybe_value(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """The first column of a query's first row; None if there is no row."""
        found = self.execute(statement, values).fetchall()
        return found[0][0] if found else None

    def news(self, queue: str, workers: int = 1) -> None:
        """A queue has work for so many workers."""
        self.queues[queue] = self.queues.get(queue, 0) + workers

    def happened(self, seq: Ref, what: str, detail: str = "", worker: str = "") -> None:
        """Make an event of a job, if there is a subscriber. The job's row must (still) be there."""
        if self.listened:
            short = detail.encode()[:DETAIL].decode(errors="ignore")
            for job_id, task, queue, flags in self.rows(SQL["event_about"], (seq,)):
                tracked = 1 if flags & TRACKED else 0
                self.happenings.append((self.now, what, job_id, task, queue, worker, short, tracked))


class Step(Operation[T], Generic[T]):
    """An operation on a SQLite store.

    `try_read_only`, in a read transaction, may find the answer without writing: None means that it takes `work`.
    `then` hears the answer when all is committed.
    """

    __slots__ = ("then", "try_read_only", "work", "writes")

    def __init__(
        self,
        work: Callable[[Transaction], T],
        *,
        writes: bool = True,
        try_read_only: Callable[[Transaction], T | None] | None = None,
        then: Callable[[T], None] | None = None,
    ) -> None:
        self.work = work
        self.writes = writes
        self.try_read_only = try_read_only
        self.then = then


class Steps(Operation[T], Generic[T]):
    """An operation of several transactions: a generator that yields a `Step` at a time and gets what it returns."""

    __slots__ = ("begin",)

    def __init__(self, begin: Callable[[], Generator[Step[Any], Any, T]]) -> None:
        self.begin = begin

    def run(self, run: Callable[[Step[Any]], Any]) -> T:
        steps, answer, trouble = self.begin(), None, None
        while True:
            try:
                step = steps.send(answer) if trouble is None else steps.throw(trouble)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                answer, trouble = run(step), None
            except HeadraceError as error:
                trouble = error


class Redo(Exception):
    """The work has to be done in another way, and from its beginning: what it has written is taken back."""

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        self.work = work


class PutOne(Operation[list[Put]]):
    """The most common operation of all: one statement, and so a transaction by itself."""

    __slots__ = ("job",)

    def __init__(self, job: NewJob) -> None:
        self.job = job
