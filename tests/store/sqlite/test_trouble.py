"""What can be wrong with a file, a disk or a folder, and what is said about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from headrace.errors import (
    SchemaTooNew,
    SchemaTooOld,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)
from headrace.records import NewJob
from headrace.store.contract import Durability
from headrace.store.sqlite import guard, opening
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import ManualClock

from .conftest import OpenStore
from .helpers import Session, count, forked, healthy, jobs, look


def said(caught: pytest.ExceptionInfo[StoreError]) -> str:
    return str(caught.value)


# -- no space --


def put_until_full(store: SqliteStore, batch: int) -> tuple[int, StoreError]:
    """How many jobs were acknowledged before there was no more space, and what was said then."""
    for number in range(10_000):
        try:
            store.run(store.put(jobs(batch)))
        except StoreUnavailable as error:
            return number * batch, error
    raise AssertionError("it never filled up")


def fill(path: Path) -> None:
    """Take up all space that is left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def test_a_full_disk_loses_nothing(path: Path, open_store: OpenStore) -> None:
    store = open_store(pragmas={"max_page_count": 200})
    acknowledged, error = put_until_full(store, 50)
    assert isinstance(error, StoreFull)
    assert str(error) == (
        f"{path}: the disk (or the database's size limit) is full. Nothing was written; free some space."
    )
    assert acknowledged > 0
    assert count(store) == acknowledged, "all or nothing"
    session_store = open_store()  # without the limit: somebody has freed some space
    session = Session(session_store)
    leases = session.take(50)
    assert len(leases) == 50
    session.settle(*leases)
    session_store.run(session_store.delete([lease.id for lease in leases]))
    store.run(store.put(jobs(10)))
    assert count(store) == acknowledged - 40, "the same store works again"
    assert healthy(path)


@pytest.mark.skipif(os.getuid() != 0, reason="needs to mount a file system")
def test_a_really_full_disk(tmp_path: Path) -> None:
    """A file system of 2 MB, filled up and emptied under a store that stays open."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        store = SqliteStore(f"sqlite:///{disk}/jobs.db")
        store.run(store.put(jobs(10)))
        kept = 10
        for _ in range(2):
            filler = disk / "filler"
            fill(filler)
            acknowledged, error = put_until_full(store, 100)
            kept += acknowledged
            assert isinstance(error, StoreFull) or "disk" in str(error)
            filler.unlink()
            store.run(store.put(jobs(10)))
            kept += 10
            assert count(store) == kept
        store.close()
        assert healthy(disk / "jobs.db")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# -- no access --


def test_a_locked_file(path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.1)
    blocker = apsw.Connection(str(path))
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy) as caught:
        store.run(store.put(jobs(1)))
    assert said(caught).startswith(f"{path} has been locked by another process for ")
    assert said(caught).endswith("Is a long transaction open in another program, or a backup running?")
    assert count(store) == 0, "readers are not kept waiting"
    blocker.execute("ROLLBACK")
    store.run(store.put(jobs(1)))
    blocker.close()


def test_a_writer_waits_for_its_turn(path: Path, store: SqliteStore) -> None:
    blocker = apsw.Connection(str(path))
    blocker.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: blocker.execute("COMMIT"))
    timer.start()
    store.run(store.put(jobs(1)))
    timer.join()
    assert count(store) == 1
    blocker.close()


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        SqliteStore(f"sqlite:///{tmp_path}/nowhere/jobs.db")
    folder = tmp_path / "nowhere"
    assert said(caught) == f"Cannot open {folder}/jobs.db: the folder {folder} does not exist. Create it first."


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"Cannot open .*: check that its folder exists"):
        SqliteStore(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize(
    ("kind", "options", "error", "words"),
    [
        (
            "nfs4",
            "rw,vers=4.2",
            StoreUnavailable,
            "is on a network file system (nfs4 at {}), where SQLite's write-ahead",
        ),
        ("cifs", "rw", StoreUnavailable, "is on a network file system (cifs at {})"),
        ("fuse.sshfs", "rw", StoreUnavailable, "is on a network file system (fuse.sshfs at {})"),
        ("ext4", "ro,relatime", StoreReadOnly, "is on a read-only file system (ext4 at {}). To look at it without"),
    ],
)
def test_file_systems_that_will_not_do(
    kind: str, options: str, error: type[StoreError], words: str, tmp_path: Path, path: Path, open_store: OpenStore
) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"/dev/root / ext4 rw 0 0\n//server {tmp_path} {kind} {options} 0 0\n", encoding="utf-8")
    with pytest.raises(error) as caught:
        open_store(mount_table=str(table))
    assert words.format(tmp_path) in said(caught)
    assert not path.exists()


def test_file_systems_that_will(tmp_path: Path, open_store: OpenStore) -> None:
    """The longest mount point that leads to the file counts; a table that can't be read is no reason to refuse."""
    table = tmp_path / "mounts"
    spaced = str(tmp_path).replace(" ", "\\040")
    table.write_text(f"server: / nfs rw 0 0\n/dev/sda {spaced} ext4 rw 0 0\nnonsense\n", encoding="utf-8")
    open_store(mount_table=str(table))
    open_store(mount_table=str(tmp_path / "no such table"))


def test_looking_without_writing(path: Path, store: SqliteStore, open_store: OpenStore) -> None:
    store.run(store.put(jobs(3)))
    store.close()
    before = sorted(os.listdir(path.parent))
    reader = open_store("?immutable=1")
    assert count(reader) == 3
    with pytest.raises(StoreReadOnly) as caught:
        reader.run(reader.put(jobs(1)))
    assert said(caught) == f"{path} cannot be written to. Check who owns it and its -wal and -shm files."
    assert sorted(os.listdir(path.parent)) == before


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become somebody else")
@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o555, 0o444), (0o555, 0o666), (0o777, 0o444)])
def test_somebody_elses_file(folder_mode: int, file_mode: int, path: Path, store: SqliteStore) -> None:
    store.run(store.put(jobs(1)))
    store.close()
    for folder in path.parents[:-2]:
        folder.chmod(0o755)
    path.chmod(file_mode)
    path.parent.chmod(folder_mode)

    def as_nobody() -> str:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        mine = SqliteStore(f"sqlite:///{path}")
        mine.run(mine.put(jobs(1)))
        return "written"

    message = forked(as_nobody)
    assert message.split()[0] in ("StoreReadOnly", "StoreUnavailable"), message
    assert str(path) in message
    path.parent.chmod(0o755)
    again = SqliteStore(f"sqlite:///{path}")
    assert count(again) == 1
    again.close()


# -- not a store --


def test_not_a_database(path: Path, open_store: OpenStore) -> None:
    path.write_text("To whom it may concern:\n" * 100, encoding="utf-8")
    with pytest.raises(StoreCorrupt) as caught:
        open_store()
    assert said(caught) == f"{path} is not a SQLite database."
    assert path.read_text(encoding="utf-8").startswith("To whom"), "left alone"


def test_an_empty_file_is_as_good_as_none(path: Path, open_store: OpenStore) -> None:
    path.touch()
    store = open_store()
    store.run(store.put(jobs(1)))


@pytest.mark.parametrize("version", [0, 1, 7])
def test_another_programs_database(version: int, path: Path, open_store: OpenStore) -> None:
    other = apsw.Connection(str(path))
    other.execute(f"CREATE TABLE job (id); PRAGMA user_version = {version}")
    other.close()
    with pytest.raises(StoreCorrupt) as caught:
        open_store()
    assert said(caught) == f"{path} is a SQLite database of another program: choose another file."
    assert look(path, "SELECT name FROM sqlite_schema") == [("job",)]


def test_a_newer_schema(path: Path, store: SqliteStore, open_store: OpenStore) -> None:
    store.close()
    look(path, f"PRAGMA user_version = {opening.SCHEMA_VERSION + 1}")
    with pytest.raises(SchemaTooNew) as caught:
        open_store()
    assert said(caught) == (
        f"{path} has schema version {opening.SCHEMA_VERSION + 1}; this headrace knows {opening.SCHEMA_VERSION}. "
        "Upgrade headrace on this machine."
    )


def test_an_older_schema_is_refused_and_left_as_it_is(path: Path, store: SqliteStore, open_store: OpenStore) -> None:
    store.run(store.put(jobs(1)))
    store.close()
    look(path, f"PRAGMA user_version = {opening.SCHEMA_VERSION - 1}")
    with pytest.raises(SchemaTooOld) as caught:
        open_store()
    assert said(caught) == (
        f"{path} has schema version {opening.SCHEMA_VERSION - 1}; this headrace works with {opening.SCHEMA_VERSION}. "
        "Use another file, schema or namespace, and let the version that wrote this one finish its jobs."
    )
    assert look(path, "SELECT count(*) FROM job") == [(1,)]


def test_a_damaged_file(path: Path, store: SqliteStore, open_store: OpenStore) -> None:
    store.run(store.put(jobs(2000)))
    store.close()
    damaged = bytearray(path.read_bytes())
    damaged[4096 : len(damaged) - 4096] = b"\xa5" * (len(damaged) - 8192)
    path.write_bytes(damaged)
    with pytest.raises(StoreCorrupt) as caught:
        open_store().run(store.counts())
    assert said(caught).startswith(f"{path} is damaged (")
    assert said(caught).endswith("Stop all workers and restore it from a backup.")


def test_a_creation_that_fails_leaves_an_empty_file(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(opening.SQL, "schema", "CREATE TABLE half (x); DELETE FROM half_way")
    with pytest.raises(StoreError, match="half_way"):
        open_store()
    assert look(path, "SELECT name FROM sqlite_schema") == []
    monkeypatch.undo()
    assert count(open_store()) == 0


# -- pulled away --


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_pulled_away_under_a_running_store(how: str, path: Path, tmp_path: Path, open_store: OpenStore) -> None:
    """It is noticed within a second, and said; nothing more is written to a file that nobody can find."""
    spare = open_store(file=tmp_path / "spare.db")
    spare.run(spare.put(jobs(2)))
    spare.close()
    store = open_store()
    store.run(store.put(jobs(5)))
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    if how == "replaced":
        shutil.move(tmp_path / "spare.db", path)
    store._db._look_at = 0.0  # a second later
    with pytest.raises(StoreReplaced) as caught:
        store.run(store.put(jobs(1)))
    assert said(caught).startswith(f"{path} was deleted or replaced while it was in use.")
    assert count(store) == (2 if how == "replaced" else 0)
    store.run(store.put(jobs(1)))
    assert count(open_store()) == (3 if how == "replaced" else 1)


def test_a_session_of_before_the_machine_was_restarted(path: Path, open_store: OpenStore) -> None:
    """The steady clock begins anew, and the guards are gone with the temporary files: its jobs come back."""
    clock = ManualClock()
    clock.advance(30 * 24 * 3_600_000)
    store = open_store(clock=clock)
    store.run(store.put(jobs(1)))
    Session(store).take()
    store.close()
    shutil.rmtree(f"{path}-run", ignore_errors=True)
    store = open_store(clock=ManualClock(clock.now() + 60_000))
    assert store.run(store.sweep()).jobs_returned == 1
    assert len(Session(store, "new").take()) == 1


# -- settings --


@pytest.mark.parametrize(("options", "level"), [("", 1), ("?durability=process", 1), ("?durability=host", 2)])
def test_durability_is_really_set(options: str, level: int, open_store: OpenStore) -> None:
    """NORMAL survives the death of any process, FULL power loss too; on every connection, not only the first."""
    store = open_store(options)
    assert store.durability == (Durability.HOST if level == 2 else Durability.PROCESS)
    found = []

    def ask() -> None:
        (value,) = store._db.read(lambda connection: connection.execute("PRAGMA synchronous").fetchall()[0])
        found.append(value)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [level] * 3
    assert store._db.read(lambda connection: connection.execute("PRAGMA journal_mode").fetchall()) == [("wal",)]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("sqlite:///jobs.db")
    monkeypatch.chdir("/")
    store._db.close()  # the next operation needs a new connection
    store.run(store.put([NewJob(id="1", task="t", body=b"{}")]))
    assert count(store) == 1
    store.close()
    assert (tmp_path / "jobs.db").exists()


def test_names_that_urls_must_quote(tmp_path: Path) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/my%20jobs%3F.db")
    store.run(store.put(jobs(1)))
    store.close()
    assert (tmp_path / "my jobs?.db").exists()
    reader = SqliteStore(f"sqlite:///{tmp_path}/my%20jobs%3F.db?immutable=1")
    assert count(reader) == 1
    reader.close()


def test_a_large_log_shrinks_again(path: Path, store: SqliteStore) -> None:
    """A reader that stays lets the write-ahead log grow; once it has gone the log shrinks."""
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM job")
    for _ in range(40):
        store.run(store.put([NewJob(id=f"{os.urandom(8).hex()}", task="t", body=os.urandom(1_000_000))]))
    wal = Path(f"{path}-wal")
    assert wal.stat().st_size > 32_000_000
    reader.execute("COMMIT")
    reader.close()
    for _ in range(3):
        store.run(store.put(jobs(10)))
    assert wal.stat().st_size <= 16_000_000
