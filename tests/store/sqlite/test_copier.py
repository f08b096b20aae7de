"""A thread copies the log into the file: writers do not wait for the disk, and nothing is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.store.sqlite import copier, database
from headrace.store.sqlite.copier import ROUNDS, Copier
from headrace.store.sqlite.opening import LOG_PAGES_OF_BATCHES
from headrace.store.sqlite.store import SqliteStore
from processes import environment
from volume import volume

from .conftest import OpenStore
from .helpers import forked, healthy, jobs, look

PATIENCE = 20.0


def as_worker(store: SqliteStore) -> Copier:
    """A store that a worker has, in a process without another copy of SQLite (these tests' has one)."""
    store._db.copy_log_aside()
    found = store._db._copier
    assert found is not None
    assert found.connection.hold is not None
    found.connection.hold._said = True
    return found


def fill(store: SqliteStore, pages: int) -> None:
    """Put jobs until the log has so many pages."""
    found = store._db._copier
    assert found is not None
    before = 0
    while before <= found.pages < pages:
        before = found.pages
        store.run(store.put(jobs(200)))


def test_a_thread_copies_the_log_which_begins_anew(path: Path, store: SqliteStore) -> None:
    found, size = as_worker(store), path.stat().st_size
    fill(store, LOG_PAGES_OF_BATCHES)
    found._wait()
    assert path.stat().st_size > size
    assert found.pages >= LOG_PAGES_OF_BATCHES
    store.run(store.put(jobs(2)))
    assert found.pages < 100
    assert healthy(path)


def test_a_log_that_writers_do_not_let_alone_begins_anew(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever moment of theirs a copy ends in: it is copied once for as many pages, not once for each commit."""
    monkeypatch.setattr(copier, "MOMENT", PATIENCE)  # however slow this disk is
    found = as_worker(store)
    copies = 0
    copy = found._copy

    def counted() -> int:
        nonlocal copies
        copies += 1
        return copy()

    found._copy = counted  # type: ignore[method-assign]
    written = before = 0
    while written < 3 * LOG_PAGES_OF_BATCHES:
        store.run(store.put(jobs(30)))
        written += found.pages - before if found.pages > before else found.pages
        before = found.pages
    found._wait()
    assert 2 <= copies <= 4 * 2 * ROUNDS
    assert healthy(path)


def test_a_waiter_is_what_makes_it_copy(path: Path, store: SqliteStore) -> None:
    assert store._db._copier is None
    store.waiter("s", ["default"]).close()
    assert store._db._copier is not None
    store.close()
    assert store._db._copier is None
    assert not Path(f"{path}-wal").exists(), "its connection was closed, too"


class SlowDisk:
    """What a copier waits for until it is told to go on."""

    def __init__(self, found: Copier, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        copy = found._copy

        def slowly() -> int:
            self.begun.set()
            assert self.go.wait(PATIENCE)
            return copy()

        monkeypatch.setattr(found, "_copy", slowly)


def test_writers_go_on_while_the_thread_waits_for_the_disk(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = as_worker(store)
    disk = SlowDisk(found, monkeypatch)
    fill(store, LOG_PAGES_OF_BATCHES)
    assert disk.begun.wait(PATIENCE)
    before = found.pages
    store.run(store.put(jobs(500)))
    assert found.pages > before
    thread = found._thread
    assert thread is not None
    disk.go.set()
    thread.join(PATIENCE)
    assert found._copy() == found.pages, "what was added meanwhile was copied, too"
    assert healthy(path)


def test_writers_are_kept_out_for_a_moment_only(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While little is left to copy, so that the log can begin anew. But the disk may be slow."""
    found = as_worker(store)
    disk = SlowDisk(found, monkeypatch)
    store.run(store.put(jobs(100)))
    alone: list[bool] = []
    copying = threading.Thread(target=lambda: alone.append(found._copy_alone()))
    copying.start()
    assert disk.begun.wait(PATIENCE)
    store.run(store.put(jobs(100)))  # the moment is over some time
    assert copying.is_alive(), "the disk is still slow"
    disk.go.set()
    copying.join(PATIENCE)
    assert alone == [False]
    assert not found._gate.in_transaction
    assert healthy(path)


def test_no_writer_comes_in_between(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copier, "MOMENT", PATIENCE)
    found = as_worker(store)
    disk = SlowDisk(found, monkeypatch)
    copying = threading.Thread(target=found._copy_alone)
    copying.start()
    assert disk.begun.wait(PATIENCE)
    writer = threading.Thread(target=lambda: store.run(store.put(jobs(2))))
    writer.start()
    writer.join(0.05)
    assert writer.is_alive()
    disk.go.set()
    writer.join(PATIENCE)
    assert not writer.is_alive()
    copying.join(PATIENCE)


def test_a_log_that_is_much_too_long_is_copied_by_a_commit(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which waits for the thread first: there is an end to what the log may grow to while the disk is slow."""
    monkeypatch.setattr(database, "LOG_PAGES_AT_MOST", LOG_PAGES_OF_BATCHES + 500)
    found = as_worker(store)
    disk = SlowDisk(found, monkeypatch)
    fill(store, LOG_PAGES_OF_BATCHES + 500)
    writer = threading.Thread(target=lambda: store.run(store.put(jobs(2))))
    writer.start()
    writer.join(0.05)
    assert writer.is_alive(), "it waits for the disk"
    disk.go.set()
    writer.join(PATIENCE)
    assert not writer.is_alive()
    store.run(store.put(jobs(2)))
    assert found.pages < 100, "the log begins anew"
    assert healthy(path)


def test_another_copy_of_sqlite_keeps_the_thread_from_it(path: Path, store: SqliteStore) -> None:
    """The locks that it relies on may be lost: the commit copies the log, while it keeps all others out."""
    store._db.copy_log_aside()
    size = path.stat().st_size
    hold = store._db._idle[0].hold
    assert hold is not None
    hold._said, hold._shared = True, bytearray(b"\1")
    store.run(store.put(jobs(9_000, body=b"x" * 100)))
    assert path.stat().st_size > size
    assert store._db._copier is not None
    assert store._db._copier.pages == 0, "it heard of none of these commits"


def test_a_log_that_was_deleted_is_not_copied(path: Path, store: SqliteStore) -> None:
    found, size = as_worker(store), path.stat().st_size
    store.run(store.put(jobs(500)))
    Path(f"{path}-wal").unlink()
    assert found._copy() == found.pages
    assert path.stat().st_size == size


def test_trouble_with_a_copy_is_not_that_of_a_writer(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    found = as_worker(store)
    found.connection.close()
    found.connection.hold = store._db._idle[0].hold  # a connection that can do nothing
    caplog.set_level("DEBUG", "headrace.store")
    fill(store, LOG_PAGES_OF_BATCHES)
    found._wait()
    assert "the log could not be copied" in caplog.text
    found.connection.hold = None


def test_without_threads_nothing_fails_and_nobody_is_kept_out(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may have as many as it can have, or be about to end."""

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    found = as_worker(store)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    fill(store, LOG_PAGES_OF_BATCHES)
    assert found._thread is None
    found._work()  # the one that keeps writers out for a moment only is not to be had, either
    assert not found._gate.in_transaction
    store.run(store.put(jobs(2)))
    assert healthy(path)


def test_a_child_has_no_thread_to_wait_for(path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    found = as_worker(store)
    disk = SlowDisk(found, monkeypatch)
    fill(store, LOG_PAGES_OF_BATCHES)
    assert disk.begun.wait(PATIENCE)

    def child() -> str:
        assert store._db._copier is None
        store.run(store.put(jobs(3)))
        store.close()
        return "written"

    try:
        assert forked(child) == "written"
    finally:
        disk.go.set()
    found._wait()
    assert healthy(path)


WRITER = """
import itertools, sys
from headrace.records import NewJob
from headrace.store.sqlite import store as module
module.LOG_PAGES_OF_BATCHES = 40
store = module.SqliteStore("sqlite:///" + sys.argv[1])
assert "_sqlite3" not in sys.modules
store._db.copy_log_aside()
for number in itertools.count():
    ids = [f"{sys.argv[2]}-{number}-{each}" for each in range(20)]
    store.run(store.put([NewJob(id=each, task="t", body=b"{}") for each in ids]))
    print(*ids, flush=True)
"""


def test_writers_that_are_killed_while_a_thread_copies_lose_nothing(path: Path, open_store: OpenStore) -> None:
    """Two at a time: the log begins anew under the copies of the other."""
    moments = random.Random("copiers")
    acknowledged: set[str] = set()
    for round_ in range(volume(4)):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path), f"{round_}-{place}"],
                env=environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for place in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            acknowledged |= set(writer.stdout.readline().split())  # it writes
        time.sleep(moments.uniform(0.05, 0.3))  # the moment of death, not a wait for something
        for writer in writers:
            writer.kill()
            said, _ = writer.communicate()
            acknowledged |= {
                each for line in said.splitlines(keepends=True) if line.endswith("\n") for each in line.split()
            }
    pages = Path(f"{path}-wal").stat().st_size // 2_072
    assert pages < copier.LOG_PAGES_AT_MOST + 1_000, "it was copied, and began anew"
    assert len(acknowledged) > 20 * 2 * volume(4)
    assert healthy(path)
    open_store().close()
    assert acknowledged <= {row[0] for row in look(path, "SELECT id FROM job")}
