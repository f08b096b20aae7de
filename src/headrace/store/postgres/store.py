"""The PostgreSQL store: jobs in a schema of a database that is there already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec
from psycopg.errors import LockNotAvailable

from headrace.errors import StoreBusy, StoreReadOnly, UniqueBusy
from headrace.records import ExchangeReply, NewJob, Put, Ref, Token
from headrace.store import limits
from headrace.store.contract import Durability, Guard, NoGuard, Operation, Swept, Waiter
from headrace.store.facets import Rows
from headrace.store.pools import Pool, awaited_by
from headrace.store.postgres import calling, doctor, opening, plain, queries, within
from headrace.store.postgres.address import parse
from headrace.store.postgres.arrays import Numbers, Texts
from headrace.store.postgres.database import Database, PostgresTransaction
from headrace.store.postgres.statements import CLIENT, SUBSCRIBER
from headrace.store.postgres.wakeup import Wakeups
from headrace.store.postgres.wire import rows_of
from headrace.store.postgres.within import Within
from headrace.store.sql import batches, find, settle, sweep
from headrace.store.sql.sessions import Stops
from headrace.store.sql.store import SqlStore
from headrace.store.sql.take import Names, has_work
from headrace.store.sql.transaction import NoGuards, Step, Transaction, is_plain
from headrace.store.urls import HiddenUrl
from headrace.values.clock import Clock, SystemClock

__all__ = ["PostgresStore"]

T = TypeVar("T")

PLAIN_AT_ONCE = 10_000
"""So many plain jobs are put in one transaction."""


@dataclass(slots=True)
class _Quick(Operation[T], Generic[T]):
    """An operation that may be one round trip: an attempt, and what is to be run if that returns None."""

    attempt: Callable[[], T | None]
    otherwise: Callable[[], Operation[T]]


class PostgresStore(SqlStore):
    """Jobs in PostgreSQL: `postgresql://user@host/database?schema=headrace`.

    Stores with different schemas share a database and nothing else. The server's clock is the one that counts; `clock`
    is for tests. `pool` lends connections. `keep_done`, `keep_failed` (milliseconds) and `keep_count` go before what
    the store's settings say.
    """

    put_at_once = None
    url = HiddenUrl()

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        pool: object | None = None,
        keep_done: int | None = None,
        keep_failed: int | None = None,
        keep_count: int | None = None,
    ) -> None:
        super().__init__()
        self.url = url
        address = parse(url)
        self.schema = address.schema
        lending = None if pool is None else Pool(pool)
        self.database = Database(address, None if isinstance(clock, SystemClock) else clock, lending)
        self._overrides = sweep.Overrides(keep_done, keep_failed, keep_count, sweep.Surplus())
        self._guards = NoGuards()
        self._wakeups = Wakeups(self.database, self._wake_for_work)
        self._expected: dict[str, tuple[int | None, int | None]] = {}
        """By session: when the next job falls due and the next schedule ticks, as its last exchange was told."""
        try:
            opening.migrate(self.database)
        except BaseException:
            self.database.close()
            raise
        self._place = ""
        self._by_rules = 0

    @property
    def durability(self) -> Durability:
        return doctor.facts(self.database).durability

    @property
    def server_version(self) -> str:
        """For `headrace doctor`."""
        return doctor.facts(self.database).version

    def advice(self) -> list[str]:
        known = doctor.facts(self.database)
        polls = not known.reads_only and self._wakeups.deaf  # a standby can't listen, which is the least of it
        return [*super().advice(), *doctor.advice(self.database, known, polls=polls)]

    # -- running --

    def run(self, operation: Operation[T]) -> T:
        if isinstance(operation, _Quick):
            answer: T | None = operation.attempt()
            return super().run(operation.otherwise()) if answer is None else answer
        if not isinstance(operation, Within):
            return super().run(operation)
        call = self._call(operation)
        with within.explained(self.database.where):
            found = calling.run(operation.connection, call)
        return cast("T", operation.answer(msgspec.json.decode(found)))

    async def arun(self, operation: Operation[T]) -> T:
        before = awaited_by.set(asyncio.get_running_loop())
        try:
            if not isinstance(operation, Within):
                return await super().arun(operation)
            call = await asyncio.to_thread(self._call, operation)
        finally:
            awaited_by.reset(before)
        with within.explained(self.database.where):
            found = await calling.arun(operation.connection, call)
        return cast("T", operation.answer(msgspec.json.decode(found)))

    def _call(self, operation: Within[T]) -> calling.Call:
        if operation.before is not None:
            self.run(Step(operation.before, writes=False))
        if not self._place:
            self._place = self.run(Step(lambda tx: str(tx.value("place")), writes=False))
        clock = self.database.clock
        now = None if clock is None else clock.now()
        return operation.call(self.database.quoted, place=self._place, now=now, wait=str(self.database.unique_wait))

    def _read(self, work: Callable[[Transaction], T], *, listened: bool = False) -> T:
        found = self.database.read(lambda tx: None if tx.arrived else (work(tx),), self._guards)
        if found is None:
            with suppress(StoreReadOnly):
                self._write(Step(lambda _: None))  # brings in what has arrived
            found = self.database.read(lambda tx: (work(tx),), self._guards)
        return found[0]

    def _write(self, step: Step[T]) -> T:
        def work(tx: PostgresTransaction) -> T:
            if tx.arrived:
                within.admit(tx)
            return self._work(step, tx)

        try:
            return self.database.write(work, self._guards, step.keys, step.ahead)
        except StoreBusy as error:
            if step.keys and isinstance(error.__cause__, LockNotAvailable):
                raise UniqueBusy(within.BUSY) from error
            raise

    def close(self) -> None:
        self._wakeups.close()
        self.database.close()

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        if not all(map(is_plain, limits.without_nul(jobs))) or not 0 < len(jobs) <= PLAIN_AT_ONCE:
            return within.locking(jobs, batches.put(jobs))
        answers = [Put(job.id, True) for job in jobs]
        return _Quick(lambda: answers if plain.put(self.database, jobs) else None, lambda: batches.put(jobs))

    def put_within(self, connection: object, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        return within.put(connection, jobs)

    def known_within(self, connection: object, ids: Sequence[str]) -> Operation[list[bool]]:
        return within.known(connection, ids)

    def complete(
        self, lease: tuple[Ref, Token, str], result: bytes | None, connection: object | None = None
    ) -> Operation[bool]:
        if connection is None:
            return Step(lambda tx: settle.complete(tx, lease, result))
        return within.complete(connection, lease, result)

    def sql(self, query: str, values: Sequence[Any]) -> Operation[Rows]:
        return Step(lambda tx: queries.run(tx, query, values), writes=False)

    def event_waiter(self) -> Waiter:
        return self._wakeups.waiter(SUBSCRIBER, self._look_for_events())

    def job_waiter(self, job_id: str) -> Waiter:
        return self._wakeups.waiter(CLIENT, lambda: self._look(lambda tx: find.has_ended(tx, job_id)), job=job_id)

    # -- workers --

    def guard(self, session: str) -> Guard:
        return NoGuard()

    def _exchange(self, request: settle.Request) -> Operation[ExchangeReply]:
        def attempt() -> ExchangeReply | None:
            done = plain.exchange(self.database, request, self._guards)
            if not done:
                self._by_rules = 0 if done is None else 7  # the queues are more than plain, and will be for a while
                return None
            reply, recorded = done
            if not recorded:
                self._unrecorded[request.session] = request.number
            self._note(request, reply)
            return reply

        def by_rules() -> Step[ExchangeReply]:
            step = Step(lambda tx: settle.exchange(tx, request), then=lambda reply: self._note(request, reply))
            step.ahead = lambda tx: settle.expect(tx, request)
            return step

        if self._by_rules or not plain.is_plain(request):
            self._by_rules = max(0, self._by_rules - 1)
            return by_rules()
        return _Quick(attempt, by_rules)

    def _note(self, request: settle.Request, reply: ExchangeReply) -> None:
        """What a worker has been told: later news is news, and a worker that is full is not woken for work."""
        take = request.take
        self._expected[request.session] = reply.next_due, reply.next_tick
        self._wakeups.fill(request.session, take is None or len(reply.leases) >= take.slots)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        names, stops = Names(queues), Stops(session)

        def look(tx: Transaction) -> bool:
            next_due, next_tick = self._expected.get(session, (None, None))
            if self._wakeups.deaf and stops(tx):
                return True
            return not waiter.full and (
                has_work(tx, names)
                or _sooner(tx.maybe_value("next_due"), next_due)
                or _sooner(tx.maybe_value("next_tick"), next_tick)
            )

        waiter = self._wakeups.worker(session, names.given, lambda: self._look(look))
        return waiter

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        self._expected.pop(session, None)
        return super().close_session(session, crashed=crashed)

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        clock = self.database.clock

        def work(tx: Transaction) -> Swept:
            swept = sweep.sweep(tx, self._overrides)
            if swept.more:
                tx.execute("sweep_again")
            return swept

        def attempt() -> Swept | None:
            ((claimed,),) = rows_of(self.database.function("claim_sweep", (every or 0, clock and clock.steady())))
            if every is not None and not claimed:
                return self._run(Step(sweep.swept_already, writes=False))
            return None

        def look(tx: Transaction) -> Swept | None:
            return sweep.nothing_to_sweep(tx, self._overrides)

        return _Quick(attempt, lambda: Step(work, try_read_only=look, then=lambda _: self._wake_for_work()))

    def _wake_for_work(self) -> None:
        """Work whose wake-up was lost waits no longer than to the next sweep."""
        ((asleep,),) = rows_of(self.database.function("forget_waiters", ()))
        if asleep and (found := self._find_work()):
            values = (Texts(found), Numbers(found.values()), Texts(), False, False)
            self.database.function("wake", values)


def _sooner(moment: int | None, expected: int | None) -> bool:
    return moment is not None and (expected is None or moment < expected)
