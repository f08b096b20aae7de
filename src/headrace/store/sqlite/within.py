"""Operations in a transaction of the caller, on the caller's own connection to the store's file.

The rules run there as they do anywhere, under a savepoint: there is one writer, and the caller is it. Sleepers are
woken when the caller's transaction has ended. A wake-up that is lost waits for the next sweep, a second at most.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import apsw

from headrace.errors import ConfigurationError, StoreBusy, StoreReplaced
from headrace.store.callers import described, kind_of, unknown
from headrace.store.sql.transaction import Step, Transaction
from headrace.store.sqlite import guard
from headrace.store.sqlite.database import SqliteTransaction
from headrace.store.sqlite.guard import REPLACED

T = TypeVar("T")

TAKES = "an apsw.Connection to the file of the store"
OTHER_COPY = (
    f"connection= takes {TAKES}, and {{}} uses Python's sqlite3. That is another copy of SQLite than headrace's, and "
    "two copies in one process must not share a file: each takes the other's locks away when it closes a connection. "
    "Open the file with apsw.Connection(path)."
)
BUSY = (
    "{} is locked by another connection, so nothing was done in the caller's transaction, which goes on. Begin it with "
    "BEGIN IMMEDIATE, and give its connection a busy time-out."
)


class Within(Step[T]):
    """An operation to run on a connection of the caller."""

    __slots__ = ("connection",)

    def __init__(self, connection: apsw.Connection, work: Callable[[Transaction], T]) -> None:
        super().__init__(work)
        self.connection = connection


def check(connection: object, path: str) -> apsw.Connection:
    """The connection, if it is one that the store can share a transaction with."""
    kind = kind_of(connection)
    if kind == "sqlite3" or (kind and _driver(connection) == "sqlite"):
        raise ConfigurationError(OTHER_COPY.format(described(connection)))
    if not isinstance(connection, apsw.Connection):
        raise unknown(connection, TAKES)
    if not _same_file(connection.filename, path):
        raise ConfigurationError(
            f"This connection is to {connection.filename or 'a database in memory'}, and the jobs are in {path}: one "
            "transaction can't span both. Keep your tables in the same file, or enqueue after the commit."
        )
    return connection


def _driver(connection: object) -> str:
    """What kind of database is below a connection of SQLAlchemy or Django."""
    bind = connection.get_bind() if hasattr(connection, "get_bind") else connection
    return str(getattr(bind, "vendor", "") or getattr(getattr(bind, "dialect", None), "name", ""))


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


class CallersTransaction(SqliteTransaction):
    """A transaction on the caller's connection, which may make of rows what its owner likes."""

    __slots__ = ()

    def begin(self, connection: apsw.Connection, now: int, steady: int) -> CallersTransaction:
        super().begin(connection, now, steady)
        cursor = connection.cursor()
        cursor.row_trace = lambda _, row: row
        self._execute, self._execute_many = cursor.execute, cursor.executemany
        return self


def run(connection: apsw.Connection, work: Callable[[apsw.Connection], T], path: str) -> tuple[T, bool]:
    """Do some work under a savepoint. Returns its answer, and whether that is committed: no transaction was open."""
    me = guard.enter()
    try:
        _keep_hold(path)
        alone = not connection.in_transaction
        connection.execute("BEGIN IMMEDIATE" if alone else "SAVEPOINT headrace")
        try:
            answer = work(connection)
            connection.execute("COMMIT" if alone else "RELEASE headrace")
        except BaseException:
            with suppress(apsw.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK" if alone else "ROLLBACK TO headrace; RELEASE headrace")
            raise
    except apsw.BusyError as error:
        raise StoreBusy(BUSY.format(path)) from error
    finally:
        guard.leave(me)
    return answer, alone


_pinned: set[guard.Hold] = set()


def _keep_hold(path: str) -> None:
    """Keep this process' hold on the file from now on.

    To let go of it closes descriptors of the file, and with them go the locks of every connection of this process:
    of the caller's, too, which may be in the middle of a transaction then.
    """
    hold = guard.held(path)
    if hold is None or hold not in _pinned:
        _pinned.add(hold := guard.hold_on(path))
    if hold.lost():
        raise StoreReplaced(REPLACED.format(path))


_acts: WeakKeyDictionary[apsw.Connection, list[Callable[[], None]]] = WeakKeyDictionary()
"""What is to be done when the transaction of a connection has ended."""
_KEY = "headrace"


def when_ended(connection: apsw.Connection, act: Callable[[], None]) -> None:
    """Act once the transaction that is open on a connection has ended.

    SQLite's commit hook comes before the commit, when others see nothing yet. The end of a statement after which no
    transaction is open comes after it. A rollback is an end as well: then there is nothing to see, and no harm done.
    """
    acts = _acts.setdefault(connection, [])
    acts.append(act)
    if len(acts) == 1:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, _look, id=_KEY)


def _look(event: dict[str, Any]) -> None:
    connection = event["connection"]
    if not connection.in_transaction:
        connection.trace_v2(0, None, id=_KEY)
        for act in _acts.pop(connection, ()):
            act()
