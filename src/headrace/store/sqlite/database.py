"""One SQLite file: its connections, the transactions on them, and what its errors mean in words."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from headrace import crashpoints
from headrace.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)
from headrace.locks import is_mine
from headrace.store import forks
from headrace.store.sql.transaction import Transaction
from headrace.store.sqlite import guard
from headrace.store.sqlite.copier import LOG_PAGES_AT_MOST, Copier
from headrace.store.sqlite.guard import INTERRUPTED, REPLACED, Hold, held, hold_on, let_go
from headrace.store.sqlite.opening import (
    LOG_PAGES,
    LOG_PAGES_OF_BATCHES,
    Patience,
    check_file_system,
    create,
    is_current,
    make_private,
    set_journal,
    set_up,
)
from headrace.store.sqlite.statements import SQL

T = TypeVar("T")

READ, WRITE = "BEGIN", "BEGIN IMMEDIATE"
MEANINGS: tuple[tuple[type[apsw.Error], type[StoreError], str], ...] = (
    (apsw.FullError, StoreFull, "{}: the disk (or the database's size limit) is full. Nothing was written; free some "
     "space."),
    (apsw.ReadOnlyError, StoreReadOnly, "{} cannot be written to. Check who owns it and its -wal and -shm files."),
    (apsw.NotADBError, StoreCorrupt, "{} is not a SQLite database."),
    (apsw.CorruptError, StoreCorrupt, "{} is damaged ({}). Stop all workers and restore it from a backup."),
    (apsw.CantOpenError, StoreUnavailable, "Cannot open {}: check that its folder exists and that you may write "
     "there."),
    (apsw.IOError, StoreUnavailable, "{}: the disk reports an error ({})."),
)  # fmt: skip
"""What errors of SQLite mean, in words, with the file's path and what SQLite says."""


class Connection(apsw.Connection):
    """A connection, and what keeps its file from being pulled away."""

    hold: Hold | None = None
    patience: Patience

    @cached_property
    def execute_alone(self) -> Callable[[str, tuple[Any, ...]], apsw.Cursor]:
        """`execute` with a cursor that is kept, for statements that answer nothing."""
        return self.cursor().execute

    def close(self, force: bool = False) -> None:
        me = guard.enter()
        try:
            hold, self.hold = self.hold, None
            if hold is None:
                super().close(force)
                return
            if hold.gone:  # a log that no other process sees must not be written into the file
                self.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            let_go(hold, lambda: super(Connection, self).close(force))
        finally:
            guard.leave(me)


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
        self._copier: Copier | None = None
        if not self.in_memory:
            check_file_system(self.path, immutable, mount_table)
        try:
            self._idle.append(self.connect())
        except apsw.Error as error:
            raise self.explain(error) from error
        forks.holders.add(self)

    def connect(self) -> Connection:
        if not self.in_memory and (hold := held(self.path)) is not None and hold.lost():
            # Connections to the old log are in use, and SQLite would share its index with a new one.
            raise self._replaced(hold)
        me = guard.enter()
        try:
            connection = self._new_connection()
            try:
                has_log = not (self.in_memory or self._immutable)
                connection.patience = set_up(connection, self._pragmas)
                if has_log:
                    set_journal(connection, self.path)
                if not self._immutable:
                    connection.execute(f"PRAGMA synchronous = {'FULL' if self._full_sync else 'NORMAL'}")
                current = self._immutable or is_current(connection)  # this opens the log, which the hold needs
                connection.hold = hold_on(self.path) if has_log else Hold(self.path, log=False)
                if not current:
                    self._create(connection, connection.hold)
            except StoreReplaced:  # what this one has opened is half of the old file
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()
                raise
            except BaseException:
                connection.close()
                raise
        finally:
            guard.leave(me)
        return connection

    def _create(self, connection: Connection, hold: Hold) -> None:
        with hold.turn:
            if not self.in_memory:
                hold.lock(time.monotonic())
            try:
                self._inside(connection, WRITE, create)
            finally:
                if hold.locked:
                    hold.let_others_in()

    def _new_connection(self) -> Connection:
        if self._immutable:
            uri = f"file:{Path(self.path).resolve().as_uri().removeprefix('file://')}?immutable=1"
            return Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        if not self.in_memory:
            make_private(self.path)
        return Connection(self.path)

    def write(self, work: Callable[[apsw.Connection], T], log_pages: int = LOG_PAGES_OF_BATCHES) -> T:
        """Do some work in a write transaction: it sees the newest state, and all of it happens or none.

        `log_pages`: so many pages make it copy the log into the file.
        """
        return self._transact(WRITE, work, log_pages)

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
                since = connection.patience.since = time.monotonic()
                with hold.turn:
                    hold.keep_others_out(since)
                    try:
                        me = guard.enter()
                        try:
                            connection.execute_alone(statement, values)
                        finally:
                            guard.leave(me)
                        if hold.gone or hold.log_is_deleted():  # (`lost`, written out)
                            raise self._replaced(hold)
                    finally:
                        if hold.locked:
                            hold.let_others_in()
            except BaseException:
                self._doubt(connection)
                raise
            self._check_in(connection)
        except apsw.Error as error:
            raise self.explain(error) from error

    def _transact(self, begin: str, work: Callable[[apsw.Connection], T], log_pages: int = 0) -> T:
        try:
            connection = self._check_out()
            try:
                if begin is READ and not self.in_memory:
                    connection.patience.since = 0.0
                    answer = self._inside(connection, begin, work)
                else:
                    answer = self._alone(connection, begin, work, log_pages)
            except BaseException:
                self._doubt(connection)
                raise
            self._check_in(connection)
        except apsw.Error as error:
            raise self.explain(error) from error
        return answer

    def _doubt(self, connection: Connection) -> None:
        """A connection whose operation failed is not used again."""
        if not self.in_memory:
            with suppress(apsw.Error):
                connection.close()

    def _alone(self, connection: Connection, begin: str, work: Callable[[apsw.Connection], T], log_pages: int) -> T:
        """While no other thread and no other process does the same."""
        hold = connection.hold
        assert hold is not None
        if is_mine(hold.turn):
            raise StoreBusy(INTERRUPTED.format(self.path))
        copier = self._copier
        if copier is not None and copier.pages >= LOG_PAGES_AT_MOST:
            copier.give_up()
            copier = None
        since = connection.patience.since = time.monotonic()
        with hold.turn:
            hold.keep_others_out(since)
            # (A thread that copies the log relies on locks that are lost where there is another copy of SQLite.)
            if copier is None or hold.locked:
                copier = None
                connection.wal_autocheckpoint(log_pages)
            else:
                connection.set_wal_hook(self._committed)
            try:
                answer = self._inside(connection, begin, work)
                if hold.lost():
                    raise self._replaced(hold)
            finally:
                connection.wal_autocheckpoint(LOG_PAGES)
                if hold.locked:
                    hold.let_others_in()
            if copier is not None and copier.pages >= log_pages:
                copier.start()
        return answer

    def _committed(self, _: apsw.Connection, __: str, pages: int) -> int:
        """Called by SQLite, with how many pages the log has now."""
        if self._copier is not None:
            self._copier.pages = pages
        return apsw.SQLITE_OK

    def copy_log_aside(self) -> None:
        """From now on a thread copies the log into the file: a worker writes much, and does not wait for that."""
        if self._copier is None and not (self.in_memory or self._immutable):
            self._copier = Copier(self.connect(), self.connect())

    @staticmethod
    def _inside(connection: Connection, begin: str, work: Callable[[apsw.Connection], T]) -> T:
        me = guard.enter()
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
            guard.leave(me)
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
        hold.gone = True
        for database in list(forks.holders):
            if isinstance(database, Database):
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

    def explain(self, error: apsw.Error) -> StoreError:
        """What an error of SQLite means."""
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return guard.busy(self.path)
        found = ((kind, words) for errors, kind, words in MEANINGS if isinstance(error, errors))
        kind, words = next(found, (StoreError, "{}: {}"))
        return kind(words.format(self.path, error))

    def close(self, hold: Hold | None = None) -> None:
        """Close what is idle. (Operations in flight in other threads close theirs when they end.)"""
        copier = self._copier
        if copier is not None and (hold is None or copier.connection.hold is hold):
            self._copier = None
            copier.close()
        for connection in list(self._idle):
            if hold is None or connection.hold is hold:
                with suppress(ValueError):  # another thread has just taken it
                    self._idle.remove(connection)
                    connection.close()

    def leave_to_parent(self) -> None:
        """A child must not touch, nor even close, what its parent opened: SQLite's locks would be lost."""
        if not self.in_memory:
            forks.abandoned.extend(self._idle)
            self._idle = []
            if self._copier is not None:
                self._copier.leave_to_parent()
                self._copier = None


# -- transactions ------------------------------------------------------------------------------------


class SqliteTransaction(Transaction):
    """A transaction on a connection to a SQLite file."""

    __slots__ = ("_execute", "_execute_many", "connection")

    connection: apsw.Connection

    def begin(self, connection: apsw.Connection, now: int, steady: int) -> SqliteTransaction:
        """Time is read inside the transaction: it never goes back between two that follow each other."""
        self.connection = connection
        self._execute, self._execute_many = connection.execute, connection.executemany
        self.now = now
        self.steady = steady
        return self

    def rows(self, name: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._execute(SQL[name], values).fetchall()

    def execute(self, name: str, values: tuple[Any, ...] = ()) -> None:
        self._execute(SQL[name], values)

    def change(self, name: str, values: tuple[Any, ...] = ()) -> int:
        self._execute(SQL[name], values)
        return self.connection.changes()

    def change_many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        before = self.connection.total_changes()
        self.connection.executemany(SQL[name], rows)
        return self.connection.total_changes() - before

    def insert(self, name: str, rows: Sequence[tuple[Any, ...]], columns: str) -> list[Any]:
        return self._execute_many(f"{SQL[name]} RETURNING {columns}", rows).fetchall()

    def find(self, clauses: str, values: tuple[Any, ...]) -> list[Any]:
        return self._execute(f"{SQL['snapshot']} {clauses}", values).fetchall()

    def array(self, values: Sequence[object]) -> object:
        return msgspec.json.encode(values).decode()

    texts = pairs = array
