"""The stores under test. A new one is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.clock import Clock
from headrace.store.contract import Store
from headrace.store.sqlite import SqliteStore

from .model import Model


@dataclass(frozen=True)
class Entry:
    """How to make a store for one test. `options` are `keep_done` and `keep_failed`, milliseconds."""

    name: str
    make: Callable[..., Store]
    shared: bool = False
    """Whether another store with the same URL, in any process, has the same jobs."""

    def __call__(self, directory: Path, clock: Clock, **options: Any) -> Store:
        return self.make(directory, clock, **options)


def model(_: Path, clock: Clock, **options: Any) -> Store:
    return Model(clock=clock, **options)


def sqlite_memory(_: Path, clock: Clock, **options: Any) -> Store:
    return SqliteStore("sqlite:///:memory:", clock=clock, **options)


def sqlite_file(directory: Path, clock: Clock, **options: Any) -> Store:
    return SqliteStore(f"sqlite:///{directory}/jobs.db", clock=clock, **options)


STORES = [
    Entry("model", model),
    Entry("sqlite-memory", sqlite_memory),
    Entry("sqlite-file", sqlite_file, shared=True),
]
