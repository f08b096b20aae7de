"""Follows transactions of callers to their ends, so that a test sees the jobs that production would: committed ones.

Nothing is written to the caller's database. Each library tells in a way of its own what becomes of a piece of work:
apsw and SQLAlchemy of each savepoint, Django by a call after the commit, and PostgreSQL (psycopg, asyncpg) by a
notification, which it delivers exactly if the savepoint and the transaction that sent it were committed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any

import apsw

from headrace.errors import ConfigurationError
from headrace.store.callers import IS_ASYNC, OF_ITS_THREAD, kind_of, unknown

TAKES = "a connection of apsw, psycopg, SQLAlchemy (Connection, Session, AsyncSession), Django or asyncpg"


class Part:
    """What one call did in a transaction of its caller. `arrive` is called when that is committed."""

    __slots__ = ("_arrive", "is_open")

    def __init__(self, arrive: Callable[[], None]) -> None:
        self._arrive = arrive
        self.is_open = True

    def commit(self) -> None:
        if self.is_open:
            self.is_open = False
            self._arrive()

    def drop(self) -> None:
        """It was rolled back."""
        self.is_open = False


class Following:
    """The connections of callers that a test has seen."""

    def __init__(self) -> None:
        self._followers: list[_Follower] = []

    def follow(self, connection: Any, part: Part) -> None:
        """Tell the part what becomes of the transaction that is open on a connection; without one, commit it."""
        if check(connection) in _ASYNC:
            raise ConfigurationError(IS_ASYNC)
        self._follower(connection).add(part)

    async def afollow(self, connection: Any, part: Part) -> None:
        """The same, from async code."""
        kind = check(connection)
        if kind == "django":
            raise ConfigurationError(OF_ITS_THREAD)
        follower = self._follower(connection)
        if kind.startswith("sqlalchemy async"):
            await connection.run_sync(lambda _: follower.add(part))
        elif kind in _ASYNC:
            await follower.aadd(part)
        else:
            await asyncio.to_thread(follower.add, part)

    def look(self) -> None:
        """Find out what libraries do not tell by themselves."""
        for follower in self._followers:
            follower.look()

    def close(self) -> None:
        while self._followers:
            self._followers.pop().stop()

    def _follower(self, connection: object) -> Any:
        for follower in self._followers:
            if follower.connection is connection:
                return follower
        kind = check(connection)
        made = (_SYNC.get(kind) or _ASYNC[kind])(connection)
        self._followers.append(made)
        return made


def check(connection: object) -> str:
    """The library of a connection. Refuses pools, engines and sqlite3, as stores do."""
    kind = kind_of(connection)
    if kind not in _SYNC and kind not in _ASYNC:
        raise unknown(connection, TAKES)
    return kind


def resolved(connection: Any) -> Any:
    """What a proxy stands for: a scoped session and Django's `connection` in this thread, a connection of a pool."""
    kind = kind_of(connection)
    if kind == "django":
        return sys.modules["django.db"].connections[connection.alias]
    if kind == "asyncpg":
        return getattr(connection, "_con", connection)
    return connection() if "session" in kind and hasattr(connection, "registry") else connection


class _Follower:
    """Follows one connection. Those of sync libraries have `add(part)`, others `aadd(part)`."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def look(self) -> None:
        """Find out what the library does not tell by itself."""

    def stop(self) -> None:
        """Leave the connection as it was."""


_BLANK = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_NAME = r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\[[^\]]*\]|[^\s;]+)"""
_STATEMENT = re.compile(
    rf"{_BLANK}*(?:"
    r"(?P<commit>COMMIT|END)\b|"
    rf"SAVEPOINT\b{_BLANK}*(?P<set>{_NAME})|"
    rf"RELEASE\b{_BLANK}*(?:SAVEPOINT\b{_BLANK}*)?(?P<release>{_NAME})|"
    rf"ROLLBACK{_BLANK}+(?:(?:TRANSACTION|WORK){_BLANK}+)?TO\b{_BLANK}*(?:SAVEPOINT\b{_BLANK}*)?(?P<to>{_NAME})"
    ")",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that end a transaction or are about a savepoint."""


class _Parts:
    """Parts of a transaction in their order, among the savepoints that were set since the first of them."""

    def __init__(self) -> None:
        self._marks: list[Part | str] = []

    def add(self, part: Part) -> None:
        self._marks.append(part)

    def ran(self, statement: str) -> None:
        """Follow a statement after which the transaction is still open."""
        found = _STATEMENT.match(statement)
        if found is None or found["commit"]:
            return
        name = _unquoted(found[str(found.lastgroup)])
        at = next((at for at in range(len(self._marks) - 1, -1, -1) if self._marks[at] == name), None)
        if found["set"]:
            self._marks.append(name)
        elif found["to"]:
            kept = 0 if at is None else at + 1  # (it was set before the first part)
            _drop(self._marks[kept:])
            del self._marks[kept:]
        elif at is not None:
            self._marks[at:] = [mark for mark in self._marks[at:] if isinstance(mark, Part)]

    def commit(self) -> None:
        marks, self._marks = self._marks, []
        for mark in marks:
            if isinstance(mark, Part):
                mark.commit()

    def roll_back(self) -> None:
        _drop(self._marks)
        self._marks.clear()


def _drop(marks: Iterable[Part | str]) -> None:
    for mark in marks:
        if isinstance(mark, Part):
            mark.drop()


def _unquoted(name: str) -> str:
    return (name[1:-1] if name[0] in "\"'`[" else name).lower()


# -- apsw ------------------------------------------------------------------------------------------------


class _Apsw(_Follower):
    """Reads the statements that SQLite has run. `with connection:` is a savepoint, as the outermost a transaction."""

    _KEY = "headrace testing"

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._parts = _Parts()
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._ran, id=self._KEY)

    def add(self, part: Part) -> None:
        if self.connection.in_transaction:
            self._parts.add(part)
        else:
            part.commit()

    def stop(self) -> None:
        with suppress(apsw.ConnectionClosedError):
            self.connection.trace_v2(0, None, id=self._KEY)

    def _ran(self, event: dict[str, Any]) -> None:
        if self.connection.in_transaction:
            self._parts.ran(event["sql"])
        elif (found := _STATEMENT.match(event["sql"])) is not None and not found["to"]:
            self._parts.commit()
        else:
            self._parts.roll_back()


# -- SQLAlchemy ------------------------------------------------------------------------------------------


class _SqlalchemyConnection(_Follower):
    """Listens to the events of a connection."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._sync = getattr(connection, "sync_connection", connection)
        self._parts = _Parts()
        self._ending = _Parts()
        """What is being committed: its event comes before the commit, which may fail."""
        self._listeners = _listen(
            (self._sync, "after_cursor_execute", lambda _, __, statement, *___: self._parts.ran(statement)),
            (self._sync, "commit", self._committing),
            (self._sync, "commit_twophase", lambda connection, _, __: self._committing(connection)),
            (self._sync, "rollback", lambda _: self._parts.roll_back()),
            (self._sync, "rollback_twophase", lambda _, __, ___: self._parts.roll_back()),
            (self._sync.engine, "handle_error", self._failed),
        )

    def add(self, part: Part) -> None:
        if _is_autocommit(self._sync):
            part.commit()
            return
        if not self._sync.in_transaction():
            self._sync.begin()
        self._parts.add(part)

    def look(self) -> None:
        self._ending.commit()

    def stop(self) -> None:
        _unlisten(self._listeners)

    def _committing(self, _: object) -> None:
        self.look()
        self._ending, self._parts = self._parts, self._ending

    def _failed(self, context: Any) -> None:
        if context.connection is self._sync and context.statement is None:
            self._ending.roll_back()


class _SqlalchemySession(_Follower):
    """Listens to the events of a session. Where a fixture has a transaction around it, the session's own counts."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self._sync = getattr(session, "sync_session", session)
        self._parts: list[tuple[Any, Part]] = []
        self._listeners = _listen(
            (self._sync, "after_commit", self._committed),
            (self._sync, "after_soft_rollback", lambda _, transaction: self._drop(transaction)),
            (self._sync, "after_transaction_end", lambda _, transaction: self._ended(transaction)),
        )

    def add(self, part: Part) -> None:
        if _is_autocommit(self._sync.connection()):  # (that begins a transaction, as production does)
            part.commit()
            return
        self._parts.append((self._sync.get_nested_transaction() or self._sync.get_transaction(), part))

    def stop(self) -> None:
        _unlisten(self._listeners)

    def _committed(self, _: object) -> None:
        if not self._sync.in_nested_transaction():
            parts, self._parts = self._parts, []
            for _transaction, part in parts:
                part.commit()

    def _ended(self, transaction: Any) -> None:
        if transaction.parent is None:  # closed without a commit, it is rolled back
            self._drop(transaction)

    def _drop(self, transaction: Any) -> None:
        _drop(part for inner, part in self._parts if _is_within(inner, transaction))
        self._parts = [(inner, part) for inner, part in self._parts if part.is_open]


def _is_within(transaction: Any, outer: Any) -> bool:
    while transaction is not None and transaction is not outer:
        transaction = transaction.parent
    return transaction is not None


def _is_autocommit(connection: Any) -> bool:
    return bool(connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT")


_Listener = tuple[Any, str, Callable[..., Any]]


def _listen(*listeners: _Listener) -> tuple[_Listener, ...]:
    from sqlalchemy import event  # noqa: PLC0415  (it is loaded, as there is a connection of it)

    for listener in listeners:
        event.listen(*listener)
    return listeners


def _unlisten(listeners: tuple[_Listener, ...]) -> None:
    from sqlalchemy import event  # noqa: PLC0415

    for listener in listeners:
        event.remove(*listener)


# -- Django ----------------------------------------------------------------------------------------------


class _Django(_Follower):
    """Uses `on_commit`. The transactions that `TestCase` has around each test do not count: they never commit."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._waiting: list[tuple[Callable[[], None], object, Part]] = []

    def add(self, part: Part) -> None:
        blocks = self.connection.atomic_blocks
        outermost = next((block for block in blocks if not block._from_testcase), None)
        if blocks and outermost is None:
            part.commit()
            return
        hook = part.commit
        self.connection.on_commit(hook)
        self._waiting.append((hook, outermost, part))

    def look(self) -> None:
        hooks = [id(hook) for _, hook, *_ in self.connection.run_on_commit]
        for hook, outermost, part in self._waiting:
            if id(hook) not in hooks:
                part.drop()  # (it does nothing if the hook was called)
            elif outermost not in self.connection.atomic_blocks:
                part.commit()
        self._waiting = [waiting for waiting in self._waiting if waiting[2].is_open]


# -- psycopg, asyncpg ------------------------------------------------------------------------------------

_CHANNEL = "headrace_testing"
_LISTEN = f"LISTEN {_CHANNEL}"
_numbers = itertools.count(1)


class _Notified:
    """Parts by the notifications that tell of their commit."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}
        self._transaction = ""

    def sending(self) -> tuple[str, str]:
        """A payload, and the statement that sends it. That returns which transaction it is in."""
        payload = f"{os.getpid()}.{id(self)}.{next(_numbers)}"
        return payload, f"SELECT CAST(pg_current_xact_id() AS text), pg_notify('{_CHANNEL}', '{payload}')"

    def sent(self, payload: str, transaction: str, part: Part) -> None:
        if transaction != self._transaction:  # the one before has ended: what is left of it was rolled back
            _drop(self._parts.values())
            self._parts.clear()
        self._transaction = transaction
        self._parts[payload] = part

    def heard(self, payload: str) -> None:
        part = self._parts.pop(payload, None)
        if part is not None:
            part.commit()


def _explained() -> AbstractContextManager[None]:
    from headrace.store.postgres.within import explained  # noqa: PLC0415  (it needs psycopg)

    return explained("The connection")


class _Psycopg(_Follower):
    """Listens for notifications, which arrive with the answer to COMMIT."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._notified = _Notified()
        connection.add_notify_handler(self._hear)

    def add(self, part: Part) -> None:
        if self._is_alone():
            part.commit()
            return
        payload, statement = self._notified.sending()
        with _explained():
            self.connection.execute(_LISTEN)
            row = self._cursor().execute(statement).fetchone()
        self._notified.sent(payload, row[0], part)

    async def aadd(self, part: Part) -> None:
        if self._is_alone():
            part.commit()
            return
        payload, statement = self._notified.sending()
        with _explained():
            await self.connection.execute(_LISTEN)
            row = await (await self._cursor().execute(statement)).fetchone()
        self._notified.sent(payload, row[0], part)

    def stop(self) -> None:
        self.connection.remove_notify_handler(self._hear)

    def _is_alone(self) -> bool:
        return bool(self.connection.autocommit) and not self.connection.info.transaction_status

    def _cursor(self) -> Any:
        from psycopg.rows import tuple_row  # noqa: PLC0415  (it is loaded)

        return self.connection.cursor(row_factory=tuple_row)

    def _hear(self, notification: Any) -> None:
        self._notified.heard(notification.payload)


class _Asyncpg(_Follower):
    """Overrides how a connection takes notifications. A listener of asyncpg is late, and pools warn of it."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._class: Any = type(connection)
        self._notified = _Notified()
        connection.__class__ = _hearing(self._class)
        _heard_by[id(connection)] = self._notified

    async def aadd(self, part: Part) -> None:
        if not self.connection.is_in_transaction():
            part.commit()
            return
        payload, statement = self._notified.sending()
        with _explained():
            await self.connection.execute(_LISTEN)
            transaction = await self.connection.fetchval(statement)
        self._notified.sent(payload, transaction, part)

    def stop(self) -> None:
        del _heard_by[id(self.connection)]
        self.connection.__class__ = self._class


_heard_by: dict[int, _Notified] = {}


def _hearing(cls: Any) -> Any:
    """A class of connections that takes our notifications at once."""
    plain = cls._process_notification

    def process(self: Any, pid: int, channel: str, payload: str) -> None:
        if channel == _CHANNEL and id(self) in _heard_by:
            _heard_by[id(self)].heard(payload)
        plain(self, pid, channel, payload)

    return type(cls.__name__, (cls,), {"__slots__": (), "_process_notification": process, "__module__": cls.__module__})


_SYNC: dict[str, Callable[[Any], _Follower]] = {
    "apsw": _Apsw,
    "psycopg": _Psycopg,
    "sqlalchemy": _SqlalchemyConnection,
    "sqlalchemy session": _SqlalchemySession,
    "django": _Django,
}
_ASYNC: dict[str, Callable[[Any], _Follower]] = {
    "psycopg async": _Psycopg,
    "sqlalchemy async": _SqlalchemyConnection,
    "sqlalchemy async session": _SqlalchemySession,
    "asyncpg": _Asyncpg,
}
