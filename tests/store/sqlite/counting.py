"""Counts what a store asks its database: statements, and transactions that write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.store import SqliteStore

_NAMES = {text: name for name, text in SQL.items()}


@dataclass
class Counted:
    statements: list[str] = field(default_factory=list)
    """Their names, or the text of those that have none."""
    writes: int = 0


@contextmanager
def counted(store: SqliteStore) -> Iterator[Counted]:
    """While this lasts, all that the store does in this thread."""
    seen = Counted()

    def note(_: Any, statement: str, __: Any) -> bool:
        seen.writes += statement == "BEGIN IMMEDIATE"
        if statement not in ("BEGIN", "BEGIN IMMEDIATE", "COMMIT"):
            seen.statements.append(_NAMES.get(statement, statement))
        return True

    def trace(tracer: Callable[..., bool] | None) -> None:
        def set_(connection: Any) -> None:
            connection.exec_trace = tracer

        store._db.read(set_)

    trace(note)
    yield seen
    trace(None)
