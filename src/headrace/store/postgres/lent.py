"""Connections that the app's pool has lent.

Each is used through an object of our own over the same `PGconn`: settings, adapters and cursors are ours, and what the
owner has set on its object is as before. Statements are not prepared, as both objects would give them the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from headrace.errors import StoreUnavailable
from headrace.store.pools import Pool
from headrace.store.postgres.arrays import adapt
from headrace.store.postgres.troubles import explain, on_one_line


class Lent(psycopg.Connection[Any]):
    """A connection of the app's. To close it is to end it and to give it back."""

    def __init__(self, pgconn: Any, give_back: Callable[[], None]) -> None:
        self._handlers = pgconn.notice_handler, pgconn.notify_handler
        super().__init__(pgconn)
        self._give_back = give_back

    def give_back(self) -> None:
        self.pgconn.notice_handler, self.pgconn.notify_handler = self._handlers
        self._give_back()

    def close(self) -> None:
        super().close()
        self.give_back()

    def __del__(self, *_: Any) -> None:
        """Its owner closes it."""


def take(pool: Pool, where: str) -> Lent:
    try:
        loan = pool.take()
    except Exception as error:  # of a library that is not imported here
        raise StoreUnavailable(
            f"{where}: the app's pool lends no connection ({on_one_line(str(error))}). It is closed, all of its "
            "connections are in use, or it can't reach the server."
        ) from error
    connection = Lent(loan.connection.pgconn, loan.give_back)
    try:
        connection.autocommit = True
    except psycopg.Error as error:  # it is in a transaction
        connection.close()
        raise explain(where, error) from error
    connection.cursor_factory, connection.prepare_threshold = psycopg.RawCursor, None
    adapt(connection)
    return connection
