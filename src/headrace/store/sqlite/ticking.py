"""Ticks: the jobs of schedules, put by whoever comes first. Runs inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.records import IfFailed, NewJob
from headrace.store.facets import Overlap, Tick, Ticked
from headrace.store.sqlite import lanes, put, schedules
from headrace.store.sqlite.codes import BLOCKED, DONE, RUNNING
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import Transaction


def tick(tx: Transaction, ticks: Sequence[Tick], run_folder: str) -> Ticked:
    done = [_tick_one(tx, tick, run_folder) for tick in ticks]
    return Ticked(now=tx.now, done=done, next_tick=schedules.next_tick(tx))


def _tick_one(tx: Transaction, tick: Tick, run_folder: str) -> bool:
    known = schedules.find(tx, tick.name)
    if known is None or known.version != tick.version:
        return False
    most = known.definition.max_runs
    runs, last_job = known.runs, known.last_job
    for job in tick.jobs:
        if (most is None or runs < most) and _put(tx, job, known.definition.overlap, last_job, run_folder):
            runs, last_job = runs + 1, job.id
    schedules.keep(
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


def _put(tx: Transaction, job: NewJob, overlap: Overlap, last_job: str | None, run_folder: str) -> bool:
    """Put the job of a tick, if its schedule's policy lets it in beside the job before."""
    if tx.rows(SQL["by_id"], (job.id,)) or (job.lane is not None and lanes.clashes(tx, job.queue, job.lane)):
        return False
    previous = tx.rows(SQL["by_id"], (last_job,))
    if overlap is not Overlap.ALLOW and previous and previous[0][1] < DONE:
        state = previous[0][1]
        assert last_job is not None
        if overlap is Overlap.SKIP or (overlap is Overlap.QUEUE and state == BLOCKED):
            return False
        if overlap is Overlap.QUEUE:
            job = replace(job, after=(last_job,), if_failed=IfFailed.RUN)
        elif state == RUNNING:
            put.cancel(tx, [last_job])
        else:
            put.delete(tx, [last_job], "replaced")
    put.put(tx, [job], run_folder)
    return True
