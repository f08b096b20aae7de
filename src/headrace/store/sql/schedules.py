"""Schedules: what they are, which are due, and what they learn from the ends of their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace.errors import StoreCorrupt
from headrace.records import Definition, ScheduleRecord
from headrace.store.facets import ScheduleLook
from headrace.store.sql.codes import DONE
from headrace.store.sql.transaction import EVERYONE, Transaction
from headrace.store.sql.working_set import Job, WorkingSet

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Definition).decode


def find(tx: Transaction, name: str) -> ScheduleRecord | None:
    return next(iter(_some(tx, [name])), None)


def _some(tx: Transaction, names: Sequence[str]) -> list[ScheduleRecord]:
    """Schedules by their names, as far as they are there."""
    rows = tx.rows("schedules_some", (tx.texts(names),))
    versions = {name: (name, version) for name, _, version, *_ in rows}
    definitions = tx.large("schedule_definition", [versions[name] for name, short, *_ in rows if short is None])
    data = tx.large("schedule_data", [versions[name] for name, *_, is_long in rows if is_long])
    whole = (
        (name, definitions.get(versions[name], short), *columns, data.get(versions[name], carried))
        for name, short, *columns, carried, _ in rows
    )
    return [_record(*columns) for columns in whole]


def keep(tx: Transaction, record: ScheduleRecord) -> None:
    """Write a schedule, as its next version. Wakes its queue's workers, as they may have to wake up sooner."""
    tx.execute("schedule_put", _columns(record))
    _tell(tx, record)


def _columns(record: ScheduleRecord) -> tuple[object, ...]:
    """A schedule's next version, as `schedule_put` takes it."""
    return (
        record.name, _encode(record.definition), record.version + 1, record.created, int(record.paused),
        record.paused_at, record.paused_by, record.next, record.runs, record.last_tick, record.last_job, record.started,
        record.finished, record.data,
    )  # fmt: skip


def _tell(tx: Transaction, record: ScheduleRecord) -> None:
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
        found = {record.name: record for record in _some(tx, names)}
        return ScheduleLook(now=tx.now, records=[found[name] for name in names if name in found])
    return _look(tx, tx.rows("schedule_page", (after, limit + 1)), limit)


def due_schedules(tx: Transaction, limit: int) -> ScheduleLook:
    return replace(_look(tx, tx.rows("schedule_due", (tx.now, limit + 1)), limit), next_tick=next_tick(tx))


def _look(tx: Transaction, rows: list[Any], limit: int) -> ScheduleLook:
    return ScheduleLook(now=tx.now, records=[_record(*row) for row in rows[:limit]], more=len(rows) > limit)


def next_tick(tx: Transaction) -> int | None:
    tick: int | None = tx.maybe_value("next_tick")
    return tick


def _record(
    name: str, definition: bytes, version: int, created: int, paused: int, paused_at: int | None, paused_by: str | None,
    next_: int | None, runs: int, last_tick: int | None, last_job: str | None, started: int | None,
    finished: int | None, data: bytes | None,
) -> ScheduleRecord:  # fmt: skip
    """From the columns of `schedule`."""
    try:
        decoded = _decode(definition)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"The schedule {name!r} cannot be read ({error}). Delete it, and store it again.") from error
    return ScheduleRecord(
        name=name, definition=decoded, version=version, created=created, paused=bool(paused), paused_at=paused_at,
        paused_by=paused_by, next=next_, runs=runs, last_tick=last_tick, last_job=last_job, started=started,
        finished=finished, data=data,
    )  # fmt: skip


# -- jobs of schedules -------------------------------------------------------------------------------


def hear(work: WorkingSet, job: Job) -> None:
    """A job of a schedule has come to an end, or is about to be removed before it has."""
    recurrence = work.recurrence(job)
    known = _find_all(work).get(recurrence.schedule)
    if known is None or known.last_job != job.id:
        return
    ended = job.state >= DONE
    heard = known
    carries = known.definition.carry_data and ended and recurrence.has_data
    if known.definition.follows and known.next is None and known.finished is None:
        heard = replace(heard, next=work.now, started=job.started, finished=job.finished if ended else work.now)
    if carries:
        work.write("schedule_carry", heard.name, job.seq)
    if carries or heard is not known:
        work.schedules[heard.name] = replace(heard, version=heard.version + 1)
        work.write("schedule_put", *_columns(heard))
        _tell(work.tx, heard)


def _find_all(work: WorkingSet) -> dict[str, ScheduleRecord | None]:
    """The schedules that jobs of the working set belong to, by name."""
    missing = [name for name in work.schedule_names() if name not in work.schedules]
    if missing:
        work.schedules.update(dict.fromkeys(missing))
        for record in _some(work.tx, missing):
            work.schedules[record.name] = record
    return work.schedules
