"""One PostgreSQL schema: its connections, the transactions on them, and what repeats them."""

from __future__ import annotations

import json
import random
import re
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.pq.abc import PGresult

from headrace import crashpoints
from headrace.errors import MaybeApplied
from headrace.locks import permits
from headrace.records import Ref
from headrace.store import forks
from headrace.store.pools import Pool
from headrace.store.postgres import arrays, troubles
from headrace.store.postgres.address import Address
from headrace.store.postgres.arrays import Numbers, Texts
from headrace.store.postgres.statements import PUTS, READING, RULES, SETS, WRITING
from headrace.store.postgres.wire import Statement, Statements, Wire, rows_of
from headrace.store.sql.transaction import Ahead, Outdated, Transaction, Use, expect_nothing
from headrace.values.clock import Clock
from headrace.values.glob import as_regex

T = TypeVar("T")
Work: TypeAlias = "Callable[[PostgresTransaction], T]"

ATTEMPTS = 10
"""So often a transaction that others were in the way of is repeated."""
CONNECTIONS_TO_TRY = 3
LONGEST_PAUSE = 5_000
"""Milliseconds until the server ends a transaction whose process does not go on: others wait for its locks."""
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
        self._idle: list[Wire] = []
        self._room = permits(address.connections)
        self._closed = False
        self.connections = address.connections + 1  # at most, in this process, with the one that listens
        here = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in self._settings().items())
        now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        facts = (
            f"SELECT {now}, (SELECT until FROM {self.quoted}.audience WHERE one = 1), "  # noqa: S608  (it is quoted)
            f"EXISTS (SELECT 1 FROM {self.quoted}.arrival), "
        )
        # (Unlogged: a standby can't look there.)
        waited = f"EXISTS (SELECT 1 FROM {self.quoted}.waiter WHERE armed)"  # noqa: S608
        self._settled = f"SELECT {here}", ()
        self._settled_and_locked = f"SELECT {here}, {self.lock(RULES)}, {self.lock(PUTS, shared=True)}", ()
        self._facts = f"{facts}{waited}", ()
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        self._begin_reading: Statements = (begin, ()), self._settled, (f"{facts}FALSE", ())
        forks.holders.add(self)

    def _settings(self) -> dict[str, str]:
        """What a transaction goes by. (Its statements are made for indexes, whatever the planner knows of tables.)"""
        path = f"{self.quoted}, pg_temp".replace("'", "''")
        without = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit")
        settings = {"search_path": path, "plan_cache_mode": "force_generic_plan", **dict.fromkeys(without, "off")}
        return {**settings, "lock_timeout": "0", "idle_in_transaction_session_timeout": str(LONGEST_PAUSE)}

    def lock(self, which: int, *, shared: bool = False) -> str:
        return f"pg_advisory_xact_lock{'_shared' if shared else ''}({self.key}, {which})"

    # -- connections --

    def connect(self) -> Wire:
        """A new connection, which the caller closes."""
        if self._pool is not None and not self._pool.is_async:
            return Wire(*self._pool.take(self.where))
        try:
            return Wire(psycopg.connect(self._address.conninfo), prepare=self._address.prepare)
        except psycopg.Error as error:
            raise troubles.explain(self.where, error) from error

    def _check_out(self) -> Wire:
        if self._pool is not None and self._pool.lends:
            return Wire(*self._pool.take(self.where))
        try:
            return self._idle.pop()
        except IndexError:
            return self.connect()

    def borrow(self, work: Callable[[Wire], T], unsure: Callable[[], bool] = lambda: False) -> T:
        """Do some work on a connection that no other thread uses; once more on others if it breaks.

        `unsure`: whether the work may have been done although the connection broke, and must not be done twice.
        """
        room = self._room
        room.get()
        try:
            for left in reversed(range(CONNECTIONS_TO_TRY)):
                wire = self._check_out()
                try:
                    return work(wire)
                except psycopg.Error as error:
                    if wire.pgconn.status == pq.ConnStatus.OK:
                        raise troubles.explain(self.where, error) from error
                    self._forget_idle()  # the server was restarted, or has cut all of them
                    if self._pool is not None and self._pool.lends:
                        self._pool.replace_broken()
                    if unsure() and not isinstance(error, troubles.TOO_SLOW):
                        maybe = "the connection broke before the answer came. It may or may not have been done."
                        raise MaybeApplied(f"{self.where}: {maybe}") from error
                    if not left:
                        raise troubles.explain(self.where, error) from error
                finally:
                    self._give_back(wire)
        finally:
            room.put(None)
        raise AssertionError

    def _give_back(self, wire: Wire) -> None:
        """Keep it for others if it is in order: work may have been interrupted at any point."""
        pgconn = wire.pgconn
        if pgconn.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
            with suppress(psycopg.Error):
                wire.run([("ROLLBACK", ())])
        if pgconn.transaction_status != pq.TransactionStatus.IDLE or pgconn.pipeline_status != pq.PipelineStatus.OFF:
            wire.close()
        elif wire.give_back is not None:
            wire.give_back()
        elif self._closed:
            wire.close()
        else:
            self._idle.append(wire)

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
        self._room = permits(self._address.connections)

    # -- transactions --

    def write(self, work: Work[T], keys: Sequence[str] = (), ahead: Ahead = expect_nothing) -> T:
        """Do some work, which reads this `ahead`, with the rules' lock, and before that the locks of unique keys."""
        locking: Statements = ()
        if keys:  # a twin in a caller's open transaction is waited for before this one has a lock that others wait for
            wait, back = ((f"SET LOCAL lock_timeout TO {value}", ()) for value in (self.unique_wait, 0))
            locking = self._settled, wait, ("SELECT lock_keys($1)", (Texts(keys),)), back
        begin = ("BEGIN", ()), *locking, self._settled_and_locked, self._facts
        return self._transact(begin, WRITING, work, ahead)

    def read(self, work: Work[T]) -> T:
        """Do some work in a transaction that reads: one consistent view, and no writer waits."""
        return self._transact(self._begin_reading, READING, work, expect_nothing)

    def _transact(self, begin: Statements, texts: dict[str, str], work: Work[T], ahead: Ahead) -> T:
        committing = False

        def inside(wire: Wire) -> T:
            nonlocal committing
            committing = False
            tx = PostgresTransaction(self, wire, texts)
            ahead(tx)
            tx.begin(begin)
            answer = work(tx)
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

    def function(self, name: str, values: tuple[Any, ...]) -> PGresult:
        """Call a function of the schema, in a transaction of its own."""
        calls = [(_call(self.quoted, name, len(values)), values)]
        return self.repeat(lambda: self.borrow(lambda wire: wire.run(calls)))[0]


@cache
def _call(schema: str, name: str, values: int) -> str:
    marks = ", ".join([f"${number}" for number in range(1, values + 1)])
    return f"SELECT {'* FROM ' * (name == 'exchange_plain')}{schema}.{name}({marks})"  # noqa: S608


_MARK = re.compile(r"\bGLOB \?|\?")


class PostgresTransaction(Transaction):
    """A transaction on a connection to a PostgreSQL server."""

    __slots__ = ("_ahead", "_last", "_later", "_texts", "arrived", "database", "waited", "wire")

    waited: bool
    """There are sleepers. (None goes to sleep before this transaction has ended, if it has the lock of puts.)"""

    plain_apart = True
    clock_restarts = False
    arrived: bool
    """Jobs that callers have put in transactions of theirs wait for the rules."""

    def __init__(self, database: Database, wire: Wire, texts: dict[str, str]) -> None:
        super().__init__()
        self.database = database
        self.wire = wire
        self._texts = texts
        self._later: list[Statement] = []
        self._ahead: dict[str, tuple[tuple[Any, ...], PGresult | None]] = {}
        """By name: statements that will be asked for, their values, and their results if they have been run."""
        self._last: list[tuple[Statement, Use]] = []

    def begin(self, statements: Statements) -> None:
        """One round trip: begin, take the locks, read the clock, and what is expected already."""
        ((now, until, self.arrived, self.waited),) = rows_of(self._run(*statements))
        if self.arrived:
            self._ahead.clear()
        clock = self.database.clock
        self.now, self.steady = (now, now) if clock is None else (clock.now(), clock.steady())
        self.listened = until is not None and until > self.steady

    def commit(self) -> None:
        """Wake those that this concerns, as soon as it is committed: in the same round trip."""
        if self.stop or (self.waited and (self.queues or self.ended or self.happenings)):
            news = Texts(self.queues), Numbers(self.queues.values()), Texts(self.ended)
            self._later.append(("SELECT wake($1, $2, $3, $4, $5)", (*news, self.stop, bool(self.happenings))))
        *results, _ = self.wire.run([*self._later, *(statement for statement, _ in self._last), ("COMMIT", ())])
        for (_, use), result in zip(self._last, results[len(self._later) :], strict=True):
            use(rows_of(result))

    def _run(self, *statements: Statement, prepare: bool = True) -> PGresult:
        """The last result. What was put off, as its result does not matter, and what is expected goes along."""
        expected = [(name, values) for name, (values, result) in self._ahead.items() if result is None]
        more = [(self._texts[name], values) for name, values in expected]
        results = self.wire.run([*self._later, *statements, *more], prepare=prepare)
        found = zip(expected, results[len(results) - len(more) :], strict=True)
        self._later = []
        self._ahead |= {name: (values, result) for (name, values), result in found}
        return results[-1 - len(more)]

    def _text(self, name: str) -> str:
        self._ahead.clear()
        if name in INTRODUCE:
            self._later.append((f"SELECT {self.database.lock(PUTS)}", ()))
        return self._texts[name]

    def rows(self, name: str, values: tuple[Any, ...] = ()) -> list[Any]:
        known, result = self._ahead.pop(name, (None, None))
        if result is None or known != values:
            result = self._run((self._texts[name], values))
        return rows_of(result)

    def expect(self, name: str, values: tuple[Any, ...]) -> bool:
        self._ahead.setdefault(name, (values, None))
        return True

    def hand_out(self, rows: Sequence[tuple[Any, ...]], request: tuple[Any, ...], use: Use) -> None:
        self._last.append(((self._text("take_one"), arrays.columns(SETS["take_one"], rows)), use))

    def execute(self, name: str, values: tuple[Any, ...] = ()) -> None:
        self._later.append((self._text(name), values))

    def change(self, name: str, values: tuple[Any, ...] = ()) -> int:
        return self._run((self._text(name), values)).command_tuples or 0

    def change_many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Put off: what a working set changes is locked, so that as many rows change as there are."""
        each = [arrays.columns(SETS[name], rows)] if name in SETS else rows
        self._later += [(self._text(name), values) for values in each]
        return len(rows)

    def insert(self, name: str, rows: Sequence[tuple[Any, ...]], columns: str) -> list[Any]:
        text = f"{self._text(name)} RETURNING {columns}"
        return rows_of(self._run((text, arrays.columns(SETS[name], rows))))

    def find(self, clauses: str, values: tuple[Any, ...]) -> list[Any]:
        marks, numbers = _MARK.findall(clauses), count(1)
        given = tuple(
            value if mark == "?" else f"^(?:{as_regex(str(value))})$" for mark, value in zip(marks, values, strict=True)
        )
        clauses = _MARK.sub(lambda found: f"{'' if found[0] == '?' else '~ '}${next(numbers)}", clauses)
        return rows_of(self._run((f"{self._texts['snapshot']} {clauses}", given), prepare=False))

    def array(self, values: Sequence[Ref]) -> object:
        return Texts(map(str, values)) if values and isinstance(values[0], str) else Numbers(values)

    def texts(self, values: Sequence[str]) -> object:
        return Texts(values)

    def pairs(self, values: Sequence[tuple[str, str]]) -> object:
        return json.dumps(values)
