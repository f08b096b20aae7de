"""The PostgreSQL store: jobs in a schema of a database that is there already."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from headrace.errors import MaybeApplied, StoreBusy, StoreError, StoreReadOnly, UniqueBusy
from headrace.records import ExchangeReply, NewJob, Put, Ref, Token
from headrace.store import limits
from headrace.store.contract import Durability, Guard, NoGuard, Operation, Swept, Waiter
from headrace.store.facets import Rows
from headrace.store.pools import Pool, awaited_by
from headrace.store.postgres import calling, doctor, opening, plain, queries, troubles, within
from headrace.store.postgres.address import parse
from headrace.store.postgres.arrays import Numbers, Texts
from headrace.store.postgres.database import Database, Known, PostgresTransaction, ReadFirst, Work
from headrace.store.postgres.statements import CLIENT, FOLDED_AT_ONCE, SUBSCRIBER, WORKER
from headrace.store.postgres.wakeup import Wakeups
from headrace.store.postgres.wire import rows_of
from headrace.store.postgres.within import Within
from headrace.store.sql import batches, failing, find, settle, sweep
from headrace.store.sql.sessions import Stops
from headrace.store.sql.store import SqlStore
from headrace.store.sql.take import Names, has_work
from headrace.store.sql.transaction import Step, Steps, TooNarrow, Transaction, is_plain
from headrace.store.urls import HiddenUrl
from headrace.values.clock import Clock, SystemClock

__all__ = ["PostgresStore"]

T = TypeVar("T")

PLAIN_AT_ONCE = 10_000
"""So many plain jobs are put in one transaction."""
BY_RULES = 7
"""So many requests are left to the rules at once after one that had to be: one that is taken back costs as much."""
FOLDS = 1 / 500
"""So many of the puts with tags add up counts of tags: there may be no worker that sweeps."""


class PostgresStore(SqlStore):
    """Jobs in PostgreSQL: `postgresql://user@host/database?schema=headrace`.

    Stores with different schemas share a database and nothing else. The server's clock is the one that counts; `clock`
    is for tests. `pool` lends connections. `create`: whether a schema that is not there is created: at once, by what
    first writes (None), or never; without one, a look is refused. `keep_done`, `keep_failed` (milliseconds) and
    `keep_count` go before what the store's settings say.
    """

    url = HiddenUrl()

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        pool: object | None = None,
        create: bool | None = True,
        keep_done: int | None = None,
        keep_failed: int | None = None,
        keep_count: int | None = None,
    ) -> None:
        super().__init__(keep_done, keep_failed, keep_count)
        self.url = url
        address = parse(url)
        self.schema = address.schema
        lending = None if pool is None else Pool(pool)
        self.database = Database(address, None if isinstance(clock, SystemClock) else clock, lending)
        self._wakeups = Wakeups(self.database, self._wake_for_work)
        self._may_create = create is not False
        try:
            self._place = opening.create(self.database) if create else opening.find(self.database)
        except BaseException:
            self.database.close()
            raise
        self._by_rules = self._puts_by_rules = self._too_narrow = 0

    @property
    def durability(self) -> Durability:
        return doctor.facts(self.database).durability

    @property
    def server_version(self) -> str:
        """For `headrace doctor`."""
        return doctor.facts(self.database).version

    def advice(self) -> list[str]:
        known = doctor.facts(self.database)
        if known.reads_only:  # a standby can't listen, which is the least of it
            return [*super().advice(), *doctor.advice(self.database, known)]
        heard = doctor.Hearing(self._wakeups.deaf, doctor.deafened(self.database))
        return [*super().advice(), *doctor.advice(self.database, known, heard)]

    # -- running --

    def create(self) -> None:
        """Create the schema unless it is there."""
        if not self._place and self._may_create:
            self._place = opening.create(self.database)
        self._require()

    def _require(self) -> None:
        self._place = self._place or opening.find(self.database)  # (another process may have created it meanwhile)
        if not self._place:
            raise opening.missing(self.database)

    def run(self, operation: Operation[T]) -> T:
        if not self._place:
            self._require() if isinstance(operation, Step) and not operation.writes else self.create()
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
            if not self._place:
                await asyncio.to_thread(self.create)
            call = await asyncio.to_thread(self._call, operation)
        finally:
            awaited_by.reset(before)
        with within.explained(self.database.where):
            found = await calling.arun(operation.connection, call)
        return cast("T", operation.answer(msgspec.json.decode(found)))

    def _call(self, operation: Within[T]) -> calling.Call:
        if operation.before is not None:
            self.run(Step(operation.before, writes=False))
        clock = self.database.clock
        more = {"place": self._place, "now": clock and clock.now(), "wait": str(self.database.unique_wait)}
        document = msgspec.json.encode({**operation.document, **more}).decode()
        return calling.Call(f"{self.database.quoted}.{operation.function}", document)

    def _read(self, work: Callable[[Transaction], T], *, listened: bool = False) -> T:
        found = self.database.read(lambda tx: None if tx.arrived else (work(tx),))
        if found is None:
            with suppress(StoreReadOnly):
                self._write(Step(lambda _: None))  # brings in what has arrived
            found = self.database.read(lambda tx: (work(tx),))
        return found[0]

    def _write(self, step: Step[T]) -> T:
        arrived: list[Any] = []

        def work(tx: PostgresTransaction) -> T:
            if tx.arrived and not arrived:
                raise within.Unread
            if tx.arrived:
                within.admit(tx, arrived)
            return self._work(step, tx)

        def narrow(tx: PostgresTransaction) -> T:
            if tx.arrived and step.admits:
                raise TooNarrow
            return self._work(step, tx)

        cut, known = False, Known()
        while True:
            try:
                return self._commit(step, work, narrow, known)
            except within.Unread:
                arrived += self.database.read(within.arrivals)
            except ReadFirst as error:
                known |= self.database.read(lambda tx, error=error: error.values(tx))  # type: ignore[misc]
            except MaybeApplied:
                if cut or not step.repeatable:
                    raise
                cut = True

    def _commit(self, step: Step[T], work: Work[T], narrow: Work[T], known: Known) -> T:
        write = partial(self.database.write, keys=step.keys, ahead=step.ahead, large=step.large(), known=known)
        try:
            if step.narrow:
                with suppress(TooNarrow):
                    return write(narrow, narrow=True)
                self._too_narrow = BY_RULES * step.admits
            return write(work)
        except StoreBusy as error:
            if troubles.waits_for_key(error.__cause__):
                raise UniqueBusy(f"{within.BUSY} {self.database.blockers()}".strip()) from error
            raise

    def close(self) -> None:
        self._wakeups.close()
        self.database.close()

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        if not all(map(is_plain, limits.without_nul(jobs))) or not 0 < len(jobs) <= PLAIN_AT_ONCE:
            operation = within.locking(jobs, batches.put(jobs))
            if isinstance(operation, Step) and any(job.tags for job in jobs) and random.random() < FOLDS:  # noqa: S311
                operation.then = lambda _: self._fold_tags()
            return operation

        def attempt() -> list[Put] | None:
            if plain.put(self.database, jobs):
                return [Put(job.id, True) for job in jobs]
            self._puts_by_rules = BY_RULES
            return None

        putting = Steps(lambda: within.locking(jobs, batches.put_plain(jobs)).steps())  # made if it takes the rules
        if self._puts_by_rules:
            self._puts_by_rules -= 1
        else:
            putting.attempt = attempt
        return putting

    def put_within(self, connection: object, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        return within.put(connection, jobs)

    def known_within(self, connection: object, ids: Sequence[str]) -> Operation[list[bool]]:
        return within.known(connection, ids)

    def _complete_within(self, connection: object, lease: tuple[Ref, Token, str], result: bytes | None) -> Within[bool]:
        return within.complete(connection, lease, result)

    def sql(self, query: str, values: Sequence[Any]) -> Operation[Rows]:
        return Step(lambda tx: queries.run(tx, query, values), writes=False)

    def event_waiter(self) -> Waiter:
        return self._wakeups.waiter(SUBSCRIBER, self._look_for_events())

    def job_waiter(self, job_id: str) -> Waiter:
        return self._wakeups.waiter(CLIENT, lambda: self._look(lambda tx: find.has_ended(tx, job_id)), job_id)

    # -- workers --

    def guard(self, session: str) -> Guard:
        return NoGuard()

    def _exchange(self, request: settle.Request) -> Operation[ExchangeReply]:
        def attempt() -> ExchangeReply | None:
            done = plain.exchange(self.database, request)
            if not done:
                self._by_rules = 0 if done is None else BY_RULES  # the queues will be more than plain for a while
                return None
            reply, recorded = done
            if not recorded:
                self._unrecorded[request.session] = request.number
            self._wakeups.note(request, reply)
            return reply

        step = Step(lambda tx: settle.exchange(tx, request), then=lambda reply: self._wakeups.note(request, reply))
        step.ahead = lambda tx: settle.expect(tx, request)
        step.large = lambda: (value for outcome in request.outcomes for value in settle.written(outcome))
        step.narrow = not self._too_narrow
        self._too_narrow = max(0, self._too_narrow - 1)
        if self._by_rules or not settle.is_plain(request):
            self._by_rules = max(0, self._by_rules - 1)
        else:
            step.attempt = attempt
        return step

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        names, stops = Names(queues), Stops(session)

        def look(tx: Transaction) -> bool:
            if self._wakeups.deaf and stops(tx):
                return True
            moments = tx.maybe_value("next_due"), tx.maybe_value("next_tick")
            return not waiter.full and (has_work(tx, names) or any(map(_sooner, moments, waiter.told)))

        waiter = self._wakeups.waiter(WORKER, lambda: self._look(look), session, names.given)
        return waiter

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        clock = self.database.clock

        def work(tx: Transaction) -> Swept:
            swept = sweep.sweep(tx, self._retention)
            tx.execute("stat_fold")
            tx.execute("tags_fold")
            tx.execute("completions_forget")
            failing.fold(tx, FOLDED_AT_ONCE)
            if swept.more:
                tx.execute("sweep_again")
            return swept

        def attempt() -> Swept | None:
            ((claimed,),) = rows_of(self.database.function("claim_sweep", (every or 0, clock and clock.steady())))
            if every is not None and not claimed:
                return self._run(Step(sweep.swept_already, writes=False))
            return None

        def nothing(tx: Transaction) -> Swept | None:
            return None if tx.rows("unfolded") else sweep.nothing_to_sweep(tx, self._retention)

        step = Step(work, try_read_only=nothing, then=lambda _: self._wake_for_work())
        step.attempt = attempt
        return step

    def _fold_tags(self) -> None:
        """Add up counts of tags that were appended, which sweeps do where there are workers."""
        with suppress(StoreError):  # the put is done, and the next one may fold
            self.database.function("fold_tags", ())

    def _wake_for_work(self) -> None:
        """Work whose wake-up was lost waits no longer than to the next sweep."""
        ((asleep,),) = rows_of(self.database.function("forget_waiters", ()))
        if asleep and (found := self._find_work()):
            values = (Texts(found), Numbers(found.values()), Texts(), False, False)
            self.database.function("wake", values)


def _sooner(moment: int | None, expected: int | None) -> bool:
    return moment is not None and (expected is None or moment < expected)
