"""Schedules: what they are, which are due, their jobs. Each function runs inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from headrace.errors import StoreCorrupt
from headrace.records import Definition, IfFailed, NewJob, Overlap, Ref, ScheduleRecord, Tick
from headrace.store.facets import ScheduleLook, Ticked
from headrace.store.sql import lanes, put
from headrace.store.sql.codes import BLOCKED, DONE, RUNNING
from headrace.store.sql.transaction import EVERYONE, Transaction

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Definition).decode


def find(tx: Transaction, name: str) -> ScheduleRecord | None:
    return tx.maybe_row(_record, "schedule_get", (name,))


def keep(tx: Transaction, record: ScheduleRecord) -> None:
    """Write a schedule, as its next version. Wakes its queue's workers, as they may have to wake up sooner."""
    tx.execute(
        "schedule_put",
        (
            record.name, _encode(record.definition), record.version + 1, record.created, int(record.paused),
            record.next, record.runs, record.last_tick, record.last_job, record.started, record.finished, record.data,
        ),
    )  # fmt: skip
    if record.next is not None and not record.paused:
        tx.news(record.definition.queue, EVERYONE)


def put_schedule(tx: Transaction, record: ScheduleRecord, expected: int | None) -> bool:
    known = find(tx, record.name)
    if (None if known is None else known.version) != expected:
        return False
    version, created = (0, tx.now) if known is None else (known.version, known.created)
    keep(tx, replace(record, version=version, created=created))
    return True


def schedules(tx: Transaction, names: Sequence[str] | None, after: str, limit: int) -> ScheduleLook:
    if names is not None:
        found = [find(tx, name) for name in names]
        return ScheduleLook(now=tx.now, records=[record for record in found if record is not None])
    return _look(tx, tx.rows("schedule_page", (after, limit + 1)), limit)


def delete_schedule(tx: Transaction, name: str) -> bool:
    return tx.change("schedule_delete", (name,)) > 0


def due_schedules(tx: Transaction, limit: int) -> ScheduleLook:
    return replace(_look(tx, tx.rows("schedule_due", (tx.now, limit + 1)), limit), next_tick=next_tick(tx))


def _look(tx: Transaction, rows: list[Any], limit: int) -> ScheduleLook:
    return ScheduleLook(now=tx.now, records=[_record(*row) for row in rows[:limit]], more=len(rows) > limit)


def next_tick(tx: Transaction) -> int | None:
    tick: int | None = tx.maybe_value("next_tick")
    return tick


def _record(
    name: str, definition: bytes, version: int, created: int, paused: int, next_: int | None, runs: int,
    last_tick: int | None, last_job: str | None, started: int | None, finished: int | None, data: bytes | None,
) -> ScheduleRecord:  # fmt: skip
    """From the columns of `schedule`."""
    try:
        decoded = _decode(definition)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"The schedule {name!r} cannot be read ({error}). Delete it, and store it again.") from error
    return ScheduleRecord(
        name=name, definition=decoded, version=version, created=created, paused=bool(paused), next=next_, runs=runs,
        last_tick=last_tick, last_job=last_job, started=started, finished=finished, data=data,
    )  # fmt: skip


# -- jobs of schedules -------------------------------------------------------------------------------


def note(tx: Transaction, job: NewJob) -> None:
    """A job that has just been put belongs to a schedule."""
    tx.execute("recurring_put", (job.id, job.schedule, job.tick))


class Recurrence(NamedTuple):
    """The schedule of a job, and its tick."""

    schedule: str
    tick: int | None


def of_job(tx: Transaction, seq: Ref) -> Recurrence:
    return tx.row(Recurrence, "recurring_of", (seq,))


def hear(tx: Transaction, seq: Ref) -> None:
    """A job of a schedule has come to an end, or is about to be removed before it has."""
    ((name, job_id, state, started, finished, data),) = tx.rows("recurring_end", (seq,))
    known = find(tx, name)
    if known is None or known.last_job != job_id:
        return
    ended = state >= DONE
    heard = known
    if known.definition.carry_data and ended and data is not None:
        heard = replace(heard, data=data)
    if known.definition.follows and known.next is None and known.finished is None:
        heard = replace(heard, next=tx.now, started=started, finished=finished if ended else tx.now)
    if heard is not known:
        keep(tx, heard)


# -- ticks -------------------------------------------------------------------------------------------


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
    if lanes.find_job(tx, job.id) is not None or (job.lane is not None and lanes.clashes(tx, job.queue, job.lane)):
        return False
    previous = lanes.find_job(tx, last_job)
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
