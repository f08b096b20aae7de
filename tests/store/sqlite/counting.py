"""Counts what a store asks its database: statements, and transactions that write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from headrace.store.sqlite.database import SqliteTransaction
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.store import SqliteStore

_NAMES = {text: name for name, text in SQL.items()}


@dataclass
class Counted:
    statements: list[str] = field(default_factory=list)
    """Their names, or the text of those that have none. One that is run for many rows counts once."""
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

    def once(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted_once(tx: SqliteTransaction, name: str, rows: Sequence[tuple[Any, ...]], *more: str) -> Any:
            before = len(seen.statements)
            answer = method(tx, name, rows, *more)
            seen.statements[before:] = [name]
            return answer

        return counted_once

    trace(note)
    many = {name: once(getattr(SqliteTransaction, name)) for name in ("change_many", "insert")}
    with patch.multiple(SqliteTransaction, **many):
        yield seen
    trace(None)
