"""Pools that callers bring along: how each library lends a connection, without importing any.

A sync pool lends to every thread. An async one lends to operations that its event loop awaits: while a loop waits for a
sync call, it can lend nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from headrace.errors import ConfigurationError, StoreUnavailable
from headrace.store.callers import described, kind_of, on_one_line

TAKES = (
    "a pool of psycopg_pool (ConnectionPool, AsyncConnectionPool), or an engine of SQLAlchemy (Engine, AsyncEngine) "
    "with the driver psycopg 3 (postgresql+psycopg://...)"
)
LOOP_SECONDS = 60.0
"""How long a thread waits for an event loop, which may have stopped."""
awaited_by: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("headrace_awaited_by", default=None)
"""The event loop that awaits the operation of this thread."""


class Loan(NamedTuple):
    """A connection of the driver, and what gives it back. One that was closed is replaced by its pool."""

    connection: Any
    give_back: Callable[[], None]


class Pool:
    """A pool of psycopg_pool, or an engine of SQLAlchemy."""

    def __init__(self, pool: Any) -> None:
        kind = kind_of(pool)
        if kind not in ("pool", "async pool", "engine", "async engine"):
            raise ConfigurationError(f"pool= takes {TAKES}, not {described(pool)}.")
        self.is_async = kind.startswith("async")
        self._is_engine = kind.endswith("engine")
        if self._is_engine and (pool.dialect.name, pool.dialect.driver) != ("postgresql", "psycopg"):
            raise ConfigurationError(
                f"pool= takes {TAKES}; the driver of this engine is {pool.dialect.name}+{pool.dialect.driver}."
            )
        self._pool = pool

    @property
    def lends(self) -> bool:
        """Whether it can lend to this thread, for this operation."""
        return not self.is_async or awaited_by.get() is not None

    def take(self, where: str) -> Loan:
        """`where`: the store that asks, for people."""
        try:
            return self._take()
        except Exception as error:  # of a library that is not imported here
            said = on_one_line(str(error))
            raise StoreUnavailable(
                f"{where}: the app's pool lends no connection ({said}). It is closed, all of its connections are in "
                "use, or it can't reach the server."
            ) from error

    def _take(self) -> Loan:
        if not self._is_engine:
            connection = self._do(self._pool.getconn)
            return Loan(connection, lambda: self._do(self._pool.putconn, connection))
        lent = self._do(self._pool.raw_connection)
        return Loan(lent.driver_connection, lambda: self._return_to_engine(lent))

    def _return_to_engine(self, lent: Any) -> None:
        end = lent.invalidate if lent.driver_connection.closed else lent.close
        if not self.is_async:
            end()
            return
        from sqlalchemy.util import greenlet_spawn  # noqa: PLC0415  (it is loaded, as there is an engine of it)

        self._do(greenlet_spawn, end)

    def replace_broken(self) -> None:
        """Look for idle connections that are broken, as one of them was."""
        self._do(self._pool.dispose if self._is_engine else self._pool.check)

    def _do(self, act: Callable[..., Any], *values: Any) -> Any:
        loop = awaited_by.get()
        if not self.is_async or loop is None:
            return act(*values)
        return asyncio.run_coroutine_threadsafe(act(*values), loop).result(LOOP_SECONDS)
