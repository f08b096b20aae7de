"""Schedules of an app as repeating jobs: a job with a `repeat` is a schedule and its job at once.

The name of a schedule, and what else Bedrock has no column for, stands in the job's data under `headraceSchedule`. A
repeating job of another program is a schedule named by its id. The protocol compares nothing before it writes: of two
changes to a schedule at the same moment the later one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from headrace.dialects.bedrock import mapping
from headrace.dialects.bedrock.client.commands import create
from headrace.dialects.bedrock.client.replies import BedrockError
from headrace.dialects.bedrock.times import write_moment
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY
from headrace.errors import Unsupported
from headrace.records import Definition, NewJob, ScheduleRecord, State, spec_of
from headrace.schedule import Repeat, ScheduleError, parse_repeat, restore
from headrace.store.facets import ScheduleLook

if TYPE_CHECKING:
    from headrace.dialects.bedrock.store import BedrockStore

REPEATING = (
    "SELECT jobID, CAST(name AS BLOB), state, priority, nextRun, CAST(data AS BLOB), repeat, created FROM jobs "
    "WHERE repeat != '' ORDER BY jobID"
)
_NATIVE = "Leave it out, or keep this schedule in a native store."
_REFUSED = {
    "overlap": "a repeating job is one job, which comes again when its run has ended",
    "misfire": "a SCHEDULED repeat catches up run by run, and the others wait for the end of a run",
    "limit": "missed runs are not counted",
    "grace": "missed runs are not counted",
    "jitter": "a repeating job is due at its time",
    "end": "a repeat has none",
    "offset": "a repeat has none",
    "max_runs": "runs are not counted",
    "carry_data": "a job keeps its data from run to run in any case",
}
"""Options of a schedule that no job carries, and why."""
_PLAIN = Definition(rule="", task="", body=b"")


class Kept(Struct, omit_defaults=True, frozen=True):
    """What a job's data say of its schedule."""

    name: str
    start: int | None = None
    declared_by: str | None = None


_decode_kept = msgspec.json.Decoder(Kept).decode


def check(store: BedrockStore, record: ScheduleRecord) -> None:
    """Refuse what no repeating job carries."""
    definition = record.definition
    if not isinstance(restore(definition.rule), Repeat):
        raise Unsupported(
            f"'{definition.rule}' is no repeat rule, which is all that a Bedrock job has: write for example "
            "task.repeat('SCHEDULED, +1 HOUR') or task.repeat('FINISHED, +1 DAY, START OF DAY, +4 HOURS'), or keep "
            "this schedule in a native store."
        )
    if record.paused:
        raise Unsupported("A repeating job of Bedrock can't be paused: delete it, and store it again later.")
    for name, why in _REFUSED.items():
        if getattr(definition, name) != getattr(_PLAIN, name):
            raise Unsupported(f"{'runs' if name == 'max_runs' else name}: in Bedrock {why}. {_NATIVE}")
    if record.next is None:
        raise Unsupported("A repeating job of Bedrock always has a next time: delete it when it is over.")
    store.put([_job(record)])  # described, not run: it refuses the rest


def _job(record: ScheduleRecord) -> NewJob:
    return NewJob(id="", **spec_of(record.definition), run_at=record.next)


def put(store: BedrockStore, record: ScheduleRecord, expected: int | None, now: int) -> bool:
    definition = record.definition
    named = _named(store, record.name)
    if (named[0].record.version if named else None) != expected:
        return False
    kept = Kept(record.name, definition.start, definition.declared_by)
    ours = msgspec.json.encode({mapping.SCHEDULE: kept})
    if not named:
        new = mapping.creation(_job(record), store.tasks, store.timeout, now)
        data = mapping.merge_data(definition.body, ours)
        store.client.run(create(**new | {"data": data, "repeat": definition.rule}))
        # Two programs may have stored it at the same moment: all of them keep the oldest.
        for found in _named(store, record.name)[1:]:
            store.client.delete_job(found.id)
        return True
    found = named[0]
    before = found.record.definition
    if (before.task, before.queue) != (definition.task, definition.queue):
        raise Unsupported("A job of Bedrock keeps its name, so its task and queue can't be changed: delete it first.")
    moved = (before.rule, before.start) != (definition.rule, definition.start)
    store.client.update_job(
        found.id,
        mapping.merge_data(found.rest, definition.body, ours) or b"{}",
        repeat=definition.rule if moved else None,
        next_run=write_moment(record.next or now) if moved else None,
        priority=definition.priority + DEFAULT_PRIORITY,
    )
    return True


def delete(store: BedrockStore, name: str) -> bool:
    found = _named(store, name)
    for one in found:
        store.client.delete_job(one.id)
    return bool(found)


def look(store: BedrockStore, names: Sequence[str] | None, after: str, limit: int, now: int) -> ScheduleLook:
    if names is not None and not names:
        return ScheduleLook(now=now, records=[])
    named = {found.record.name: found.record for found in reversed(_all(store))}
    if names is not None:
        return ScheduleLook(now=now, records=[named[name] for name in names if name in named])
    later = sorted((name for name in named if name.encode() > after.encode()), key=str.encode)
    return ScheduleLook(now=now, records=[named[name] for name in later[:limit]], more=len(later) > limit)


class Found(NamedTuple):
    """A repeating job."""

    id: int
    rest: bytes
    """What is in its data besides its arguments."""
    record: ScheduleRecord


def _named(store: BedrockStore, name: str) -> list[Found]:
    return [found for found in _all(store) if found.record.name == name]


def _all(store: BedrockStore) -> list[Found]:
    """Oldest first."""
    try:
        rows = store.client.query(REPEATING).rows
    except BedrockError as error:
        raise Unsupported(f"This server does not show its repeating jobs: it says {str(error)!r}.") from error
    return [_found(row, store.tasks) for row in rows]


def kept_in(data: Any, job_id: int) -> Kept:
    """What a repeating job says of the schedule that it is."""
    kept = data.get(mapping.SCHEDULE) if isinstance(data, dict) else None
    try:
        return _decode_kept(msgspec.json.encode(kept))
    except msgspec.ValidationError:
        return Kept(str(job_id))


def _found(row: Sequence[Any], tasks: mapping.Tasks) -> Found:
    job_id, name, state, priority, next_run, data, repeat, created = row
    queue, task = mapping.read_name(str(name), tasks)
    text = msgspec.json.encode(data)
    body, _, _ = mapping.split_data(text, tasks.get(task))
    parts = data if isinstance(data, dict) else {}
    kept = kept_in(data, job_id)
    try:
        rule = str(parse_repeat(str(repeat)))
    except ScheduleError:
        rule = str(repeat)
    definition = Definition(
        rule=rule,
        task=task,
        body=body,
        queue=queue,
        priority=priority - DEFAULT_PRIORITY,
        start=kept.start,
        declared_by=kept.declared_by,
    )
    over = mapping.STATES.get(state) in (State.FAILED, State.CANCELLED, State.DONE)
    record = ScheduleRecord(
        name=kept.name,
        definition=definition,
        version=int.from_bytes(blake2b(msgspec.json.encode(definition), digest_size=6).digest()),
        created=mapping.milliseconds_of(created) or 0,
        next=None if over else mapping.milliseconds_of(next_run),
    )
    arguments = msgspec.json.decode(body) if parts else {}
    return Found(job_id, msgspec.json.encode({key: parts[key] for key in parts if key not in arguments}), record)
