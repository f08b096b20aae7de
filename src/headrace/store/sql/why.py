"""All there is to say about why a job does not run, in one read transaction."""

from __future__ import annotations

from headrace.records import Snapshot, State
from headrace.store import limits
from headrace.store.facets import Circumstances
from headrace.store.sql import blocks, find, lanes, queues
from headrace.store.sql.codes import AFTER, ALL, DONE, EXPIRES, LANED, STATES
from headrace.store.sql.find import Placement
from headrace.store.sql.sessions import sessions
from headrace.store.sql.transaction import Transaction
from headrace.values.glob import any_fits


def circumstances(tx: Transaction, job_id: str) -> Circumstances | None:
    (snapshot,) = find.get(tx, [job_id])
    if snapshot is None:
        return None
    job = find.find_job(tx, job_id)
    assert job is not None
    control = queues.control(tx, job.queue)
    waits_for, unmet = _unmet(tx, job)
    running: list[tuple[str, str]] = []
    runs = 0
    if control is not None and control.limit is not None:
        running = tx.rows("queue_running_some", (job.queue, limits.SHOWN))
        runs = tx.value("queue_running", (job.queue, ALL))
    in_lane = bool(job.flags & LANED)
    return Circumstances(
        now=tx.now,
        job=snapshot,
        waits_for=waits_for,
        unmet=unmet,
        control=control,
        queue_running=tuple(running),
        queue_runs=runs,
        lane=lanes.snapshot(tx, job.queue, lanes.laned(tx, job.seq).key) if in_lane else None,
        ahead=lanes.ahead(tx, job.seq) if in_lane else None,
        listeners=_listeners(tx, snapshot),
        expires=tx.row(find.StoredExpiry, "expiry_get", (job.seq,)).at if job.flags & EXPIRES else None,
        block=blocks.find(tx, snapshot.task),
    )


def _unmet(tx: Transaction, job: Placement) -> tuple[tuple[tuple[str, State], ...], int]:
    if not job.flags & AFTER or job.state >= DONE:
        return (), 0
    some = tx.rows("waits_for", (job.seq, limits.SHOWN))
    return tuple((parent, STATES[state]) for parent, state in some), tx.value("edges_count", (job.seq,))


def _listeners(tx: Transaction, job: Snapshot) -> tuple[str, ...]:
    names = [
        session.info.name
        for session in sessions(tx)
        if session.alive and any_fits(session.info.queues, job.queue) and job.task in session.info.tasks
    ]
    return tuple(sorted(names)[: limits.SHOWN])
