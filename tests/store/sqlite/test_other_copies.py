"""What is part of a database file must stay: its log, under another copy of SQLite in the same process, or deleted."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.errors import StoreBusy, StoreReplaced
from headrace.store.sqlite import guard
from processes import environment

from .conftest import OpenStore
from .helpers import count, forked, healthy, jobs, look

HERE = Path(__file__).parent
PATIENCE = 120.0
"""Seconds after which a program hangs."""
REBUILD, HEAD = 122, 48
"""In the index of a log: the byte that is locked to rebuild it, and the length of its head."""


def peek(path: Path) -> None:
    """What the documentation warns of: Python's own sqlite3 in this process."""
    connection = sqlite3.connect(path)
    connection.execute("SELECT id FROM jobs").fetchall()
    connection.close()


@pytest.mark.parametrize("how", ["look", "open"])
def test_nothing_is_lost_beside_another_copy(how: str, path: Path) -> None:
    """Two processes enqueue, and both keep opening and closing the file with Python's sqlite3."""
    command = [sys.executable, str(HERE / "two_copies.py"), str(path), how]
    programs = [subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    enqueued: list[str] = []
    for program in programs:
        told, _ = program.communicate(timeout=PATIENCE)
        assert program.returncode == 0
        *ids, looked = told.splitlines()
        assert looked.startswith("looked ")
        enqueued += ids
    assert len(enqueued) == len(set(enqueued)) == 12_000
    assert healthy(path)
    assert {row[0] for row in look(path, "SELECT id FROM jobs")} == set(enqueued)


def test_the_log_stays_when_another_copy_closes(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    store.run(store.put(jobs(5)))
    log = os.stat(f"{path}-wal").st_ino
    peek(path)
    assert os.stat(f"{path}-wal").st_ino == log
    store.run(store.put(jobs(1)))
    assert count(store) == 6


def test_the_last_one_to_close_tidies_up(path: Path, open_store: OpenStore) -> None:
    """And two stores of one process share what they hold: the first to close takes nothing from the other."""
    first, second = open_store(), open_store()
    first.run(first.put(jobs(1)))
    first.close()
    peek(path)
    second.run(second.put(jobs(1)))
    assert count(second) == 2
    assert Path(f"{path}-wal").exists()
    second.close()
    assert not Path(f"{path}-wal").exists()
    assert guard.held(str(path)) is None
    assert len(look(path, "SELECT id FROM jobs")) == 2


def test_a_deletion_that_could_not_be_prevented_is_noticed(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a system has no such locks: nothing that went into a deleted log is acknowledged."""
    monkeypatch.setattr(guard, "_SET", None)
    store = open_store()
    store.run(store.put(jobs(5)))
    peek(path)
    assert not Path(f"{path}-wal").exists()
    with pytest.raises(StoreReplaced):
        store.run(store.put(jobs(1)))
    store.run(store.put(jobs(2)))
    assert count(store) == count(open_store()) == 7
    assert healthy(path)


@pytest.mark.parametrize("ends", [("-wal",), ("-wal", "-shm")], ids=" ".join)
@pytest.mark.parametrize("size", [1, 3])
def test_a_log_that_is_deleted_is_noticed_before_the_next_answer(
    ends: tuple[str, ...], size: int, path: Path, open_store: OpenStore
) -> None:
    """Not a second later; and what the deleted log has is not written to the file any more."""
    store, other = open_store(), open_store()
    store.run(store.put(jobs(5)))
    other.run(other.put(jobs(5)))
    for end in ends:
        Path(f"{path}{end}").unlink()
    with pytest.raises(StoreReplaced) as caught:
        store.run(store.put(jobs(size)))
    assert str(caught.value).startswith(f"{path} was deleted or replaced while it was in use. (Its -wal and -shm files")
    before = count(store)
    store.run(store.put(jobs(size)))
    other.run(other.put(jobs(size)))
    assert count(store) == count(other) == count(open_store()) == before + 2 * size
    assert healthy(path)


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_part_that_is_moved_away_is_noticed_within_a_second(end: str, path: Path, open_store: OpenStore) -> None:
    store = open_store()
    store.run(store.put(jobs(5)))
    Path(f"{path}{end}").rename(f"{path}-gone")
    store._db._look_at = 0.0  # a second later
    with pytest.raises(StoreReplaced):
        store.run(store.put(jobs(1)))
    store.run(store.put(jobs(1)))
    assert healthy(path)


def test_an_operation_under_way_lets_go_of_a_deleted_log(path: Path, open_store: OpenStore) -> None:
    """Until it does, SQLite would share its index with new connections: they are refused, and then work."""
    store = open_store()
    store.run(store.put(jobs(5)))
    reading, deleted = threading.Event(), threading.Event()

    def read_slowly() -> None:
        def work(connection: object) -> None:
            reading.set()
            assert deleted.wait(PATIENCE)

        store._db.read(work)

    reader = threading.Thread(target=read_slowly)
    reader.start()
    assert reading.wait(PATIENCE)
    Path(f"{path}-wal").unlink()
    for _ in range(3):
        with pytest.raises(StoreReplaced):
            store.run(store.put(jobs(1)))
    deleted.set()
    reader.join()
    store.run(store.put(jobs(1)))
    assert healthy(path)


def test_a_child_holds_the_file_by_itself(path: Path, open_store: OpenStore) -> None:
    """And closing what it has leaves the parent's locks alone."""
    store = open_store()
    store.run(store.put(jobs(1)))

    theirs, more = jobs(1), jobs(1)

    def child() -> str:
        assert not guard._holds
        store.run(store.put(theirs))
        peek(path)
        store.run(store.put(more))
        store.close()
        return str(len(guard._holds))

    assert forked(child) == "0"
    peek(path)
    store.run(store.put(jobs(1)))
    assert count(store) == 4
    assert healthy(path)


def test_a_fork_while_other_threads_are_inside(path: Path) -> None:
    """A child would inherit SQLite's mutexes as they are, some of them locked for ever."""
    command = [sys.executable, str(HERE / "forking.py"), str(path), "20"]
    done = subprocess.run(
        command, env=environment(), stdout=subprocess.PIPE, text=True, timeout=2 * PATIENCE, check=True
    )
    told = json.loads(done.stdout)
    assert told["hung"] == 0
    assert told["missing"] == 0
    assert told["enqueued"] > 20
    assert healthy(path)


def test_the_index_of_the_log_is_not_rebuilt_while_it_is_written(path: Path, open_store: OpenStore) -> None:
    """A reader whose copy of SQLite sees a half written head would do that, and jobs that were put would be gone."""
    store = open_store()

    def can_be_rebuilt() -> bool:
        with open(f"{path}-shm", "r+b") as index:
            try:
                fcntl.lockf(index, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, REBUILD)
            except BlockingIOError:
                return False
            return True

    assert can_be_rebuilt()
    assert not store._db.write(lambda _: can_be_rebuilt())
    assert can_be_rebuilt()


def test_an_index_that_a_killed_writer_left_half_written_is_rebuilt(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    store.run(store.put(jobs(3)))
    with open(f"{path}-shm", "r+b") as index:
        head = index.read(HEAD)
        index.seek(0)
        index.write(bytes(byte ^ 0xFF for byte in head))
    store.run(store.put(jobs(2)))
    assert count(store) == 5
    assert healthy(path)


def test_writers_keep_each_other_out_once_a_second_copy_has_come(
    path: Path, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before, as that costs a tenth of a put."""
    monkeypatch.setattr(guard, "PATIENCE", 0.05)
    copies = Path(f"{path}-run/copies")
    store = open_store()
    with open(path, "rb") as other_process:
        fcntl.flock(other_process, fcntl.LOCK_EX)
        with monkeypatch.context() as alone:
            alone.delitem(sys.modules, "_sqlite3")
            store.run(store.put(jobs(1)))
            assert copies.read_bytes() == b"\0"
        with pytest.raises(StoreBusy):
            store.run(store.put(jobs(1)))
        assert copies.read_bytes() == b"\1"
        fcntl.flock(other_process, fcntl.LOCK_UN)
    store.run(store.put(jobs(1)))
    assert count(store) == 2
