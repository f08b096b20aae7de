"""Events on SQLite: what they cost when nobody listens, and how they do without bells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.helpers import put
from conformance.test_events import Listener
from headrace.store.sqlite import wakeup
from headrace.store.sqlite.store import SqliteStore
from headrace.store.sqlite.waiters import PollingWaiter
from headrace.values.clock import ManualClock
from processes import environment

from .helpers import Session, jobs, look


def statements(store: SqliteStore, act: Callable[[], Any]) -> list[str]:
    """What a store asks of its database meanwhile."""
    told: list[str] = []
    store._db.read(lambda connection: connection.set_profile(lambda sql, _: told.append(sql.splitlines()[-1])))
    told.clear()
    act()
    store._db.read(lambda connection: connection.set_profile(None))
    return [sql for sql in told if sql not in ("BEGIN", "COMMIT")]


def test_nobody_listens_costs_no_statement(store: SqliteStore) -> None:
    session = Session(store)
    store.run(store.put(jobs(1)))
    assert len(statements(store, lambda: store.run(store.put(jobs(1))))) == 1
    many = statements(store, lambda: store.run(store.put(jobs(100))))
    assert not [sql for sql in many if "event" in sql or "audience" in sql]
    leases = session.take(50)
    settled = statements(store, lambda: session.settle(*leases))
    assert not [sql for sql in settled if "event" in sql or "audience" in sql]


@pytest.fixture
def mapless(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SqliteStore]]:
    """Stores on one file, where no sockets can be made."""

    def refuse(*_: Any) -> None:
        raise OSError("no sockets here")

    monkeypatch.setattr(wakeup, "WaiterMap", refuse)
    made: list[SqliteStore] = []

    def make(**options: Any) -> SqliteStore:
        made.append(SqliteStore(f"sqlite:///{path}", **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


def test_without_a_map_a_row_says_that_there_is_a_subscriber(mapless: Callable[..., SqliteStore], path: Path) -> None:
    clock = ManualClock()
    reader, writer = mapless(clock=clock), mapless(clock=clock)
    put(writer, "before")
    listener = Listener(reader)
    put(writer, "a")
    put(writer, "b", "c")
    assert listener.whats() == [("created", "a"), ("created", "b"), ("created", "c")]
    for _ in range(5):
        clock.advance(30_000)
        put(writer, f"at {clock.now()}")
        assert not listener.read().missed, "reading keeps it up"
    clock.advance(60_000)
    put(writer, "for nobody")
    assert listener.read().missed
    put(writer, "z")
    assert listener.whats() == [("created", "z")]
    assert look(path, "SELECT count(*) FROM audience") == [(1,)]


def test_without_a_map_a_reader_that_reads_does_not_wake_itself(mapless: Callable[..., SqliteStore]) -> None:
    reader, writer = mapless(), mapless()
    listener = Listener(reader)
    waiter = reader.event_waiter()
    assert isinstance(waiter, PollingWaiter)
    waiter.arm()
    assert listener.heard() == []
    assert not waiter.wait(0.05)
    put(writer, "a")
    assert waiter.wait(5)


READER = """
import os, sys
from headrace.store import open_store
store = open_store(sys.argv[1])
store.run(store.listen())
waiter = store.event_waiter()
waiter.arm()
print("listening", flush=True)
waiter.wait(60)
"""


def test_a_reader_that_was_killed_is_taken_down_by_the_next_event(path: Path, store: SqliteStore) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", READER, store.url], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "listening\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    put(store, "a")
    waiters = store._wakeups.map()
    assert waiters is not None
    assert waiters._free_slot() == 0
    assert [row[0] for row in look(path, "SELECT what FROM event")] == ["created"]
