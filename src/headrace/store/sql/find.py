"""Looking at jobs, and at the database with SQL. Each function runs inside one read transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.records import Counts, Expiry, Filter, HistoryRecord, IfFailed, Page, Snapshot, State
from headrace.store.history import complete_history
from headrace.store.sql.codes import (
    AFTER,
    BODY,
    CANCELLING,
    DROPPED,
    EXPIRES,
    HISTORY,
    LANED,
    LARGE_BODY,
    LARGE_RESULT,
    READY,
    RECURRING,
    RESULT,
    RUNNING,
    STATES,
    TAGGED,
    TRACKED,
    UNIQUE,
)
from headrace.store.sql.lanes import laned
from headrace.store.sql.relation_rows import Relation
from headrace.store.sql.relations import POLICIES
from headrace.store.sql.transaction import Transaction
from headrace.store.sql.working_set import Recurrence

_POLICIES = {code: policy for policy, code in POLICIES.items()}


class Found(NamedTuple):
    """A job that was looked up, its row's number and flags."""

    seq: int
    flags: int
    snapshot: Snapshot


def by_id(tx: Transaction, job_id: str) -> Found | None:
    for row in tx.find("WHERE job.id = ?", (job_id,)):
        return _found(tx, *row)
    return None


def get(tx: Transaction, ids: Sequence[str]) -> list[Snapshot | None]:
    return [None if (found := by_id(tx, job_id)) is None else found.snapshot for job_id in ids]


def _found(
    tx: Transaction, seq: int, job_id: str, task: str, queue: str, state: int, priority: int, body: bytes,
    options: bytes | None, created: int, due: int, started: int | None, finished: int | None, attempts: int,
    crashes: int, max_crashes: int, token: int, worker: str | None, data: bytes | None, done: float | None,
    total: float | None, result: bytes | None, error: bytes | None, failure: str | None, flags: int,
    deferred_since: int | None,
) -> Found:  # fmt: skip
    """From the columns of the statement `snapshot`, in their order."""
    if flags & LARGE_BODY:
        body = large_value(tx, seq, BODY)
    if flags & LARGE_RESULT:
        result = large_value(tx, seq, RESULT)
    recurrence = tx.row(Recurrence, "recurrences", (tx.array([seq]),)) if flags & RECURRING else None
    relation = tx.row(Relation, "relations_some", (tx.array([seq]),)) if flags & AFTER else None
    snapshot = Snapshot(
        id=job_id, task=task, queue=queue, state=STATES[state], priority=priority, body=body, options=options,
        created=created, due=due, started=started, finished=finished, attempts=attempts, crashes=crashes,
        max_crashes=max_crashes, token=token, worker=worker or "", data=data,
        progress=None if done is None or total is None else (done, total), result=result, error=error, group=failure,
        cancelling=bool(flags & CANCELLING), deferred_since=deferred_since,
        unique_key=tx.maybe_value("unique_of", (seq,)) if flags & UNIQUE else None,
        tags=tuple(word for (word,) in tx.rows("tags_of", (seq,))) if flags & TAGGED else (),
        tracked=bool(flags & TRACKED),
        result_dropped=bool(flags & DROPPED),
        schedule=recurrence and recurrence.schedule, tick=recurrence and recurrence.tick,
        after=() if relation is None else relation.ids,
        if_failed=IfFailed.FAIL if relation is None else _POLICIES[relation.if_failed],
        lane=laned(tx, seq).definition if flags & LANED else None,
        expires=tx.row(Expiry, "expiry_get", (seq,)) if flags & EXPIRES else None,
    )  # fmt: skip
    return Found(seq, flags, snapshot)


def large_value(tx: Transaction, seq: int, kind: int) -> bytes:
    return bytes(tx.value("blob_get", (seq, kind)))


def has_ended(tx: Transaction, job_id: str) -> bool:
    """Has a job reached a final state, or gone?"""
    state = tx.maybe_value("state_of", (job_id,))
    return state is None or STATES[state].final


LOOKED_AT = 20_000
"""How many jobs one look goes through at most; if they do not fill a page, it is cut short."""


def find(tx: Transaction, wanted: Filter) -> Page:
    """Newest first: along an index if what is asked for has one, else along all jobs, so many at a look."""
    before = int(wanted.after) if wanted.after is not None else 1 << 62
    join, place = _index(wanted)
    conditions, values = _conditions(wanted)
    floor = None
    if conditions and not place:
        floor = tx.maybe_value("floor", (before, LOOKED_AT))
        if floor is not None:
            conditions.append("job.seq >= ?")
            values.append(floor)
    place = place or "job.seq"
    # Only constants and question marks make up this text.
    where = " AND ".join([f"{place} < ?", *conditions])
    clauses = f"{join} WHERE {where} ORDER BY {place} DESC LIMIT ?"
    rows = tx.find(clauses, (before, *values, wanted.limit + 1))
    found = [_found(tx, *row) for row in rows[: wanted.limit]]
    cursor = found[-1].seq if len(rows) > wanted.limit else floor
    return Page([job.snapshot for job in found], None if cursor is None else str(cursor))


def _index(wanted: Filter) -> tuple[str, str]:
    """What to join, and the column to walk along; nothing if there is no index for this."""
    if wanted.tag is not None:
        return "JOIN tag ON tag.job = job.seq", "tag.job"
    if wanted.tracked:
        return "JOIN tracked ON tracked.job = job.seq", "tracked.job"
    if (
        wanted.schedule is not None
        or wanted.worker is not None
        or (wanted.group is not None and wanted.states == (State.FAILED,))
    ):
        return "", "job.seq"
    return "", ""


def _conditions(wanted: Filter) -> tuple[list[str], list[object]]:
    conditions: list[str] = []
    values: list[object] = []
    if wanted.states:
        numbers = [
            str(number) for number, state in STATES.items() if state in wanted.states
        ]  # written out, to fit the indexes of states
        conditions.append(f"state = {numbers[0]}" if len(numbers) == 1 else f"state IN ({', '.join(numbers)})")
    if wanted.worker is not None:
        conditions.append(f"state = {RUNNING}")
    if wanted.tracked is not None:
        conditions.append(f"job.flags & {TRACKED} {'!=' if wanted.tracked else '='} 0")
    for condition, value in (
        ("queue = ?", wanted.queue),
        ("task = ?", wanted.task),
        ("task GLOB ?", wanted.task_like),
        ("failure = ?", wanted.group),
        ("tag.tag = ?", wanted.tag),
        ("job.seq IN (SELECT job FROM recurring WHERE schedule = ?)", wanted.schedule),
        ("job.session IN (SELECT seq FROM session WHERE closed IS NULL AND name = ?)", wanted.worker),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    return conditions, values


def counts(tx: Transaction) -> list[Counts]:
    queues: dict[str, dict[State, int]] = {}
    for queue, state, number in tx.rows("counts"):
        queues.setdefault(queue, {})[STATES[state]] = number
    return [Counts(queue, queues[queue]) for queue in sorted(queues)]


def history(tx: Transaction, job_id: str) -> list[HistoryRecord]:
    found = by_id(tx, job_id)
    if found is None:
        return []
    recorded = tx.rows("history_of", (found.seq,)) if found.flags & HISTORY else []
    return complete_history(found.snapshot, [HistoryRecord(*line) for line in recorded], tx.number("max-job-history"))


def peek(tx: Transaction, queue: str, limit: int) -> list[Snapshot]:
    """What stands in line, in its order."""
    clauses = f"WHERE state = {READY} AND queue = ? ORDER BY priority DESC, due, job.seq LIMIT ?"
    return [_found(tx, *row).snapshot for row in tx.find(clauses, (queue, limit))]
