"""Looking at jobs, and at the database with SQL. Each function runs inside one read transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, NamedTuple

from msgspec.structs import replace

from headrace.records import Counts, Expiry, Filter, HistoryRecord, IfFailed, Lane, Page, Snapshot, State
from headrace.store.ages import Oldest
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
    STATES,
    TAGGED,
    TRACKED,
    UNIQUE,
)
from headrace.store.sql.lane_rows import Laned
from headrace.store.sql.relation_rows import decode
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
    for found in _found(tx, tx.find("WHERE job.id = ?", (job_id,))):
        return found
    return None


def get(tx: Transaction, ids: Sequence[str]) -> list[Snapshot | None]:
    rows = tx.find("WHERE job.id IN (SELECT value FROM json_each(?/*text*/))", (tx.texts(ids),))
    by_id = {found.snapshot.id: found.snapshot for found in _found(tx, rows)}
    return [by_id.get(job_id) for job_id in ids]


def _found(tx: Transaction, rows: list[Any]) -> list[Found]:
    """From rows of the statement `snapshot`, and what other tables have of these jobs: one statement per table."""
    flags_of = {seq: flags for seq, *_, flags, _ in rows}

    def of(flag: int, statement: str, *values: int) -> list[Any]:
        seqs = [seq for seq, flags in flags_of.items() if flags & flag]
        return tx.rows(statement, (tx.array(seqs), *values)) if seqs else []

    tags: dict[int, list[str]] = {}
    for job, word in of(TAGGED, "tags_of"):
        tags.setdefault(job, []).append(word)
    beside = _Beside(
        {job: bytes(body) for job, body in of(LARGE_BODY, "blobs", BODY)},
        {job: bytes(result) for job, result in of(LARGE_RESULT, "blobs", RESULT)},
        {found.job: found for found in starmap(Recurrence, of(RECURRING, "recurrences"))},
        {job: _POLICIES[if_failed] for job, if_failed, _ in of(AFTER, "relations_some")},
        {job: decode(ids) for job, ids in of(AFTER, "parents_some")},
        dict(of(UNIQUE, "unique_of")),
        tags,
        {found.job: found.wanted for found in starmap(Laned, of(LANED, "laned_some"))},
        {job: Expiry(*columns) for job, *columns in of(EXPIRES, "expiries_of")},
    )
    return [_one(beside, *row) for row in rows]


class _Beside(NamedTuple):
    """What other tables than `job` have of some jobs, by their rows."""

    bodies: dict[int, bytes]
    results: dict[int, bytes]
    recurrences: dict[int, Recurrence]
    policies: dict[int, IfFailed]
    parents: dict[int, tuple[str, ...]]
    keys: dict[int, str]
    tags: dict[int, list[str]]
    lanes: dict[int, Lane]
    expiries: dict[int, Expiry]


def _one(
    beside: _Beside, seq: int, job_id: str, task: str, queue: str, state: int, priority: int, body: bytes,
    options: bytes | None, created: int, due: int, started: int | None, finished: int | None, attempts: int,
    crashes: int, max_crashes: int, token: int, worker: str | None, data: bytes | None, done: float | None,
    total: float | None, result: bytes | None, error: bytes | None, failure: str | None, flags: int,
    deferred_since: int | None,
) -> Found:  # fmt: skip
    """From the columns of the statement `snapshot`, in their order."""
    recurrence = beside.recurrences.get(seq)
    snapshot = Snapshot(
        id=job_id, task=task, queue=queue, state=STATES[state], priority=priority, body=beside.bodies.get(seq, body),
        options=options, created=created, due=due, started=started, finished=finished, attempts=attempts,
        crashes=crashes, max_crashes=max_crashes, token=token, worker=worker or "", data=data,
        progress=None if done is None or total is None else (done, total), result=beside.results.get(seq, result),
        error=error, group=failure, cancelling=bool(flags & CANCELLING), deferred_since=deferred_since,
        unique_key=beside.keys.get(seq), tags=tuple(beside.tags.get(seq, ())), tracked=bool(flags & TRACKED),
        result_dropped=bool(flags & DROPPED), schedule=recurrence and recurrence.schedule,
        tick=recurrence and recurrence.tick, after=beside.parents.get(seq, ()),
        if_failed=beside.policies.get(seq, IfFailed.FAIL), lane=beside.lanes.get(seq),
        expires=beside.expiries.get(seq),
    )  # fmt: skip
    return Found(seq, flags, snapshot)


def has_ended(tx: Transaction, job_id: str) -> bool:
    """Has a job reached a final state, or gone?"""
    state = tx.maybe_value("state_of", (job_id,))
    return state is None or STATES[state].final


LOOKED_AT = 20_000
"""How many jobs one look goes through at most; if they do not fill a page, it is cut short."""
AT_ONCE = 1_000
"""How many of them are looked at by one statement."""


class _Walk(NamedTuple):
    """What a look goes along, newest first: an index that has what is asked for, or all jobs."""

    statement: str
    values: tuple[str, ...]
    rest: Filter
    """What is asked for beyond that."""
    sign: int = 1
    """-1: its index has the negatives of the numbers."""


def find(tx: Transaction, wanted: Filter) -> Page:
    """Newest first. One statement walks along an index, another looks at the jobs that it has met.

    (Together they would be a join. A database that expects few jobs to fit would look for these first, among all.)
    """
    before = int(wanted.after) if wanted.after is not None else 1 << 62
    walk = _walk(wanted)
    conditions, values = _conditions(walk.rest)
    step = AT_ONCE if conditions else wanted.limit + 1
    # Only constants and question marks make up this text.
    fitting = " AND ".join(["job.seq IN (SELECT value FROM json_each(?))", *conditions])
    clauses = f"WHERE {fitting} ORDER BY job.seq DESC LIMIT ?"
    rows: list[Any] = []
    for _ in range(0, LOOKED_AT, step):
        seqs = [seq for (seq,) in tx.rows(walk.statement, (walk.sign * before, step, *walk.values))]
        if seqs:
            rows += tx.find(clauses, (tx.array(seqs), *values, wanted.limit + 1 - len(rows)))
        if len(rows) > wanted.limit:
            found = _found(tx, rows[:-1])
            return Page([job.snapshot for job in found], str(found[-1].seq))
        if len(seqs) < step:
            return Page([job.snapshot for job in _found(tx, rows)], None)
        before = seqs[-1]
    return Page([job.snapshot for job in _found(tx, rows)], str(before))


def _walk(wanted: Filter) -> _Walk:
    if wanted.worker is not None:
        return _Walk("walk_worker", (wanted.worker,), replace(wanted, worker=None))
    if wanted.tag is not None:
        return _Walk("walk_tag", (wanted.tag,), replace(wanted, tag=None))
    if wanted.schedule is not None:
        return _Walk("walk_schedule", (wanted.schedule,), replace(wanted, schedule=None), -1)
    if wanted.tracked:
        return _Walk("walk_tracked", (), replace(wanted, tracked=None))
    if wanted.states == (State.FAILED,):
        if wanted.group is None:
            return _Walk("walk_failed", (), replace(wanted, states=()))
        return _Walk("walk_group", (wanted.group,), replace(wanted, states=(), group=None), -1)
    return _Walk("walk", (), wanted)


def _conditions(wanted: Filter) -> tuple[list[str], list[object]]:
    conditions: list[str] = []
    values: list[object] = []
    if wanted.states:  # (A plus keeps databases from an index, along which they would look at others.)
        numbers = [str(number) for number, state in STATES.items() if state in wanted.states]
        conditions.append(f"+state IN ({', '.join(numbers)})")
    if wanted.tracked is not None:
        conditions.append(f"job.flags & {TRACKED} {'!=' if wanted.tracked else '='} 0")
    for condition, value in (
        ("queue = ?", wanted.queue),
        ("task = ?", wanted.task),
        ("task GLOB ?", wanted.task_like),
        ("failure = ?", wanted.group),
        ("EXISTS (SELECT 1 FROM tag WHERE tag.job = job.seq AND tag.tag = ?)", wanted.tag),
        ("(SELECT schedule FROM recurring WHERE recurring.job = job.seq) = ?", wanted.schedule),
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


def oldest(tx: Transaction) -> Oldest:
    """A job that has fallen due is as good as ready: it waits for a take that puts it in line."""
    first: dict[str, int] = {}
    for queue, state, due in tx.rows("oldest"):
        if due is not None and (state == READY or due <= tx.now):
            first[queue] = min(due, first.get(queue, due))
    return Oldest(tx.now, first)


def history(tx: Transaction, job_id: str) -> list[HistoryRecord]:
    found = by_id(tx, job_id)
    if found is None:
        return []
    recorded = tx.rows("history_of", (found.seq,)) if found.flags & HISTORY else []
    return complete_history(found.snapshot, [HistoryRecord(*line) for line in recorded], tx.number("max-job-history"))


def peek(tx: Transaction, queue: str, limit: int) -> list[Snapshot]:
    """What stands in line, in its order."""
    clauses = f"WHERE state = {READY} AND queue = ? ORDER BY priority DESC, due, job.seq LIMIT ?"
    return [found.snapshot for found in _found(tx, tx.find(clauses, (queue, limit)))]
