"""The stores under test. A new one is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.store.contract import Store
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import Clock
from store.redis import servers

from .model import Model


@dataclass(frozen=True)
class Entry:
    """How to make a store for one test. `options` are `keep_done` and `keep_failed`, milliseconds."""

    name: str
    make: Callable[..., Store]
    rows: Callable[[Any], dict[str, int]]
    """What there is in the store's own terms, sessions left out: to see that nothing remains."""
    shared: bool = False
    """Whether another store with the same URL, in any process, has the same jobs."""
    histories: int = 20
    """How many random histories to play, times `HEADRACE_VOLUME`."""
    depth: int = 2
    """How many acts deep to look into the small world; each one more takes four to five times as long."""

    def __call__(self, directory: Path, clock: Clock, **options: Any) -> Store:
        return self.make(directory, clock, **options)


def model(_: Path, clock: Clock, **options: Any) -> Store:
    return Model(clock=clock, **options)


def sqlite_memory(_: Path, clock: Clock, **options: Any) -> Store:
    return SqliteStore("sqlite:///:memory:", clock=clock, **options)


def sqlite_file(directory: Path, clock: Clock, **options: Any) -> Store:
    return SqliteStore(f"sqlite:///{directory}/jobs.db", clock=clock, **options)


def redis(_: Path, clock: Clock, **options: Any) -> Store:
    return RedisStore(servers.fresh_url(), clock=clock, **options)


def model_rows(store: Model) -> dict[str, int]:
    parts = {"jobs": store.jobs, "edges": store.edges, "ended": store.ended, "lanes": store.lanes}
    return {name: len(part) for name, part in parts.items()}


def sqlite_rows(store: SqliteStore) -> dict[str, int]:
    def count(connection: Any) -> dict[str, int]:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        own = {"session", "sqlite_sequence", "seq_floor", "setting", "progress", "stat"}
        names = sorted({name for (name,) in tables} - own)
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in names}

    return store._db.read(count)


STORES = [
    Entry("model", model, model_rows),
    Entry("sqlite-memory", sqlite_memory, sqlite_rows, histories=200, depth=4),
    Entry("sqlite-file", sqlite_file, sqlite_rows, shared=True),
    Entry("redis", redis, servers.rows, shared=True),
]
