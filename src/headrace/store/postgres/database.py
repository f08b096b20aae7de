"""One PostgreSQL schema: its connections, the transactions on them, and what repeats them."""

from __future__ import annotations

import json
import random
import re
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from itertools import count
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import pq, sql

from headrace import crashpoints
from headrace.errors import MaybeApplied
from headrace.records import Ref
from headrace.store import forks
from headrace.store.pools import Pool
from headrace.store.postgres import arrays, lent, troubles
from headrace.store.postgres.address import Address
from headrace.store.postgres.arrays import Numbers, Texts, adapt
from headrace.store.postgres.lent import Lent
from headrace.store.postgres.statements import PUTS, READING, SETS, WRITING
from headrace.store.sql.transaction import Guards, Outdated, Transaction
from headrace.values.clock import Clock
from headrace.values.glob import as_regex

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[Any]"

ATTEMPTS = 10
"""So often a transaction that others were in the way of is repeated."""
CONNECTIONS_TO_TRY = 3
LONGEST_PAUSE = 5_000
"""Milliseconds until the server ends a transaction whose process does not go on: others wait for its locks."""
MAYBE = "{}: the connection broke before the answer came. It may or may not have been done."
INTRODUCE = frozenset({"control_set", "block_put", "audience_set"})
"""From these statements on, plain exchanges and puts are no longer enough: those under way are waited for."""


class Database:
    """Connections to one schema, handed out one per transaction."""

    def __init__(self, address: Address, clock: Clock | None, pool: Pool | None = None) -> None:
        self.where = address.name
        self.schema = address.schema
        self.quoted = sql.Identifier(address.schema).as_string(None)
        self.key = zlib.crc32(f"headrace {address.schema}".encode()) - (1 << 31)
        self.unique_wait = address.unique_wait
        self.clock = clock
        """A test's; None: the server's."""
        self.repeated = 0
        """How many transactions were repeated, because others were in their way."""
        self._address = address
        self._pool = pool
        self._idle: list[Connection] = []
        self._room = threading.BoundedSemaphore(address.connections)
        self._closed = False
        self.connections = address.connections + 1  # at most, in this process, with the one that listens
        here = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in self._settings().items())
        now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        facts = (
            f"SELECT {now}, (SELECT until FROM {self.quoted}.audience WHERE one = 1), "  # noqa: S608  (it is quoted)
            f"EXISTS (SELECT 1 FROM {self.quoted}.arrival), "
        )
        waited = f"EXISTS (SELECT 1 FROM {self.quoted}.waiter)"  # noqa: S608  (unlogged: a standby can't look there)
        self._begin = f"BEGIN; SELECT {here}"
        locks = f"{self.quoted}.lock_rules({LONGEST_PAUSE}), {self.lock(PUTS, shared=True)}"
        self._locks_and_facts = f"SELECT {locks}; {facts}{waited}"
        self._begin_writing = f"{self._begin}; {self._locks_and_facts}"
        self._begin_reading = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT {here}; {facts}FALSE"
        forks.holders.add(self)

    def _settings(self) -> dict[str, str]:
        """What a transaction goes by. (Its statements are made for indexes, whatever the planner knows of tables.)"""
        path = f"{self.quoted}, pg_temp".replace("'", "''")
        without = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit")
        settings = {"search_path": path, "plan_cache_mode": "force_generic_plan", **dict.fromkeys(without, "off")}
        return {**settings, "idle_in_transaction_session_timeout": str(LONGEST_PAUSE)}

    def lock(self, which: int, *, shared: bool = False) -> str:
        return f"pg_advisory_xact_lock{'_shared' if shared else ''}({self.key}, {which})"

    # -- connections --

    def connect(self) -> Connection:
        """A new connection, which the caller closes."""
        if self._pool is not None and not self._pool.is_async:
            return lent.take(self._pool, self.where)
        try:
            connection = psycopg.connect(self._address.conninfo, autocommit=True, cursor_factory=psycopg.RawCursor)
        except psycopg.Error as error:
            raise troubles.explain(self.where, error) from error
        connection.prepare_threshold = 3 if self._address.prepare else None
        connection.prepared_max = 500
        adapt(connection)
        return connection

    def _check_out(self) -> Connection:
        if self._pool is not None and self._pool.lends:
            return lent.take(self._pool, self.where)
        with suppress(IndexError):  # another thread has taken the last one
            return self._idle.pop()
        return self.connect()

    def borrow(self, work: Callable[[Connection], T], unsure: Callable[[], bool] = lambda: False) -> T:
        """Do some work on a connection that no other thread uses; once more on others if it breaks.

        `unsure`: whether the work may have been done although the connection broke, and must not be done twice.
        """
        with self._room:
            for left in reversed(range(CONNECTIONS_TO_TRY)):
                connection = self._check_out()
                try:
                    return work(connection)
                except psycopg.Error as error:
                    if not connection.closed:
                        raise troubles.explain(self.where, error) from error
                    self._forget_idle()  # the server was restarted, or has cut all of them
                    if self._pool is not None and self._pool.lends:
                        self._pool.replace_broken()
                    if unsure():
                        raise MaybeApplied(MAYBE.format(self.where)) from error
                    if not left:
                        raise troubles.explain(self.where, error) from error
                finally:
                    self._give_back(connection)
        raise AssertionError

    def _give_back(self, connection: Connection) -> None:
        """Keep it for others if it is in order: work may have been interrupted at any point."""
        state = connection.pgconn
        if state.transaction_status != pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        if connection.broken or state.transaction_status != pq.TransactionStatus.IDLE:
            connection.close()
        elif isinstance(connection, Lent):
            connection.give_back()
        elif self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _forget_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def close(self) -> None:
        """Close what is idle. (Operations in flight in other threads close theirs when they end.)"""
        self._closed = True
        self._forget_idle()

    def leave_to_parent(self) -> None:
        """A child must not touch, nor even close, what its parent opened: it would say goodbye in its name."""
        forks.abandoned.extend(self._idle)
        self._idle = []
        self._room = threading.BoundedSemaphore(self._address.connections)

    # -- transactions --

    def write(self, work: Callable[[PostgresTransaction], T], guards: Guards, keys: Sequence[str] = ()) -> T:
        """Do some work in a transaction that has the rules' lock, and before that the locks of unique keys."""
        begin = self._begin_with(keys) if keys else self._begin_writing
        return self._transact(begin, WRITING, work, guards)

    def _begin_with(self, keys: Sequence[str]) -> str:
        """A twin in a caller's open transaction is waited for before this one has a lock that others wait for."""
        array = sql.Literal(list(keys)).as_string(None)
        wait, back = (f"SET LOCAL lock_timeout TO {value}" for value in (self.unique_wait, "DEFAULT"))
        return f"{self._begin}; {wait}; SELECT lock_keys({array}); {back}; {self._locks_and_facts}"

    def read(self, work: Callable[[PostgresTransaction], T], guards: Guards) -> T:
        """Do some work in a transaction that reads: one consistent view, and no writer waits."""
        return self._transact(self._begin_reading, READING, work, guards)

    def _transact(
        self, begin: str, texts: dict[str, str], work: Callable[[PostgresTransaction], T], guards: Guards
    ) -> T:
        committing = False

        def inside(connection: Connection) -> T:
            nonlocal committing
            committing = False
            tx = PostgresTransaction(guards, self, connection, texts)
            tx.begin(begin)
            answer = work(tx)
            tx.flush()  # if the connection breaks here, nothing was committed
            if crashpoints.armed:
                crashpoints.reach("commit.before")
            committing = texts is WRITING
            tx.commit()
            committing = False
            if crashpoints.armed:
                crashpoints.reach("commit.after")
            return answer

        return self.repeat(lambda: self.borrow(inside, lambda: committing))

    def repeat(self, work: Callable[[], T]) -> T:
        """Again and again, as long as it is rolled back because of others, but not for ever."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return work()
            except Exception as error:
                passes = isinstance(error, Outdated) or isinstance(error.__cause__, troubles.PASSES)
                if not passes or attempt == ATTEMPTS:
                    raise
            self.repeated += 1
            time.sleep(random.uniform(0, 0.002 * attempt))  # noqa: S311
        raise AssertionError

    def function(self, name: str, values: tuple[Any, ...]) -> list[Any]:
        """Call a function of the schema, in a transaction of its own: its rows."""
        marks = ", ".join([f"${number}" for number in range(1, len(values) + 1)])
        call = f"SELECT * FROM {self.quoted}.{name}({marks})"  # noqa: S608  (only names and numbers)
        return self.repeat(lambda: self.borrow(lambda wire: wire.execute(call, values, binary=True).fetchall()))


_MARK = re.compile(r"\bGLOB \?|\?")


class PostgresTransaction(Transaction):
    """A transaction on a connection to a PostgreSQL server."""

    __slots__ = ("_later", "_texts", "arrived", "connection", "database", "waited")

    waited: bool
    """There are waiters. (None goes to sleep before this transaction has ended, if it has the lock of puts.)"""

    plain_apart = True
    clock_restarts = False
    arrived: bool
    """Jobs that callers have put in transactions of theirs wait for the rules."""

    def __init__(self, guards: Guards, database: Database, connection: Connection, texts: dict[str, str]) -> None:
        super().__init__(guards)
        self.database = database
        self.connection = connection
        self._texts = texts
        self._later: list[tuple[str, tuple[Any, ...]]] = []

    def begin(self, statements: str) -> None:
        """One round trip: begin, take the locks, and then read the clock."""
        cursor = self.connection.execute(statements, prepare=False)
        while cursor.nextset():
            pass
        ((now, until, self.arrived, self.waited),) = cursor.fetchall()
        clock = self.database.clock
        self.now, self.steady = (now, now) if clock is None else (clock.now(), clock.steady())
        self.listened = until is not None and until > self.steady

    def commit(self) -> None:
        """Wake those that this concerns, as soon as it is committed: in the same round trip."""
        if self.waited and (self.queues or self.ended or self.stop or self.happenings):
            news = Texts(self.queues), Numbers(self.queues.values()), Texts(self.ended)
            self._later.append(("SELECT wake($1, $2, $3, $4, $5)", (*news, self.stop, bool(self.happenings))))
        self._send("COMMIT")

    def _send(self, text: str, values: tuple[Any, ...] = ()) -> psycopg.Cursor[Any]:
        """What was put off, because its result does not matter, goes along in the same round trip."""
        later, self._later = self._later, []
        with self.connection.pipeline() if later else nullcontext():
            for statement in later:
                self.connection.execute(*statement)
            return self.connection.execute(text, values, binary=True)

    def flush(self) -> None:
        if self._later:
            self._send(*self._later.pop())

    def _text(self, name: str) -> str:
        if name in INTRODUCE:
            self._later.append((f"SELECT {self.database.lock(PUTS)}", ()))
        return self._texts[name]

    def rows(self, name: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._send(self._text(name), values).fetchall()

    def execute(self, name: str, values: tuple[Any, ...] = ()) -> None:
        if text := self._text(name):
            self._later.append((text, values))

    def change(self, name: str, values: tuple[Any, ...] = ()) -> int:
        return self._send(self._text(name), values).rowcount

    def change_many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Put off: what a working set changes is locked, so that as many rows change as there are."""
        each = [arrays.columns(SETS[name], rows)] if name in SETS else rows
        self._later += [(self._texts[name], values) for values in each]
        return len(rows)

    def insert(self, name: str, rows: Sequence[tuple[Any, ...]], columns: str) -> list[Any]:
        return self._send(f"{self._texts[name]} RETURNING {columns}", arrays.columns(SETS[name], rows)).fetchall()

    def find(self, clauses: str, values: tuple[Any, ...]) -> list[Any]:
        marks, numbers = _MARK.findall(clauses), count(1)
        given = tuple(
            value if mark == "?" else f"^(?:{as_regex(str(value))})$" for mark, value in zip(marks, values, strict=True)
        )
        clauses = _MARK.sub(lambda found: f"{'' if found[0] == '?' else '~ '}${next(numbers)}", clauses)
        return self._send(f"{self._texts['snapshot']} {clauses}", given).fetchall()

    def array(self, numbers: Sequence[Ref]) -> object:
        return Texts(map(str, numbers)) if numbers and isinstance(numbers[0], str) else Numbers(numbers)

    def texts(self, texts: Sequence[str]) -> object:
        return Texts(texts)

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> object:
        return json.dumps(pairs)
