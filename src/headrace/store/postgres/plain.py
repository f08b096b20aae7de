"""Plain jobs in one round trip: the functions of the schema, and when they are enough.

A function that finds anything beyond plain jobs writes nothing, and the rules do what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq.abc import PGresult

from headrace.errors import StoreError
from headrace.records import Charge, ExchangeReply, Lease, NewJob, Verdict
from headrace.store.postgres.arrays import Numbers, Texts, columns
from headrace.store.postgres.database import Database
from headrace.store.postgres.statements import NOT_PLAIN
from headrace.store.postgres.wire import rows_of
from headrace.store.sql.codes import LARGE_BODY
from headrace.store.sql.settle import Request
from headrace.store.sql.take import WITH_EXTRAS, as_leases, flags_of, leases, queue_of


def put(database: Database, jobs: Sequence[NewJob]) -> bool:
    """Put plain jobs. False: the rules have to."""
    rows = [
        (job.id, job.task, job.queue, job.priority, job.max_crashes, job.body, job.options, job.run_at, job.delay or 0)
        for job in jobs
    ]
    name, values = ("put_one", rows[0]) if len(rows) == 1 else ("put_plain", columns("tttnnbbnn", rows))
    return _or_not(database, name, values) is not None


def _or_not(
    database: Database, name: str, values: tuple[Any, ...], *then: tuple[str, tuple[Any, ...]]
) -> list[PGresult] | None:
    """The results of functions. None: the first took back what it wrote, or there is a job with this id."""
    clock = database.clock
    times = (None, None) if clock is None else (clock.now(), clock.steady())
    try:
        if not then:
            return [database.function(name, (*values, *times))]
        return database.functions((name, (*values, *times)), *then)
    except StoreError as error:
        if isinstance(error.__cause__, psycopg.Error) and error.__cause__.sqlstate in (NOT_PLAIN, "23505"):
            return None
        raise


FEW = 16
"""Leases that are part of the answer that hands them out. More are read when all is committed."""


def exchange(database: Database, request: Request) -> tuple[ExchangeReply, bool] | tuple[()] | None:
    """The reply, and whether it was recorded. Empty, as queues are more than plain, or None: the rules have to."""
    take = request.take
    outcomes = sorted(request.outcomes, key=lambda outcome: outcome.ref)  # rows are locked in this order
    runs = [(o.ref, o.token, o.began, o.ended, o.charge is Charge.ATTEMPT, o.result, o.data) for o in outcomes]
    wanted = Texts(request.names.given), *((0, 0) if take is None else (take.slots, take.spare))
    values = (*columns("nnnnnbb", runs), Numbers(request.started), *wanted, request.steady)
    apart = sum(wanted[1:]) > FEW
    asking = request.session, request.number, request.unrecorded, apart
    later = "leases_of", (request.session, request.number)
    found = _or_not(database, "exchange_plain", (*asking, *values), *([later] if apart else []))
    if found is None or not found[0].ntuples:
        return None if found is None else ()
    (next_due, now, *_, next_tick, _, recorded), *rows = (row for result in found for row in rows_of(result))
    if not apart and any(flags & LARGE_BODY for flags in map(flags_of, rows)):
        rows = rows_of(database.function(*later))
    rows.sort()  # by priority, due and seq, with which a row begins
    if len(wanted[0]) > 1:
        rows.sort(key=lambda row: wanted[0].index(queue_of(row)))
    taken = _leases(database, rows)
    return ExchangeReply([Verdict.OK] * len(outcomes), taken, now, next_due, next_tick), bool(recorded)


def _leases(database: Database, rows: list[Any]) -> list[Lease]:
    if any(flags & WITH_EXTRAS for flags in map(flags_of, rows)):
        return database.read(lambda tx: leases(tx, rows))
    return as_leases(rows)  # nothing needs to be looked up
