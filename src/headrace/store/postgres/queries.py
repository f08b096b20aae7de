"""Any single statement that only reads, for people who want SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import psycopg

from headrace.errors import ConfigurationError
from headrace.store.facets import Rows
from headrace.store.postgres.database import PostgresTransaction
from headrace.store.postgres.wire import rows_of
from headrace.store.sql.transaction import Transaction


def run(tx: Transaction, query: str, values: Sequence[Any]) -> Rows:
    """What a query returns.

    A cursor takes a query and nothing else: not COPY, which runs programs, nor SET. What functions in it have set, or
    locked, is undone.
    """
    text = query.rstrip().rstrip(";")
    if values:
        first, *rest = text.split("?")
        text = first + "".join(f"${place}{part}" for place, part in enumerate(rest, 1))
    wire = cast("PostgresTransaction", tx).wire
    try:
        _, _, found, *_ = wire.run(
            [
                ("SAVEPOINT look", ()),
                (f"DECLARE look NO SCROLL CURSOR FOR {text}", tuple(values)),
                ("FETCH ALL FROM look", ()),
                ("ROLLBACK TO look", ()),
                ("SELECT pg_advisory_unlock_all()", ()),
            ],
            prepare=False,
        )
        if found.nfields:
            return Rows(tuple((found.fname(place) or b"").decode() for place in range(found.nfields)), rows_of(found))
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.errors.ObjectNotInPrerequisiteState) as error:
        said = error.diag.message_primary or str(error)
        raise ConfigurationError(f"This query can't be run: {said}. (The views are jobs and schedules.)") from error
    except (psycopg.errors.ReadOnlySqlTransaction, psycopg.NotSupportedError):
        pass
    raise ConfigurationError("This only reads: write a SELECT. Other commands change jobs.")
