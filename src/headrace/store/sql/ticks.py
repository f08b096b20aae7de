"""Ticks: a schedule's jobs are put when its time has come."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.policies import Overlap
from headrace.records import IfFailed, NewJob, Tick
from headrace.store.facets import Ticked
from headrace.store.sql import put
from headrace.store.sql.codes import BLOCKED, DONE, RUNNING
from headrace.store.sql.lanes import clashes
from headrace.store.sql.schedules import find, keep, next_tick
from headrace.store.sql.transaction import Transaction
from headrace.store.sql.working_set import WorkingSet


def tick(tx: Transaction, ticks: Sequence[Tick]) -> Ticked:
    done = [_tick_one(tx, tick) for tick in ticks]
    return Ticked(now=tx.now, done=done, next_tick=next_tick(tx))


def _tick_one(tx: Transaction, tick: Tick) -> bool:
    known = find(tx, tick.name)
    if known is None or known.version != tick.version:
        return False
    most = known.definition.max_runs
    runs, last_job = known.runs, known.last_job
    for job in tick.jobs:
        if (most is None or runs < most) and _put_job(tx, job, known.definition.overlap, last_job):
            runs, last_job = runs + 1, job.id
    keep(
        tx,
        replace(
            known,
            next=None if most is not None and runs >= most else tick.next,
            runs=runs,
            last_tick=known.last_tick if tick.last_tick is None else tick.last_tick,
            last_job=last_job,
            started=None,
            finished=None,
        ),
    )
    return True


def _put_job(tx: Transaction, job: NewJob, overlap: Overlap, last_job: str | None) -> bool:
    """Put the job of a tick, if its schedule's policy lets it in beside the job before."""
    look = WorkingSet(tx)
    if look.find(job.id) is not None or (job.lane is not None and clashes(look, job.queue, job.lane)):
        return False
    previous = look.find(last_job)
    if overlap is not Overlap.ALLOW and previous is not None and previous.state < DONE:
        if overlap is Overlap.SKIP or (overlap is Overlap.QUEUE and previous.state == BLOCKED):
            return False
        if overlap is Overlap.QUEUE:
            job = replace(job, after=(previous.id,), if_failed=IfFailed.RUN)
        elif previous.state == RUNNING:
            put.cancel(tx, [previous.id])
        else:
            put.delete(tx, [previous.id], "replaced")
    put.put(tx, [job])
    return True
