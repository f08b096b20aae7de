"""All there is to say about why a job does not run, in one read transaction."""

from __future__ import annotations

from headrace.records import State
from headrace.store import limits
from headrace.store.facets import Circumstances
from headrace.store.sql import blocks, find, lanes, queues
from headrace.store.sql.codes import AFTER, ALL, EXPIRES, STATES
from headrace.store.sql.find import Found
from headrace.store.sql.sessions import listeners
from headrace.store.sql.transaction import Transaction


def circumstances(tx: Transaction, job_id: str) -> Circumstances | None:
    found = find.by_id(tx, job_id)
    if found is None:
        return None
    job = found.snapshot
    control = queues.control(tx, job.queue)
    waits_for, unmet = _unmet(tx, found)
    running: list[tuple[str, str]] = []
    runs = 0
    if control is not None and control.limit is not None:
        running = tx.rows("queue_running_some", (job.queue, limits.SHOWN))
        runs = tx.value("queue_running", (job.queue, ALL))
    return Circumstances(
        now=tx.now,
        job=job,
        waits_for=waits_for,
        unmet=unmet,
        control=control,
        queue_running=tuple(running),
        queue_runs=runs,
        lane=None if job.lane is None else lanes.snapshot(tx, job.queue, job.lane.key),
        ahead=None if job.lane is None else lanes.ahead(tx, found.seq),
        listeners=tuple(sorted(listeners(tx, job.queue, job.task))[: limits.SHOWN]),
        expires=tx.value("expires_at", (found.seq,)) if found.flags & EXPIRES else None,
        block=blocks.find(tx, job.task),
    )


def _unmet(tx: Transaction, job: Found) -> tuple[tuple[tuple[str, State], ...], int]:
    if not job.flags & AFTER or job.snapshot.state.final:
        return (), 0
    some = tx.rows("waits_for", (job.seq, limits.SHOWN))
    return tuple((parent, STATES[state]) for parent, state in some), tx.value("edges_count", (job.seq,))
