"""The server's file: opening it, keeping other servers out, and what its errors mean in words."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import apsw

from headrace.dialects.bedrock.server.statements import SQL
from headrace.errors import SchemaTooNew, StoreBusy, StoreCorrupt, StoreReadOnly, StoreUnavailable
from headrace.store.sqlite.guard import open_beside
from headrace.store.sqlite.opening import NOT_OURS, check_file_system, make_private, number, set_journal

APPLICATION_ID = 0x68_72_62_6A  # "hrbj": what tells this file from a native store's
SCHEMA_VERSION = 1


class Database:
    """The file of one server, and the connection that writes to it."""

    def __init__(self, path: str, *, full_sync: bool = False) -> None:
        self.path = path
        self.full_sync = full_sync
        self._lock: int | None = _keep_others_out(Path(path))
        try:
            self.connection = connect(path, full_sync=full_sync)
            _prepare(self.connection)
        except BaseException as error:
            self._unlock()
            if isinstance(error, apsw.Error):
                raise _explain(path, error) from error
            raise

    def commit_count(self) -> int:
        """How many writes have been committed."""
        count: int = self.connection.execute(SQL["commit_count"]).fetchall()[0][0]  # type: ignore[assignment]
        return count

    def close(self) -> None:
        self.connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def connect(path: str, *, full_sync: bool) -> apsw.Connection:
    """A connection that writes."""
    make_private(path)
    connection = apsw.Connection(path, statementcachesize=200)
    connection.set_busy_timeout(10_000)
    # Without this a statement is compiled again whenever other values are bound to it, in search of a better plan.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    set_journal(connection, path)
    connection.execute(f"PRAGMA synchronous = {'FULL' if full_sync else 'NORMAL'}")
    connection.execute("PRAGMA cache_size = -64000")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    return connection


def _keep_others_out(path: Path) -> int:
    """Two servers on one file would not wake each other's waiters. The lock goes with the process."""
    check_file_system(str(path), True, "/proc/self/mounts")
    try:
        lock = open_beside(f"{path}-server", 0o600)
    except OSError as error:
        raise StoreReadOnly(f"{path} cannot be served from here: {error.strerror or error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreBusy(f"{path} is being served by another process.") from error
    return lock


def _prepare(connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = number(connection, "PRAGMA user_version")
        application = number(connection, "PRAGMA application_id")
        tables = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        if application != APPLICATION_ID and (version or tables):
            raise StoreCorrupt(NOT_OURS.format(connection.filename))
        if version > SCHEMA_VERSION:
            raise SchemaTooNew.in_database(connection.filename, version, SCHEMA_VERSION)
        if version == 0:
            connection.execute(SQL["schema"])
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        connection.close()
        raise


def _explain(path: str, error: apsw.Error) -> StoreUnavailable | StoreCorrupt | StoreReadOnly:
    if isinstance(error, apsw.NotADBError):
        return StoreCorrupt(f"{path} is not a SQLite database.")
    if isinstance(error, apsw.CorruptError):
        return StoreCorrupt(f"{path} is damaged ({error}). Restore it from a backup.")
    if isinstance(error, apsw.ReadOnlyError):
        return StoreReadOnly(f"{path} cannot be written to. Check who owns it and its -wal and -shm files.")
    return StoreUnavailable(f"Cannot open {path}: {error}.")
