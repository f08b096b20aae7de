"""Any single statement that only reads, for people who want SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from headrace.errors import ConfigurationError
from headrace.store.facets import Rows
from headrace.store.sqlite.database import SqliteTransaction

_READING = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE})
_HARMLESS_PRAGMAS = frozenset({"table_info", "table_list"})


def run(tx: SqliteTransaction, query: str, values: Sequence[Any]) -> Rows:
    """What a query answers."""
    columns: list[str] = []

    def begins(cursor: apsw.Cursor, _: str, __: object) -> bool:
        if columns:
            raise ConfigurationError("One statement at a time: there is more after the first semicolon.")
        columns.extend(column for column, *_ in cursor.get_description())
        return True

    cursor = tx.connection.cursor()
    cursor.exec_trace = begins
    tx.connection.authorizer = _only_reads
    try:
        rows = list(cursor.execute(query, tuple(values)))
    except apsw.AuthError as error:
        raise ConfigurationError("This only reads: write a SELECT. Other commands change jobs.") from error
    except (apsw.SQLError, apsw.BindingsError, TypeError) as error:
        raise ConfigurationError(f"This query can't be run: {error}. (The views are jobs and schedules.)") from error
    finally:
        tx.connection.authorizer = None
    return Rows(tuple(columns), rows)


def _only_reads(act: int, first: str | None, *_: str | None) -> int:
    """Asked for each thing that a statement would do, before it does any."""
    harmless = act in _READING or (act == apsw.SQLITE_PRAGMA and first in _HARMLESS_PRAGMAS)
    return apsw.SQLITE_OK if harmless else apsw.SQLITE_DENY
