"""Opening a database file: where it may be, how its connections are set up, and which version it has."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path
from threading import get_ident

import apsw

from headrace.errors import SchemaTooNew, SchemaTooOld, StoreCorrupt, StoreReadOnly, StoreUnavailable
from headrace.store.sqlite import guard
from headrace.store.sqlite.guard import nap
from headrace.store.sqlite.statements import SQL

APPLICATION_ID = 0x68_72_63_65  # "hrce": what `file jobs.db` shows, and how we know a file as ours
SCHEMA_VERSION = 3

LOG_PAGES = 7_500
"""The commit that reaches it copies the log into the file, and all others wait. Puts of single jobs write the same few
pages over and over, of which only the last versions are copied. That is quick, but it waits for the disk twice: a
tenth of what a put costs, if it is done four times as often."""
LOG_PAGES_OF_BATCHES = 2_000
"""The same at the end of any other transaction. Their pages are different ones, and each 1,000 of them take about 3 ms
of processor time. A drain writes as much in all. (In a worker a thread copies them: see `copier`.)"""
LOG_PAGES_OF_LARGE_BATCHES = 1_000
"""The same of a step that brings in large bodies. No page of these is written twice, so all of them are copied."""

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


def check_file_system(path: str, immutable: bool, mount_table: str) -> None:
    """Refuse a file where SQLite would lose data, or that cannot be written."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise StoreUnavailable(f"Cannot open {path}: the folder {folder} does not exist. Create it first.")
    point, kind, read_only = mount_of(folder, mount_table)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreUnavailable(
            f"{path} is on a network file system ({kind} at {point}), where SQLite's write-ahead log "
            "loses data. Use a local disk, or a store with a server."
        )
    if read_only and not immutable:
        raise StoreReadOnly(
            f"{path} is on a read-only file system ({kind} at {point}). To look at it without "
            "writing, add ?immutable=1 to the URL."
        )


def set_up(connection: apsw.Connection, pragmas: dict[str, int]) -> Patience:
    """What every connection needs. Returns how it waits."""
    patience = Patience()
    connection.set_busy_handler(patience)
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    # What a long reader let grow shrinks again. A log of the usual length stays as it is, to be overwritten.
    connection.execute("PRAGMA journal_size_limit = 16000000")
    for name, value in pragmas.items():
        connection.execute(f"PRAGMA {name} = {int(value)}")
    return patience


def set_journal(connection: apsw.Connection, path: str) -> None:
    # Small pages: a commit writes whole pages to the log, and a job's head is a tenth of one.
    connection.execute("PRAGMA page_size = 2048")
    mode = _write_ahead(connection)
    if mode != "wal":
        raise StoreUnavailable(f"{path}: this file system cannot hold a write-ahead log (mode {mode}).")


def _write_ahead(connection: apsw.Connection) -> str:
    """Set the journal. SQLite calls no busy handler when several processes set that of a new file at once."""
    give_up = time.monotonic() + guard.PATIENCE
    while True:
        try:
            ((mode,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
            return str(mode)
        except apsw.BusyError:
            if time.monotonic() > give_up:
                raise
        time.sleep(random.uniform(0.001, 0.01))  # noqa: S311


def make_private(path: str) -> None:
    """Create a file that is not there, for its owner alone. (SQLite lets all users read it. Its log gets its mode.)"""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


class Patience:
    """How a connection waits for the write lock of another process."""

    def __init__(self) -> None:
        self.since = 0.0
        """From when on its thread has waited for its turn to write: the last of many waits no longer than the first."""
        self._begun = 0.0

    def __call__(self, attempt: int) -> bool:
        if attempt == 0:
            self._begun = self.since or time.monotonic()
        elif time.monotonic() - self._begun > guard.PATIENCE:
            return False
        guard.leave(get_ident())  # a thread that waits holds no mutex that a child would miss
        try:
            nap(attempt)
        finally:
            guard.enter()
        return True


def is_current(connection: apsw.Connection) -> bool:
    return _version(connection) == SCHEMA_VERSION


def create(connection: apsw.Connection) -> None:
    """Create the schema, in a transaction. Another process may have done so just before."""
    version = _version(connection)
    if version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise SchemaTooNew.in_database(connection.filename, version, SCHEMA_VERSION)
    if version:
        raise SchemaTooOld.in_database(connection.filename, version, SCHEMA_VERSION)
    if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        raise StoreCorrupt(NOT_OURS.format(connection.filename))
    connection.execute(SQL["tables"] + SQL["schema"])
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _version(connection: apsw.Connection) -> int:
    """0 for an empty file."""
    version = number(connection, "PRAGMA user_version")
    if version and number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise StoreCorrupt(NOT_OURS.format(connection.filename))
    return version


def number(connection: apsw.Connection, statement: str) -> int:
    ((value,),) = connection.execute(statement).fetchall()
    assert isinstance(value, int)
    return value
