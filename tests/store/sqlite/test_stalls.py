"""A process that stops inside a write transaction keeps the file's one lock: what others see, and when they go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.errors import StoreBusy
from headrace.store.sqlite import guard, writer
from headrace.store.sqlite.store import SqliteStore
from processes import environment, eventually

from .conftest import OpenStore
from .helpers import jobs

pytestmark = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the kernel does not list locks")

STOPS_WHILE_IT_WRITES = """
import os, signal, sys
from headrace.records import NewJob
from headrace.store.sql import put
from headrace.store.sql.transaction import Step
from headrace.store.sqlite.store import SqliteStore

def work(tx):
    answer = put.put(tx, [NewJob(id="its job", task="task", body=b"{}")])
    os.kill(os.getpid(), signal.SIGSTOP)
    return answer

SqliteStore(sys.argv[1]).run(Step(work))
"""


@contextmanager
def stopped(store: SqliteStore) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands still inside a write transaction."""
    process = subprocess.Popen([sys.executable, "-c", STOPS_WHILE_IT_WRITES, store.url], env=environment())
    try:
        eventually(lambda: process.poll() is not None or _state(process.pid) == "T", "it to stop")
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


@pytest.mark.parametrize("end", [signal.SIGCONT, signal.SIGKILL], ids=["continues", "dies"])
def test_others_are_told_which_process_stands_still_and_go_on_when_it_does_or_dies(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.5)
    with stopped(store) as process:
        begun = time.monotonic()
        with pytest.raises(StoreBusy) as caught:
            store.run(store.put(jobs(1)))
        assert time.monotonic() - begun < 10, "(a busy machine)"
        name = Path(f"/proc/{process.pid}/comm").read_text(encoding="ascii").strip()
        which = (
            f"It is process {process.pid} ({name}), which holds it and is stopped: kill -CONT {process.pid}, or end it."
        )
        assert str(caught.value).endswith(f"has been locked by another process for 0 seconds. {which}")
        assert store.run(store.get(["its job"])) == [None], "readers go on, and see what was committed"
        monkeypatch.setattr(guard, "PATIENCE", 60.0)
        os.kill(process.pid, end)
        store.run(store.put(jobs(1)))
        process.wait(60)
        (its,) = store.run(store.get(["its job"]))
        assert (its is not None) == (end is signal.SIGCONT), "all of a transaction, or nothing"


def _put(store: SqliteStore, errors: list[Exception]) -> None:
    try:
        store.run(store.put(jobs(1)))
    except Exception as error:
        errors.append(error)


def test_of_many_threads_that_wait_the_last_is_told_as_soon_as_the_first(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    monkeypatch.setattr(guard, "PATIENCE", 2.0)
    with stopped(store):
        begun = time.monotonic()
        errors: list[Exception] = []
        threads = [threading.Thread(target=_put, args=(store, errors)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [type(error) for error in errors] == [StoreBusy] * 12
        assert time.monotonic() - begun < 20, "not one after the other"


def test_a_writer_of_which_nothing_is_known_is_not_named(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    assert writer.in_words(str(path), str(tmp_path / "no list of locks")) == ""
    assert writer.in_words(str(path)) == "", "there is none"
    strange = tmp_path / "locks"
    strange.write_text("1: POSIX\n", encoding="ascii")
    assert writer.in_words(str(path), str(strange)) == ""
