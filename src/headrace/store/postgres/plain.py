"""Plain jobs in one round trip: the functions of the schema, and when they are enough.

A function that finds anything beyond plain jobs writes nothing, and the rules do what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import psycopg
from psycopg.pq.abc import PGresult

from headrace.errors import StoreError
from headrace.records import Charge, ExchangeReply, Lease, NewJob, Outcome, Verdict
from headrace.store.postgres.arrays import Numbers, Texts, columns
from headrace.store.postgres.database import Database
from headrace.store.postgres.statements import NOT_PLAIN
from headrace.store.postgres.wire import rows_of
from headrace.store.sql.settle import Request
from headrace.store.sql.take import BESIDE, flags_of, leases, queue_of
from headrace.store.sql.transaction import INLINE, Guards, Transaction


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


def is_plain(request: Request) -> bool:
    """Whether an exchange may be one of plain jobs, as far as the request tells."""
    names, take = request.names, request.take
    if names is not None and (not names.few or (take is not None and take.round_robin and len(names.given) > 1)):
        return False
    outcomes = request.outcomes
    return all(map(_is_simply_done, outcomes)) and len({outcome.ref for outcome in outcomes}) == len(outcomes)


def _is_simply_done(outcome: Outcome) -> bool:
    is_simple = not outcome.kind and outcome.account is None and outcome.base is None
    return is_simple and (outcome.result is None or len(outcome.result) <= INLINE)


def exchange(database: Database, request: Request, guards: Guards) -> tuple[ExchangeReply, bool] | tuple[()] | None:
    """The reply, and whether it was recorded. Empty, as queues are more than plain, or None: the rules have to."""
    take, names = request.take, request.names
    outcomes = sorted(request.outcomes, key=lambda outcome: outcome.ref)  # rows are locked in this order
    runs = [(o.ref, o.token, o.began, o.ended, o.charge is Charge.ATTEMPT, o.result, o.data) for o in outcomes]
    wanted = (Texts(), 0, 0) if take is None or names is None else (Texts(names.given), take.slots, take.spare)
    values = (*columns("nnnnnbb", runs), Numbers(request.started), *wanted, request.steady)
    found = _or_not(database, "exchange_plain", (request.session, request.number, request.unrecorded, *values))
    if found is None or not found.ntuples:
        return None if found is None else ()
    (next_due, now, *_, next_tick, _, recorded), *rows = rows_of(found)
    rows.sort()  # by priority, due and seq, with which a row begins
    if len(wanted[0]) > 1:
        rows.sort(key=lambda row: wanted[0].index(queue_of(row)))
    taken = _leases(database, rows, guards)
    return ExchangeReply([Verdict.OK] * len(outcomes), taken, now, next_due, next_tick), bool(recorded)


def _leases(database: Database, rows: list[Any], guards: Guards) -> list[Lease]:
    if any(flags & BESIDE for flags in map(flags_of, rows)):
        return database.read(lambda tx: leases(tx, rows), guards)
    return leases(cast("Transaction", None), rows)  # nothing needs to be looked up
