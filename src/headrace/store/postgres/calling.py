"""How a function of the schema is called on connections of callers: one statement, under a savepoint.

Every operation in a caller's transaction is one call of a function that takes and returns a JSON document: all that a
library must do is to run a statement with one value. They differ in how they spell the value, and in how they know
whether a transaction is open. Without one there is nothing to go back to, and the call is a transaction by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from psycopg.rows import tuple_row

from headrace.errors import ConfigurationError
from headrace.store.callers import IS_ASYNC, OF_ITS_THREAD, kind_of, unknown

TAKES = (
    "a connection of psycopg, SQLAlchemy (Connection, Session, AsyncSession), Django or asyncpg to the store's database"
)


class Call(NamedTuple):
    """A function of the schema, with its name in quotes, and the document that it takes."""

    function: str
    document: str

    def text(self, value: str) -> str:
        """The statement, with this in the place of the value."""
        return f"SELECT CAST({self.function}(CAST({value} AS jsonb)) AS text)"


def run(connection: Any, call: Call) -> str:
    """Call it in this thread."""
    kind = check(connection)
    if kind in _ASYNC:
        raise ConfigurationError(IS_ASYNC)
    return _SYNC[kind](connection, call)


async def arun(connection: Any, call: Call) -> str:
    """Call it from async code. A sync connection is used in a thread, while its owner waits."""
    kind = check(connection)
    if kind == "django":
        raise ConfigurationError(OF_ITS_THREAD)
    if kind in _ASYNC:
        return await _ASYNC[kind](connection, call)
    return await asyncio.to_thread(_SYNC[kind], connection, call)


def check(connection: Any) -> str:
    """Which library a connection is of. Refuse what is not a connection to a PostgreSQL server."""
    kind = kind_of(connection)
    if kind not in _SYNC and kind not in _ASYNC:
        raise unknown(connection, TAKES)
    vendor = "postgresql"
    if kind == "django":
        vendor = connection.vendor
    elif kind.startswith("sqlalchemy"):
        vendor = (connection.get_bind() if kind.endswith("session") else connection).dialect.name
    if vendor != "postgresql":
        raise ConfigurationError(f"connection= takes {TAKES}; this one is to {vendor}.")
    return kind


# -- psycopg -------------------------------------------------------------------------------------------


def _psycopg(connection: Any, call: Call) -> str:
    cursor, inside = connection.cursor(row_factory=tuple_row), connection.info.transaction_status
    try:
        with connection.transaction() if inside else nullcontext():  # a savepoint
            return str(cursor.execute(*_spelled(connection, call)).fetchone()[0])
    except BaseException:
        if not inside and not connection.broken:
            connection.rollback()  # there was nothing in this transaction before
        raise


async def _psycopg_async(connection: Any, call: Call) -> str:
    cursor, inside = connection.cursor(row_factory=tuple_row), connection.info.transaction_status
    try:
        async with connection.transaction() if inside else nullcontext():
            await cursor.execute(*_spelled(connection, call))
            return str((await cursor.fetchone())[0])
    except BaseException:
        if not inside and not connection.broken:
            await connection.rollback()
        raise


def _spelled(connection: Any, call: Call) -> tuple[str, tuple[str]]:
    """Raw cursors send statements as they are written."""
    return call.text("$1" if "Raw" in connection.cursor_factory.__name__ else "%s"), (call.document,)


# -- SQLAlchemy ----------------------------------------------------------------------------------------


def _sqlalchemy(connection: Any, call: Call) -> str:
    import sqlalchemy  # noqa: PLC0415  (it is loaded, as there is a connection of it)

    if hasattr(connection, "get_bind"):  # a session
        connection = connection.connection()
    statement = sqlalchemy.text(call.text(":document"))
    alone = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    with nullcontext() if alone else connection.begin_nested():
        return str(connection.execute(statement, {"document": call.document}).scalar_one())


async def _sqlalchemy_async(connection: Any, call: Call) -> str:
    return str(await connection.run_sync(_sqlalchemy, call))


# -- Django, asyncpg -----------------------------------------------------------------------------------


def _django(connection: Any, call: Call) -> str:
    savepoint = connection.savepoint()  # in autocommit mode there is none, and none to go back to
    try:
        with connection.cursor() as cursor:
            cursor.execute(call.text("%s"), (call.document,))
            answer = str(cursor.fetchone()[0])
    except BaseException:
        connection.savepoint_rollback(savepoint)
        raise
    connection.savepoint_commit(savepoint)
    return answer


async def _asyncpg(connection: Any, call: Call) -> str:
    async with connection.transaction():  # within another it is a savepoint
        return str(await connection.fetchval(call.text("$1"), call.document))


_SYNC: dict[str, Callable[[Any, Call], str]] = {
    "psycopg": _psycopg,
    "sqlalchemy": _sqlalchemy,
    "sqlalchemy session": _sqlalchemy,
    "django": _django,
}
_ASYNC: dict[str, Callable[[Any, Call], Awaitable[str]]] = {
    "psycopg async": _psycopg_async,
    "sqlalchemy async": _sqlalchemy_async,
    "sqlalchemy async session": _sqlalchemy_async,
    "asyncpg": _asyncpg,
}
