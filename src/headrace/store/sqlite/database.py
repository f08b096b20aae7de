"""One SQLite file: opening it, its schema, its connections, and what its errors mean in words."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

import apsw

from headrace import crashpoints
from headrace.errors import (
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)
from headrace.locks import is_mine
from headrace.store.sqlite import guard
from headrace.store.sqlite.guard import BUSY, INTERRUPTED, PATIENCE, REPLACED, Hold, held, hold_on, let_go, nap
from headrace.store.sqlite.statements import SQL

T = TypeVar("T")

APPLICATION_ID = 0x68_72_63_65  # "hrce": what `file jobs.db` shows, and how we know a file as ours
SCHEMA_VERSION = 2
MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {
    1: lambda connection: connection.execute(SQL["migrate_1"]).close(),
}
"""From a version to the next, each run inside the transaction that records it."""

NOT_OURS = "{} is a SQLite database of another program: choose another file."

NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p", "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "lustre",
        "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs",
    }
)  # fmt: skip


def mount_of(path: Path, mount_table: str = "/proc/self/mounts") -> tuple[str, str, bool]:
    """The mount point a path is on, its file system, and whether it is read-only. Unknown: ("", "", False)."""
    try:
        lines = Path(mount_table).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "", "", False
    best = ("", "", False)
    resolved = path.resolve()
    for line in lines:
        fields = line.split()
        if len(fields) < 4:
            continue
        point = fields[1].replace("\\040", " ")
        # Later lines cover earlier ones on the same point.
        if len(point) >= len(best[0]) and resolved.is_relative_to(point):
            best = (point, fields[2], "ro" in fields[3].split(","))
    return best


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
            self._check_file_system(mount_table)
        try:
            self._idle.append(self._connect())
        except apsw.Error as error:
            raise self._explain(error) from error
        _databases.add(self)

    def _check_file_system(self, mount_table: str) -> None:
        folder = Path(self.path).resolve().parent
        if not folder.is_dir():
            raise StoreUnavailable(f"Cannot open {self.path}: the folder {folder} does not exist. Create it first.")
        point, kind, read_only = mount_of(folder, mount_table)
        if kind in NETWORK_FILE_SYSTEMS:
            raise StoreUnavailable(
                f"{self.path} is on a network file system ({kind} at {point}), where SQLite's write-ahead log "
                "loses data. Use a local disk, or a store with a server."
            )
        if read_only and not self._immutable:
            raise StoreReadOnly(
                f"{self.path} is on a read-only file system ({kind} at {point}). To look at it without "
                "writing, add ?immutable=1 to the URL."
            )

    def _connect(self) -> Connection:
        if not self.in_memory and (hold := held(self.path)) is not None and hold.lost():
            # Connections to the old log are in use, and SQLite would share its index with a new one.
            raise self._replaced(hold)
        guard.enter()
        try:
            connection = self._new_connection()
            try:
                self._set_up(connection)
                if not self._immutable:
                    migrate(connection)
                has_log = not (self.in_memory or self._immutable)
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

    def _set_up(self, connection: Connection) -> None:
        connection.set_busy_handler(_Patience())
        if not self._immutable:
            if not self.in_memory:
                self._set_journal(connection)
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._full_sync else 'NORMAL'}")
        connection.execute("PRAGMA cache_size = -16000")
        # What a long reader let grow shrinks again. A log of the usual length stays as it is, to be overwritten.
        connection.execute("PRAGMA wal_autocheckpoint = 7500")
        connection.execute("PRAGMA journal_size_limit = 16000000")
        for name, value in self._pragmas.items():
            connection.execute(f"PRAGMA {name} = {int(value)}")

    def _set_journal(self, connection: apsw.Connection) -> None:
        # Small pages: a commit writes whole pages to the log, and a job's head is a tenth of one.
        connection.execute("PRAGMA page_size = 2048")
        mode = self._write_ahead(connection)
        if mode != "wal":
            raise StoreUnavailable(f"{self.path}: this file system cannot hold a write-ahead log (mode {mode}).")

    @staticmethod
    def _write_ahead(connection: apsw.Connection) -> str:
        """Set the journal. SQLite calls no busy handler when several processes set that of a new file at once."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
                return str(mode)
            except apsw.BusyError:
                if time.monotonic() > give_up:
                    raise
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311

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
            connection = self._connect()
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

    def change_counter(self) -> ChangeCounter:
        """A cheap counter that changes with every commit of another connection."""
        return ChangeCounter(self._connect)

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
            _abandoned.extend(self._idle)
            self._idle = []


class ChangeCounter:
    """How often others have changed the file, as seen by one connection."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection = connect()
        self._process = os.getpid()
        self._before = 0

    def __call__(self) -> tuple[int, int]:
        if self._process != os.getpid():
            _abandoned.append(self._connection)
            self._process, self._connection = os.getpid(), self._connect()
        elif self._connection.hold is None or self._connection.hold.gone:
            self._connection.close()
            self._connection = self._connect()
            self._before += 1
        guard.enter()
        try:
            return self._before, _number(self._connection, "PRAGMA data_version")
        finally:
            guard.leave()

    def close(self) -> None:
        if self._process == os.getpid():
            self._connection.close()


_databases: WeakSet[Database] = WeakSet()
_abandoned: list[Connection] = []


def _after_fork() -> None:
    for database in list(_databases):
        database.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)


class _Patience:
    """How a connection waits for the write lock of a program that is not headrace."""

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, attempt: int) -> bool:
        if attempt == 0:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > PATIENCE:
            return False
        guard.leave()  # a thread that waits holds no mutex that a child would miss
        try:
            nap(attempt)
        finally:
            guard.enter()
        return True


def migrate(connection: apsw.Connection) -> None:
    """Create the schema, or bring it up to date. Safe when several processes do it at once."""
    version = _version(connection)
    if version == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        if version > SCHEMA_VERSION:
            raise SchemaTooNew(
                f"{connection.filename} has schema version {version}; this headrace knows {SCHEMA_VERSION}. "
                "Upgrade headrace on this machine."
            )
        if version == 0:
            if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
                raise StoreCorrupt(
                    f"{connection.filename} is a SQLite database of another program: choose another file."
                )
            connection.execute(SQL["schema"])
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        else:
            for step in range(version, SCHEMA_VERSION):
                MIGRATIONS[step](connection)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: apsw.Connection) -> int:
    """0 for an empty file."""
    version = _number(connection, "PRAGMA user_version")
    if version and _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise StoreCorrupt(NOT_OURS.format(connection.filename))
    return version


def _number(connection: apsw.Connection, statement: str) -> int:
    ((value,),) = connection.execute(statement).fetchall()
    assert isinstance(value, int)
    return value
