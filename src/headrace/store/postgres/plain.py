"""Plain jobs in one round trip: the functions of the schema, and when they are enough.

A function that finds anything beyond plain jobs writes nothing, and the rules do what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import msgspec
import psycopg
from psycopg.pq.abc import PGresult

from headrace.errors import StoreError
from headrace.records import Charge, ExchangeReply, Lease, NewJob, Verdict
from headrace.store.postgres.arrays import Numbers, Texts, columns
from headrace.store.postgres.database import Database
from headrace.store.postgres.statements import NOT_PLAIN
from headrace.store.postgres.wire import rows_of
from headrace.store.sql import settle
from headrace.store.sql.settle import Request
from headrace.store.sql.take import BESIDE, flags_of, leases, queue_of
from headrace.store.sql.transaction import Step, Transaction

Told: TypeAlias = tuple[int | None, int | None]
"""When the next job falls due and the next schedule ticks, as a worker's last exchange was told."""


class Exchange(Step[ExchangeReply]):
    """An exchange of a worker."""

    __slots__ = ("asked", "request")
    then: Callable[[ExchangeReply], None]

    def __init__(self, request: Request, then: Callable[[ExchangeReply], None]) -> None:
        super().__init__(lambda tx: settle.exchange(tx, request), then=then)
        self.ahead = lambda tx: settle.expect(tx, request)
        self.request = request
        self.asked = False
        """Its worker sleeps, or has: a put may answer it."""

    def answered(self, answer: str, told: Told) -> ExchangeReply | None:
        """The reply that a put has given, from the words of the wake-up. None: it was to another request."""
        number, now, max_crashes, body, options, *names = msgspec.json.decode(answer)
        if number != self.request.number:
            return None
        row = (*names, bytes.fromhex(body), options and bytes.fromhex(options), None, 0, 0, max_crashes, now, None, 0)
        reply = ExchangeReply([], leases(cast("Transaction", None), [row]), now, *told)
        self.then(reply)
        return reply


def put(database: Database, jobs: Sequence[NewJob]) -> bool:
    """Put plain jobs. False: the rules have to."""
    rows = [
        (job.id, job.task, job.queue, job.priority, job.max_crashes, job.body, job.options, job.run_at, job.delay or 0)
        for job in jobs
    ]
    name, values = ("put_one", rows[0]) if len(rows) == 1 else ("put_plain", columns("tttnnbbnn", rows))
    return _or_not(database, name, values) is not None


def _or_not(database: Database, name: str, values: tuple[Any, ...]) -> PGresult | None:
    """The result of a function. None: it has taken back what it wrote, or there is a job with this id."""
    clock = database.clock
    times = (None, None) if clock is None else (clock.now(), clock.steady())
    try:
        return database.function(name, (*values, *times))
    except StoreError as error:
        if isinstance(error.__cause__, psycopg.Error) and error.__cause__.sqlstate in (NOT_PLAIN, "23505"):
            return None
        raise


def exchange(database: Database, step: Exchange) -> tuple[ExchangeReply, bool] | tuple[()] | None:
    """The reply, and whether it was recorded. Empty, as queues are more than plain, or None: the rules have to.

    One that was asked is recorded: from then on no put can answer it.
    """
    request = step.request
    take = request.take
    outcomes = sorted(request.outcomes, key=lambda outcome: outcome.ref)  # rows are locked in this order
    runs = [(o.ref, o.token, o.began, o.ended, o.charge is Charge.ATTEMPT, o.result, o.data) for o in outcomes]
    wanted = Texts(request.names.given), *((0, 0) if take is None else (take.slots, take.spare))
    values = (*columns("nnnnnbb", runs), Numbers(request.started), *wanted, request.steady)
    asking = request.session, request.number, request.unrecorded, step.asked
    found = _or_not(database, "exchange_plain", (*asking, *values))
    if found is None or not found.ntuples:
        return None if found is None else ()
    (next_due, now, *_, next_tick, _, recorded), *rows = rows_of(found)
    rows.sort()  # by priority, due and seq, with which a row begins
    if len(wanted[0]) > 1:
        rows.sort(key=lambda row: wanted[0].index(queue_of(row)))
    taken = _leases(database, rows)
    return ExchangeReply([Verdict.OK] * len(outcomes), taken, now, next_due, next_tick), bool(recorded)


def _leases(database: Database, rows: list[Any]) -> list[Lease]:
    if any(flags & BESIDE for flags in map(flags_of, rows)):
        return database.read(lambda tx: leases(tx, rows))
    return leases(cast("Transaction", None), rows)  # nothing needs to be looked up
