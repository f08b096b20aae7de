"""Looking at jobs. Each function runs inside one read transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.job import Counts, Event, Filter, Page, Snapshot, State
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import (
    CANCELLING,
    HISTORY,
    LARGE_BODY,
    LARGE_RESULT,
    STATES,
    UNIQUE,
    Transaction,
)


def get(tx: Transaction, ids: Sequence[str]) -> list[Snapshot | None]:
    statement = f"{SQL['snapshot']} WHERE job.id = ?1"
    found = [tx.rows(statement, (job_id,)) for job_id in ids]
    return [_snapshot(tx, rows[0]) if rows else None for rows in found]


def _snapshot(tx: Transaction, row: tuple[Any, ...]) -> Snapshot:
    (
        seq, job_id, task, queue, state, priority, body, options, created, due, started, finished, attempts, crashes,
        max_crashes, token, worker, data, done, total, result, error, failure, flags, deferred_since,
    ) = row  # fmt: skip
    if flags & LARGE_BODY:
        body = large_value(tx, seq, 0)
    if flags & LARGE_RESULT:
        result = large_value(tx, seq, 1)
    keys = tx.rows(SQL["unique_of"], (seq,)) if flags & UNIQUE else []
    return Snapshot(
        id=job_id, task=task, queue=queue, state=STATES[state], priority=priority, body=body, options=options,
        created=created, due=due, started=started, finished=finished, attempts=attempts, crashes=crashes,
        max_crashes=max_crashes, token=token, worker=worker or "", data=data,
        progress=None if done is None else (done, total), result=result, error=error, group=failure,
        cancelling=bool(flags & CANCELLING), unique_key=keys[0][0] if keys else None, deferred_since=deferred_since,
    )  # fmt: skip


def large_value(tx: Transaction, seq: int, kind: int) -> bytes:
    return bytes(tx.rows(SQL["blob_get"], (seq, kind))[0][0])


def has_work(tx: Transaction, queues: Sequence[str]) -> bool:
    """Is anything ready in these queues, or due?"""
    due = tx.rows(SQL["next_due"])
    return bool(due and due[0][0] <= tx.now) or any(tx.rows(SQL["ready_count"], (queue, 1))[0][0] for queue in queues)


def has_ended(tx: Transaction, job_id: str) -> bool:
    """Has a job reached a final state, or gone?"""
    found = tx.rows(SQL["by_id"], (job_id,))
    return not found or STATES[found[0][1]].final


def find(tx: Transaction, wanted: Filter) -> Page:
    conditions = ["job.seq < ?"]
    values: list[object] = [int(wanted.after) if wanted.after is not None else 1 << 62]
    if wanted.states:
        conditions.append(f"state IN ({', '.join('?' for _ in wanted.states)})")
        values += [STATES.index(state) for state in wanted.states]
    for column, value in (("queue", wanted.queue), ("task", wanted.task), ("failure", wanted.group)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    # Only constants and question marks make up this text.
    statement = f"{SQL['snapshot']} WHERE {' AND '.join(conditions)} ORDER BY job.seq DESC LIMIT ?"
    rows = tx.rows(statement, (*values, wanted.limit + 1))
    jobs = [_snapshot(tx, row) for row in rows[: wanted.limit]]
    return Page(jobs, str(rows[wanted.limit - 1][0]) if len(rows) > wanted.limit else None)


def counts(tx: Transaction) -> list[Counts]:
    queues: dict[str, dict[State, int]] = {}
    for queue, state, number in tx.execute(SQL["counts"]):
        queues.setdefault(queue, {})[STATES[state]] = number
    return [Counts(queue, queues[queue]) for queue in sorted(queues)]


def history(tx: Transaction, job_id: str) -> list[Event]:
    """The beginning and the end are in the job's head; what came between was recorded, if anything."""
    rows = tx.rows(f"{SQL['snapshot']} WHERE job.id = ?1", (job_id,))
    if not rows:
        return []
    job = _snapshot(tx, rows[0])
    events = [Event(job.created, "created")]
    if rows[0][23] & HISTORY:
        recorded = tx.rows(SQL["history_of"], (rows[0][0],))
        events += [Event(at, what, detail, worker) for at, what, detail, worker in recorded]
    last_run = Event(job.started or 0, "started", "", job.worker)
    if job.started is not None and (job.state is State.RUNNING or job.state.final) and last_run not in events:
        # In the order of what happened, not of the clock, which may have been set back. Lines that
        # the last run wrote come after its start.
        place = len(events)
        while events[place - 1].what == "log":
            place -= 1
        events.insert(place, last_run)
    if job.finished is not None:
        events.append(Event(job.finished, job.state.value, job.group or "", job.worker))
    return events
