"""One SQLite file: opening it, its schema, its connections, and what its errors mean in words."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

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
from headrace.store.sqlite.statements import SQL

T = TypeVar("T")

APPLICATION_ID = 0x68_72_63_65  # "hrce": what `file jobs.db` shows, and how we know a file as ours
SCHEMA_VERSION = 2
MIGRATIONS: dict[int, Callable[[apsw.Connection], None]] = {
    1: lambda connection: connection.execute(SQL["migrate_1"]).close(),
}
"""From a version to the next, each run inside the transaction that records it."""

NOT_OURS = "{} is a SQLite database of another program: choose another file."

PATIENCE = 10.0
"""Seconds to wait for another process' write transaction. Ours last milliseconds."""

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


class Connection(apsw.Connection):
    """A connection that knows which file it was opened on."""

    file: tuple[int, int] | None = None
    """Device and inode."""


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
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._file: tuple[int, int] | None = None
        self._look_at = 0.0
        self._alone = Lock()  # the in-memory database is one connection that all threads share
        if not self.in_memory:
            self._check_file_system(mount_table)
        try:
            self._open()
        except apsw.Error as error:
            raise self._explain(error) from error

    def _open(self) -> None:
        connection = self._connect()
        if not self._immutable:
            migrate(connection)
        self._file = connection.file = self._file_now()
        self._idle.append(connection)

    def _file_now(self) -> tuple[int, int] | None:
        """Which file our path leads to."""
        if self.in_memory:
            return None
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

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
        if self._immutable:
            uri = f"file:{Path(self.path).resolve().as_uri().removeprefix('file://')}?immutable=1"
            connection = Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        else:
            connection = Connection(self.path)
        connection.file = self._file
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
        return connection

    def _set_journal(self, connection: apsw.Connection) -> None:
        # Small pages: a commit writes whole pages to the log, and a job's head is a tenth of one.
        connection.execute("PRAGMA page_size = 2048")
        mode = self._write_ahead(connection)
        if mode != "wal":
            raise StoreUnavailable(f"{self.path}: this file system cannot hold a write-ahead log (mode {mode}).")

    @staticmethod
    def _write_ahead(connection: apsw.Connection) -> str:
        """Several that turn a new file's journal at once are told that it is busy; no busy handler is asked."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                return str(connection.execute("PRAGMA journal_mode = WAL").fetchall()[0][0])
            except apsw.BusyError:
                if time.monotonic() > give_up:
                    raise
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311

    def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do some work in a write transaction: it sees the newest state, and all of it happens or none."""
        return self._transact("BEGIN IMMEDIATE", work)

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do some work in a read transaction: one consistent view, nobody is kept waiting."""
        return self._transact("BEGIN", work)

    def _transact(self, begin: str, work: Callable[[apsw.Connection], T]) -> T:
        try:
            connection = self._check_out()
            try:
                connection.execute(begin)
                answer = work(connection)
                if crashpoints.armed:
                    crashpoints.reach("commit.before")
                connection.execute("COMMIT")
                if crashpoints.armed:
                    crashpoints.reach("commit.after")
            except BaseException:
                self._abort(connection)
                raise
            self._check_in(connection)
        except apsw.Error as error:
            raise self._explain(error) from error
        return answer

    def autocommit(self, statement: str, values: tuple[Any, ...]) -> None:
        """A write transaction of a single statement, without the ceremony."""
        try:
            connection = self._check_out()
            try:
                connection.execute(statement, values)
            except BaseException:
                self._abort(connection)
                raise
            self._check_in(connection)
        except apsw.Error as error:
            raise self._explain(error) from error

    def _check_out(self) -> Connection:
        """A connection for one operation. Never shared between threads, never carried over a fork."""
        if self.in_memory:
            self._alone.acquire()
            return self._idle[0]
        if self._pid != os.getpid():
            # A child must not touch, nor even close, what its parent opened: SQLite's locks would be lost.
            _abandoned.extend(self._idle)
            self._idle = []
            self._pid = os.getpid()
        self._look_for_another_file()
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _look_for_another_file(self) -> None:
        """What is written to a file that has been deleted or replaced is lost: look once a second."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + 1.0
        if self._file != self._file_now():
            self.close()
            self._open()
            raise StoreReplaced(
                f"{self.path} was deleted or replaced while it was in use. What was in the old file is not in this one."
            )

    def _check_in(self, connection: Connection) -> None:
        if self.in_memory:
            self._alone.release()
        elif connection.file == self._file:
            self._idle.append(connection)
        else:
            connection.close()

    def _abort(self, connection: Connection) -> None:
        """Undo what a failed operation did; a connection in doubt is not used again."""
        with suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if self.in_memory:
            self._alone.release()
        else:
            with suppress(apsw.Error):
                connection.close()

    def mode(self) -> int:
        """Who may read and write the file: the same may ring and be rung."""
        try:
            return os.stat(self.path).st_mode & 0o666
        except OSError:
            return 0o666

    def change_counter(self) -> Callable[[], int]:
        """Something cheap to ask that answers differently after any commit by anyone else."""
        connection = self._connect()
        return lambda: _number(connection, "PRAGMA data_version")

    def _explain(self, error: apsw.Error) -> StoreError:
        where = self.path
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return StoreBusy(
                f"{where} has been locked by another process for {PATIENCE:.0f} seconds. Is a long transaction open in "
                "another program, or a backup running?"
            )
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

    def close(self) -> None:
        """Close what is idle. (Operations in flight in other threads close theirs when they end.)"""
        while self._idle:
            self._idle.pop().close()


_abandoned: list[Connection] = []


class _Patience:
    """How a connection waits for the write lock.

    SQLite's own back-off sleeps too long for transactions that last a fraction of a millisecond.
    """

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, attempt: int) -> bool:
        if attempt == 0:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > PATIENCE:
            return False
        time.sleep(random.uniform(0.0001, min(0.0002 * (attempt + 1), 0.005)))  # noqa: S311
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
        connection.close()
        raise


def _version(connection: apsw.Connection) -> int:
    """0 for an empty file."""
    version = _number(connection, "PRAGMA user_version")
    if version and _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise StoreCorrupt(NOT_OURS.format(connection.filename))
    return version


def _number(connection: apsw.Connection, statement: str) -> int:
    (value,) = connection.execute(statement).fetchall()[0]
    assert isinstance(value, int)
    return value
