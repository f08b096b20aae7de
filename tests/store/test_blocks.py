"""The block list of a store is bounded, and what other programs leave in it keeps no sweep going."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from conformance.helpers import Worker, put, state
from headrace.errors import ConfigurationError, StoreCorrupt
from headrace.records import State
from headrace.store import limits
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import ManualClock
from store.redis import servers

TOO_MANY = r"^1,000 tasks are blocked, which is the most. .* Nothing was written.$"


def barred(store: Any, clock: ManualClock) -> None:
    """A job that waits because its task is blocked."""
    put(store, "a", task="bad")
    store.run(store.block("bad"))
    assert Worker(store, clock).take(1) == []
    assert state(store, "a") is State.BLOCKED


def sweeps(store: Any) -> int:
    """How many sweeps there are until nothing is left to do."""
    number = 1
    while store.run(store.sweep()).more:
        number += 1
    return number


def test_sqlite_refuses_one_task_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BLOCKS", 1)
    store = SqliteStore("sqlite:///:memory:")
    store.run(store.block("first"))
    assert not store.run(store.block("first", "It may be blocked again."))
    with pytest.raises(ConfigurationError, match=TOO_MANY):
        store.run(store.block("second"))
    store.close()


def test_redis_refuses_one_task_too_many() -> None:
    store = RedisStore(servers.fresh_url())
    store.run(store.block("first"))
    others = [word for number in range(limits.MOST_BLOCKS - 1) for word in (f"task {number}", "x")]
    store.driver.command("HSET", f"{store.keys.prefix}blocked", *others)
    assert not store.run(store.block("first", "It may be blocked again."))
    with pytest.raises(ConfigurationError, match=TOO_MANY):
        store.run(store.block("second"))
    with pytest.raises(StoreCorrupt, match="says nothing in field task"):
        store.run(store.blocks())
    store.close()


def test_sqlite_forgets_a_job_that_is_not_there(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "jobs.db"
    store = SqliteStore(f"sqlite:///{path}", clock=clock)
    barred(store, clock)
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO barred (job, task) VALUES (4711, 'another')")
    connection.close()
    assert sweeps(store) == 2
    assert state(store, "a") is State.BLOCKED
    store.run(store.unblock("bad"))
    assert state(store, "a") is State.READY
    store.close()


def test_redis_forgets_a_job_that_is_not_there() -> None:
    clock = ManualClock()
    store = RedisStore(servers.fresh_url(), clock=clock)
    barred(store, clock)
    barred_there, lifting = f"{store.keys.prefix}barred:another", f"{store.keys.prefix}lifting"
    store.driver.command("ZADD", barred_there, "1", "nobody")
    store.driver.command("SADD", lifting, "another")
    assert sweeps(store) == 2
    assert state(store, "a") is State.BLOCKED
    assert store.driver.command("EXISTS", barred_there, lifting) == 0
    store.close()
