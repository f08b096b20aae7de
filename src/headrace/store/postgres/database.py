"""One PostgreSQL schema: its connections, the transactions on them, and what repeats them."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from hashlib import sha256
from itertools import chain, count
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.pq.abc import PGresult

from headrace import crashpoints
from headrace.errors import MaybeApplied, StoreBusy, StoreUnavailable
from headrace.locks import permits
from headrace.records import Lease, Ref
from headrace.store import forks
from headrace.store.pools import Pool
from headrace.store.postgres import arrays, troubles
from headrace.store.postgres.address import Address
from headrace.store.postgres.arrays import Numbers, Texts
from headrace.store.postgres.parcels import AT_ONCE, Parcels, pieces
from headrace.store.postgres.statements import LOCK_WAIT, NARROW, PUTS, READING, RULES, SETS, WRITING, translate
from headrace.store.postgres.wire import Statement, Statements, TooLarge, Wire, rows_of
from headrace.store.sql.transaction import Ahead, Key, Outdated, TooNarrow, Transaction, Use, expect_nothing
from headrace.values.clock import Clock
from headrace.values.glob import as_regex

T = TypeVar("T")
Work: TypeAlias = "Callable[[PostgresTransaction], T]"

UNREAD = 10_000
"""Milliseconds until the server ends a connection whose client reads nothing of what it was sent."""
KEPT_ALIVE = {"tcp_keepalives_idle": 5, "tcp_keepalives_interval": 2, "tcp_keepalives_count": 3}
"""How the server finds out that a client's machine is gone, or suspended."""
LOCK_SECONDS = 5.0
"""For so long it is begun anew then."""
ATTEMPTS = 10
"""So often a transaction that others were in the way of is repeated."""
CONNECTIONS_TO_TRY = 3
LONGEST_PAUSE = 1_000
"""Milliseconds until the server ends a transaction whose process does not go on: others wait for its locks."""
LONGEST_WRITE = 10_000
"""Milliseconds that a transaction that writes may take, unless the server has a bound of its own. Before version 17 it
can't be told so."""
LONGEST_LOOK = 5_000
"""The same of a transaction that only reads, for which none waits."""
HAND_OUT = frozenset({"take", "take_one"})
_UNBOUNDED = "current_setting('transaction_timeout', true) = '0'"
_READ_COMMITTED = "read committed"
_INTRODUCTION = "SELECT pg_backend_pid(), current_setting('default_transaction_isolation')"
"""What is to be known of a new connection: who answers (a pooler says another number), and how it isolates."""
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
RESTART_SECONDS = 3.0
"""For so long a server that is gone is waited for."""
TRY_SECONDS = 6.0
"""After so long no other connection is tried."""
POOLER_SECONDS = 60.0
"""For how long a server is waited for that can't be asked whether it works."""
TABLES = frozenset({"exchange_plain", "leases_of"})
"""Functions that return rows."""
INTRODUCE = frozenset({"control_set", "block_put", "audience_set"})
"""From these statements on, plain exchanges and puts are no longer enough: those under way are waited for."""


class Connection(psycopg.Connection[Any]):
    """A connection of our own. It may last until the end of the program, which is no reason to warn."""

    def __del__(self, *_: object) -> None:
        """libpq's object closes itself."""


class Database:
    """Connections to one schema, handed out one per transaction."""

    def __init__(self, address: Address, clock: Clock | None, pool: Pool | None = None) -> None:
        self.where = address.name
        self.schema = address.schema
        self.quoted = sql.Identifier(address.schema).as_string(None)
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
        self._pooled = not address.prepare
        """A pooler stands in between: the next statement may be run by another server process."""
        self._lent_isolation: str | None = None
        self._known = False
        """The server has answered before. If not, the URL may be wrong, and waiting for it would be in vain."""
        self.connections = address.connections + 1  # at most, in this process, with the one that listens
        reading, writing = (
            ", ".join(f"set_config('{name}', '{value}', true)" for name, value in self._settings(pause).items())
            for pause in (LONGEST_LOOK, LONGEST_PAUSE)
        )
        writing += f", CASE WHEN {_UNBOUNDED} THEN set_config('transaction_timeout', '{LONGEST_WRITE}', true) END"
        now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
        facts = (
            f"SELECT {now}, (SELECT until FROM {self.quoted}.audience WHERE one = 1), "  # noqa: S608  (it is quoted)
            f"EXISTS (SELECT 1 FROM {self.quoted}.arrival), EXISTS (SELECT 1 FROM {self.quoted}.completion)"
        )
        self._settled = f"SELECT {writing}", ()
        self._facts = facts, ()
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        self.begin_reading: Statements = (begin, ()), (f"SELECT {reading}", ())
        self._begin_reading: Statements = *self.begin_reading, self._facts
        forks.holders.add(self)

    def _settings(self, pause: int) -> dict[str, str]:
        """What a transaction goes by. (Its statements are made for indexes, whatever the planner knows of tables.)"""
        path = f"{self.quoted}, pg_temp".replace("'", "''")
        without = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit")
        settings = {"search_path": path, "plan_cache_mode": "force_generic_plan", **dict.fromkeys(without, "off")}
        return {**settings, "lock_timeout": str(LOCK_WAIT), "idle_in_transaction_session_timeout": str(pause)}

    def lock(self, which: str, *, shared: bool = False) -> str:
        """The statement that takes a lock: that of a table, for which a role needs rights in the schema."""
        return f"LOCK TABLE {self.quoted}.{which} IN {'ROW' if shared else 'SHARE ROW'} EXCLUSIVE MODE"

    # -- connections --

    def connect(self) -> Wire:
        """A new connection, which the caller closes."""
        if self._pool is not None and not self._pool.is_async:
            return self._lent(self._pool)
        try:
            wire = Wire(Connection.connect(self._address.conninfo), works=self._works)
            ((pid, isolation),) = wire.query(_INTRODUCTION)
            wire.reads_committed = isolation == _READ_COMMITTED
            self._pooled = not self._address.prepare or pid != wire.pgconn.backend_pid
            if not self._pooled:
                wire.prepare()
                if not wire.connection.info.host.startswith("/"):
                    settings = {"tcp_user_timeout": UNREAD, **KEPT_ALIVE}
                    sets = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
                    wire.query(f"SELECT {sets}")
            return wire
        except psycopg.Error as error:
            raise troubles.explain(self.where, error) from error

    def _works(self, pid: int, silent: float) -> bool:
        """Whether a server process works on what it was sent: asked through a connection of its own.

        One that waits for its client does not: what either side sends is lost. Behind a pooler it can't be found out.
        """
        if self._pooled:
            return silent < POOLER_SECONDS
        query = "SELECT state IS NULL, state = 'active' AND wait_event_type IS DISTINCT FROM 'Client' "
        try:
            found = self._ask(f"{query} FROM pg_stat_activity WHERE pid = $1", pid)
        except psycopg.Error:
            return False
        hidden, works = found[0] if found else (False, False)  # that of another user is hidden
        return works or (hidden and silent < POOLER_SECONDS)

    def _ask(self, query: str, *values: Any) -> list[Any]:
        """Ask the server through a connection that is made for it, or raise soon."""
        with closing(Wire(psycopg.connect(self._address.conninfo, connect_timeout=2))) as other:
            return other.query(query, *values)

    def _lent(self, pool: Pool) -> Wire:
        wire = Wire(*pool.take(self.where), works=self._works)
        if self._lent_isolation is None:  # that of one is that of all
            try:
                ((_, self._lent_isolation),) = wire.query(_INTRODUCTION)
            except BaseException:
                self._give_back(wire)
                raise
        wire.reads_committed = self._lent_isolation == _READ_COMMITTED
        return wire

    def _check_out(self) -> Wire:
        if self._pool is not None and self._pool.lends:
            return self._lent(self._pool)
        try:
            return self._idle.pop()
        except IndexError:
            return self.connect()

    def _connected(self) -> Wire:
        """A connection. A server that was there before is waited for a moment: it may be restarted."""
        until = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                return self._check_out()
            except StoreUnavailable:
                if not self._known or time.monotonic() > until:
                    raise
            time.sleep(random.uniform(0.01, 0.05))  # noqa: S311

    def borrow(self, work: Callable[[Wire], T], unsure: Callable[[], bool] = lambda: False) -> T:
        """Do some work on a connection that no other thread uses; once more on others if it breaks.

        `unsure`: whether the work may have been done although the connection broke, and must not be done twice.
        """
        room, until = self._room, time.monotonic() + TRY_SECONDS
        room.get()
        try:
            for left in reversed(range(CONNECTIONS_TO_TRY)):
                wire = self._connected()
                try:
                    answer = work(wire)
                    self._known = True
                    return answer
                except psycopg.Error as error:
                    if wire.pgconn.status == pq.ConnStatus.OK and not isinstance(error, troubles.GOES):
                        raise troubles.explain(self.where, error) from error
                    self._forget_idle()  # the server was restarted, or has cut all of them
                    if self._pool is not None and self._pool.lends:
                        self._pool.replace_broken()
                    if unsure() and not isinstance(error, troubles.TOO_SLOW):
                        maybe = "the connection broke before the answer came. It may or may not have been done."
                        raise MaybeApplied(f"{self.where}: {maybe}") from error
                    if not left or time.monotonic() > until:
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

    def lent_by_pool(self) -> dict[str, str]:
        """The parameters of a connection that the app's pool lends to this thread; empty: none does."""
        if self._pool is None or not self._pool.lends:
            return {}
        wire = self._lent(self._pool)
        try:
            return {each.keyword.decode(): each.val.decode() for each in wire.pgconn.info if each.val is not None}
        finally:
            self._give_back(wire)

    def write(
        self,
        work: Work[T],
        keys: Sequence[str] = (),
        ahead: Ahead = expect_nothing,
        *,
        narrow: bool = False,
        large: Iterable[bytes | None] = (),
        known: Known | None = None,
    ) -> T:
        """Do some work, which reads this `ahead`, with the rules' lock, and before that the locks of unique keys.

        `narrow`: without the rules' lock. Work that would need it raises `TooNarrow`, and nothing is written. `large`:
        values that it will write, as far as that is known. `known`: large values that were read before.
        """
        locking: Statements = ()
        if keys:  # a twin in a caller's open transaction is waited for before this one has a lock that others wait for
            wait = f"SET LOCAL lock_timeout TO {self.unique_wait}", ()
            locking = self._settled, wait, ("SELECT lock_keys($1)", (Texts(keys),))
        locked: Statements = () if narrow else ((self.lock(RULES), ()),)
        begin = *locking, self._settled, *locked, self._facts
        parcels, start = Parcels(large), (_BEGIN, ())

        def make(wire: Wire) -> PostgresTransaction:
            tx = PostgresTransaction(self, wire, NARROW if narrow else WRITING, parcels, known)
            ahead(tx)
            if parcels:  # (the bounds of a transaction are set behind them: a slow network may take its time)
                wire.run([start, *parcels.sent()])
            tx.begin(begin if parcels else (start, *begin))
            return tx

        return self._transact(make, work, writes=True)

    def read(self, work: Work[T]) -> T:
        """Do some work in a transaction that reads: one consistent view, and no writer waits."""

        def make(wire: Wire) -> PostgresTransaction:
            tx = PostgresTransaction(self, wire, READING)
            tx.begin(self._begin_reading)
            return tx

        return self._transact(make, work, writes=False)

    def _transact(self, make: Callable[[Wire], PostgresTransaction], work: Work[T], *, writes: bool) -> T:
        committing = False

        def inside(wire: Wire) -> T:
            nonlocal committing
            committing = False
            tx = make(wire)
            answer = work(tx)
            if crashpoints.armed:
                crashpoints.reach("commit.before")
            committing = writes
            tx.commit()
            committing = False
            if crashpoints.armed:
                crashpoints.reach("commit.after")
            return answer

        return self.repeat(lambda: self.borrow(inside, lambda: committing))

    def repeat(self, work: Callable[[], T]) -> T:
        """Again and again, as long as it is rolled back because of others, but not for ever.

        One that waits for a lock gives up what it has, and lets others go on, before it waits again.
        """
        until = time.monotonic() + LOCK_SECONDS
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return work()
            except Exception as error:
                passes = isinstance(error, Outdated) or troubles.passes(error.__cause__)
                if troubles.waits(error.__cause__):
                    if time.monotonic() > until:
                        raise StoreBusy(f"{error} {self.blockers()}".strip()) from error.__cause__
                    passes = True
                if passes and attempt == ATTEMPTS and isinstance(error, Outdated):
                    raise StoreBusy(f"{self.where}: {error}") from error
                if not passes or attempt == ATTEMPTS:
                    raise
            self.repeated += 1
            time.sleep(random.uniform(0, 0.002 * attempt))  # noqa: S311
        raise AssertionError

    def blockers(self) -> str:
        """Who has kept locks of this schema for a while, in words; '' if that can't be found out."""
        with suppress(psycopg.Error):
            found = self._ask(troubles.BLOCKERS, self.quoted, LOCK_WAIT)
            who = [
                f"process {pid} (user {user}, {name or 'no name'}, {state} for {age} s)"
                for pid, user, name, state, age in found
            ]
            return f"It waits for {' and '.join(who)}; pg_terminate_backend ends one." if who else ""
        return ""

    def function(self, name: str, values: tuple[Any, ...]) -> PGresult:
        """Call a function of the schema, in a transaction of its own."""
        text = _call(self.quoted, name, len(values))

        def work(wire: Wire) -> PGresult:
            if wire.reads_committed:
                return wire.run([(text, values)])[0]
            return wire.run([(_BEGIN, ()), (text, values), ("COMMIT", ())])[1]

        return self.repeat(lambda: self.borrow(work))

    def functions(self, *calls: tuple[str, tuple[Any, ...]]) -> list[PGresult]:
        """Call functions in one round trip: the first in a transaction of its own, the others when that is done."""
        first, *then = [(_call(self.quoted, name, len(values)), values) for name, values in calls]

        def work(wire: Wire) -> list[PGresult]:
            if wire.reads_committed:
                return wire.run([first], then=then)
            _, answer, _, *others = wire.run([(_BEGIN, ()), first, ("COMMIT", ())], then=then)
            return [answer, *others]

        return self.repeat(lambda: self.borrow(work))


@cache
def _call(schema: str, name: str, values: int) -> str:
    marks = ", ".join([f"${number}" for number in range(1, values + 1)])
    return f"SELECT {'* FROM ' * (name in TABLES)}{schema}.{name}({marks})"  # noqa: S608


_GONE = (b"", None, None)
"""What a lease carries whose job was deleted since it was handed out: no run of it counts."""
_MARK = re.compile(r"\bGLOB \?|\?")


@cache
def _in_its_words(clauses: str) -> str:
    """Clauses with question marks in PostgreSQL's words. (They are made of constants, so there are few of them.)"""
    numbers = count(1)
    return translate(_MARK.sub(lambda found: f"{'' if found[0] == '?' else '~ '}?{next(numbers)}", clauses))


def _columns(kinds: str, rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows as one value per column; in several parts, if a socket may not take them at once."""
    values = arrays.columns(kinds, rows)
    texts = (column for column, kind in zip(values, kinds, strict=True) if kind in "bt")
    size = 12 * len(rows) * len(kinds) + sum(map(len, filter(None, chain.from_iterable(texts))))
    if len(rows) < 2 or size <= AT_ONCE:
        yield values
        return
    middle = len(rows) // 2
    yield from _columns(kinds, rows[:middle])
    yield from _columns(kinds, rows[middle:])


Known = dict[tuple[str, Key], Any]
"""Large values, by the query that reads one and what it asks for."""


class ReadFirst(Exception):
    """A transaction that writes needs large values, which are read before it begins."""

    def __init__(self, missing: list[tuple[str, Key]]) -> None:
        self.missing = missing

    def values(self, tx: Transaction) -> Known:
        """What is missing, read in a transaction that keeps none waiting."""
        return {(name, key): tx.large(name, [key])[key] for name, key in self.missing}


class PostgresTransaction(Transaction):
    """A transaction on a connection to a PostgreSQL server.

    `texts`: the statements that it may run. One that is not among them raises `TooNarrow`. `parcels`: what it sends
    before it takes a lock. `known`: large values that were read before it.
    """

    __slots__ = (
        "_after", "_ahead", "_carrying", "_handed_out", "_large", "_last", "_later", "_parcels", "_texts", "arrived",
        "database", "hands_out", "loads_later", "wire",
    )  # fmt: skip

    plain_apart = True
    appends = True
    clock_restarts = False
    arrived: bool
    """Jobs that callers have put in transactions of theirs wait for the rules."""

    def __init__(
        self,
        database: Database,
        wire: Wire,
        texts: dict[str, str],
        parcels: Parcels | None = None,
        known: Known | None = None,
    ) -> None:
        super().__init__()
        self._parcels = parcels
        self._large = known
        self.database = database
        self.wire = wire
        self._texts = texts
        self._later: list[Statement] = []
        self._ahead: dict[str, tuple[tuple[Any, ...], PGresult | None]] = {}
        """By name: statements that will be asked for, their values, and their results if they have been run."""
        self._last: list[tuple[Statement, Use]] = []
        self.hands_out = False
        """It has handed out jobs, of queues that have no controls."""
        self.loads_later = texts is not READING
        self._carrying: list[Lease] = []
        """Leases that get what they carry when all is committed, and the refs of those that come with the commit."""
        self._handed_out: list[Ref] = []
        self._after: list[tuple[Statement, Use]] = []

    def begin(self, statements: Statements) -> None:
        """One round trip: begin, take the locks, read the clock, and what is expected already."""
        ((now, until, self.arrived, self.completions),) = rows_of(self._run(*statements))
        if self.arrived:
            self._ahead.clear()
        clock = self.database.clock
        self.now, self.steady = (now, now) if clock is None else (clock.now(), clock.steady())
        self.listened = until is not None and until > self.steady

    def commit(self) -> None:
        """Wake the sleepers that this concerns, as soon as it is committed: in the same round trip."""
        last = [statement for statement, _ in self._last]
        narrow = self._texts is NARROW
        if narrow or self.stop or self.queues or self.ended or self.happenings:
            news = Texts(self.queues), Numbers(self.queues.values()), Texts(self.ended), self.stop
            believes = narrow and self.hands_out, narrow and not self.listened, self.steady
            text = "SELECT conclude($1, $2, $3, $4, $5, $6, $7, $8)"
            last.append((text, (*news, bool(self.happenings), *believes)))
        refs = Numbers([*self._handed_out, *(lease.ref for lease in self._carrying)])
        if refs:
            self._after.append(((READING["carried"], (refs,)), self._carry))
        after = [statement for statement, _ in self._after]
        then = (*self.database.begin_reading, *after, ("COMMIT", ())) if after else ()
        results = self._send([*self._later, *last, ("COMMIT", ())], tail=len(last) - len(self._last) + 1, then=then)
        for (_, use), result in zip(self._last, results[len(self._later) :], strict=False):
            use(rows_of(result))
        for (_, use), result in zip(self._after, results[len(results) - 1 - len(after) :], strict=False):
            use(rows_of(result))

    def _carry(self, rows: list[Any]) -> None:
        carried = {seq: rest for seq, *rest in rows}
        for lease in self._carrying:
            lease.body, lease.options, lease.data = carried.get(lease.ref, _GONE)

    def _send(
        self, statements: Statements, *, prepare: bool = True, tail: int = 0, then: Statements = ()
    ) -> list[PGresult]:
        """Run statements in one round trip, or in as many as it takes to send no more at once than a socket takes.

        `tail`: so many of the last ones take the lock of puts and commit, and stay together.
        """
        if self._parcels is None:
            return self.wire.run(statements, prepare=prepare, then=then)
        if not self._parcels:
            with suppress(TooLarge):
                return self.wire.run(statements, prepare=prepare, then=then, at_most=AT_ONCE)
        ready = self._parcels.named(statements)
        before = list(pieces(ready[: len(ready) - tail]))
        last = ready[-tail:] if tail else before.pop()
        results = [result for piece in before for result in self.wire.run(piece, prepare=prepare)]
        return results + self.wire.run(last, prepare=prepare, then=then)

    def _run(self, *statements: Statement, prepare: bool = True) -> PGresult:
        """The last result. What was put off, as its result does not matter, and what is expected goes along."""
        expected = [(name, values) for name, (values, result) in self._ahead.items() if result is None]
        more = [(self._texts[name], values) for name, values in expected]
        results = self._send([*self._later, *statements, *more], prepare=prepare)
        found = zip(expected, results[len(results) - len(more) :], strict=True)
        self._later = []
        self._ahead |= {name: (values, result) for (name, values), result in found}
        return results[-1 - len(more)]

    def _text(self, name: str) -> str:
        self._ahead.clear()
        if name in INTRODUCE:
            self._later.append((self.database.lock(PUTS), ()))
        self.hands_out = self.hands_out or name in HAND_OUT
        return self._known(name)

    def _known(self, name: str) -> str:
        try:
            return self._texts[name]
        except KeyError:
            raise TooNarrow(name) from None

    def rows(self, name: str, values: tuple[Any, ...] = ()) -> list[Any]:
        known, result = self._ahead.pop(name, (None, None))
        if result is None or known != values:
            result = self._run((self._known(name), values))
        return rows_of(result)

    def expect(self, name: str, values: tuple[Any, ...]) -> bool:
        if name not in self._texts:
            return False
        self._ahead.setdefault(name, (values, None))
        return True

    def large(self, name: str, keys: Sequence[Key]) -> dict[Key, Any]:
        if self._large is None:
            return super().large(name, keys)
        if missing := [(name, key) for key in keys if (name, key) not in self._large]:
            raise ReadFirst(missing)
        return {key: self._large[name, key] for key in keys}

    def read_after(self, name: str, values: tuple[Any, ...], use: Use) -> None:
        self._after.append(((READING[name], values), use))

    def print_of(self, data: bytes) -> bytes:
        return sha256(data).digest()

    def load_later(self, leases: Sequence[Lease]) -> None:
        self._carrying += leases

    def hand_out(self, rows: Sequence[tuple[Any, ...]], request: tuple[Any, ...], use: Use) -> None:
        self._handed_out += [ref for ref, *_ in rows]
        self._last.append(((self._text("take_one"), arrays.columns(SETS["take_one"], rows)), use))

    def execute(self, name: str, values: tuple[Any, ...] = ()) -> None:
        self._later.append((self._text(name), values))

    def change(self, name: str, values: tuple[Any, ...] = ()) -> int:
        return self._run((self._text(name), values)).command_tuples or 0

    def change_many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Put off: what a working set changes is locked, so that as many rows change as there are."""
        each = _columns(SETS[name], rows) if name in SETS else rows
        self._later += [(self._text(name), values) for values in each]
        return len(rows)

    def insert(self, name: str, rows: Sequence[tuple[Any, ...]], columns: str) -> list[Any]:
        text = f"{self._text(name)} RETURNING {columns}"
        return [row for values in _columns(SETS[name], rows) for row in rows_of(self._run((text, values)))]

    def find(self, clauses: str, values: tuple[Any, ...]) -> list[Any]:
        marks = _MARK.findall(clauses)
        given = tuple(
            value if mark == "?" else f"^(?:{as_regex(str(value))})$" for mark, value in zip(marks, values, strict=True)
        )
        return rows_of(self._run((f"{self._texts['snapshot']} {_in_its_words(clauses)}", given), prepare=False))

    def absorb(self, refs: Sequence[Ref]) -> dict[Ref, int | None]:
        return dict(rows_of(self._run((self._text("absorb"), (Numbers(refs),)))))

    def array(self, values: Sequence[Ref]) -> object:
        return Texts(map(str, values)) if values and isinstance(values[0], str) else Numbers(values)

    def texts(self, values: Sequence[str]) -> object:
        return Texts(values)

    def pairs(self, values: Sequence[tuple[str, str]]) -> object:
        return json.dumps(values)
