"""Recurring jobs as operators see them: what they are, and pause, resume, edit and delete by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.enqueueing import announced, around
from headrace.errors import ScheduleNotFound
from headrace.ops import audit
from headrace.ops.documents import epoch_ms, value_of
from headrace.ops.forms import forms
from headrace.records import Put, ScheduleRecord
from headrace.schedule.next_runs import job_now
from headrace.schedules import ScheduleEdits, StoredSchedule, changing, edits, paused, resumed
from headrace.store.courses import Course
from headrace.store.facets import Schedules, facet
from headrace.store.paging import list_schedules
from headrace.values.ids import new_id
from headrace.values.text import ago, iso, now_ms

if TYPE_CHECKING:
    from headrace.app import Headrace

RUNS = 5
"""How many of the next runs are shown."""


class ScheduleDetails(Struct, frozen=True):
    """All there is to know about a schedule."""

    record: ScheduleRecord
    state: str
    """In a word: ticking, paused, over, or after its job."""
    upcoming: list[datetime]
    """Its next runs."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def when(self) -> str:
        """When it runs next, or why it does not, in words."""
        if self.record.paused and self.record.paused_at is not None:
            by = f" by {self.record.paused_by}" if self.record.paused_by else ""
            return f"paused{by} {ago(self.record.paused_at, now_ms())}"
        if self.state != "ticking" or self.record.next is None:
            return self.state
        return ago(self.record.next, now_ms())

    def document(self) -> dict[str, Any]:
        """As JSON. Names and meanings are stable; more may be added."""
        record, definition = self.record, self.record.definition
        return {
            "name": record.name,
            "rule": definition.rule,
            "task": definition.task,
            "arguments": value_of(definition.body),
            "queue": definition.queue,
            "priority": definition.priority,
            "max_crashes": definition.max_crashes,
            "options": None if definition.options is None else json.loads(definition.options),
            "tags": list(definition.tags),
            "state": self.state,
            "paused": record.paused,
            "paused_at": iso(record.paused_at),
            "paused_by": record.paused_by,
            "next": iso(record.next),
            "upcoming": [iso(epoch_ms(run)) for run in self.upcoming],
            "runs": record.runs,
            "max_runs": definition.max_runs,
            "last_tick": iso(record.last_tick),
            "last_job": record.last_job,
            "overlap": definition.overlap.value,
            "misfire": definition.misfire.value,
            "limit": definition.limit,
            "grace": definition.grace,
            "jitter": definition.jitter,
            "offset": definition.offset,
            "start": iso(definition.start),
            "end": iso(definition.end),
            "carry_data": definition.carry_data,
            "data": value_of(record.data),
            "declared_by": definition.declared_by,
            "created": iso(record.created or None),
            "version": record.version,
        }


class ScheduleActed(Struct, frozen=True):
    """What became of a request about one schedule."""

    name: str
    ok: bool
    outcome: str


def _details(app: Headrace, record: ScheduleRecord) -> ScheduleDetails:
    return ScheduleDetails(record, _state(record), StoredSchedule(app, record).upcoming(RUNS))


def _state(record: ScheduleRecord) -> str:
    if record.paused:
        return "paused"
    if record.next is not None:
        return "ticking"
    runs = record.definition.max_runs
    waits = record.definition.follows and record.last_job is not None and (runs is None or record.runs < runs)
    return "after its job" if waits else "over"


# -- looking ---------------------------------------------------------------------------------------------


def schedules_course(app: Headrace) -> Course[list[ScheduleDetails]]:
    """All schedules, by name."""
    return [_details(app, record) for record in (yield from list_schedules(app.store))]


schedules, aschedules = forms(schedules_course)


def schedule_course(app: Headrace, name: str) -> Course[ScheduleDetails]:
    """The schedule of this name. `ScheduleNotFound` if there is none."""
    found = yield from list_schedules(app.store, [name])
    if not found:
        raise ScheduleNotFound(name)
    return _details(app, found[0])


schedule, aschedule = forms(schedule_course)


# -- acting ----------------------------------------------------------------------------------------------


def pause_course(app: Headrace, names: Sequence[str]) -> Course[list[ScheduleActed]]:
    """Stop schedules from ticking. Jobs that they have put run."""
    return (yield from _each(app, names, _pausing, "pause"))


pause, apause = forms(pause_course)


def resume_course(app: Headrace, names: Sequence[str]) -> Course[list[ScheduleActed]]:
    """Let paused schedules go on from now on; ticks that came meanwhile are passed over."""
    return (yield from _each(app, names, _resuming, "resume"))


resume, aresume = forms(resume_course)


def run_now_course(app: Headrace, names: Sequence[str]) -> Course[list[ScheduleActed]]:
    """Put a job like those of each schedule at once, paused or not, whatever runs. The next tick stays as it is."""
    return (yield from _each(app, names, _running, "run"))


run_now, arun_now = forms(run_now_course)


def delete_course(app: Headrace, names: Sequence[str]) -> Course[list[ScheduleActed]]:
    """Delete schedules. Jobs that they have put stay."""
    return (yield from _each(app, names, _deleting, "delete"))


delete, adelete = forms(delete_course)


def edit_course(app: Headrace, name: str, changes: ScheduleEdits) -> Course[ScheduleDetails]:
    """Change a schedule that is in use, as `StoredSchedule.edit` does."""
    change, known = edits(app, changes), list[ScheduleRecord]()

    def noting(record: ScheduleRecord, now: int) -> ScheduleRecord:
        known.append(record)
        return change(record, now)

    changed = yield from changing(app.store, name, noting)
    differ = audit.differences(known[0].definition, changed.definition)
    yield from audit.note(app.store, "edit", f"schedule {name}: {', '.join(map(str, differ))}" if differ else "")
    return _details(app, changed)


edit, aedit = forms(edit_course)


def _each(
    app: Headrace, names: Sequence[str], act: Callable[[Headrace, str], Course[str]], what: str
) -> Course[list[ScheduleActed]]:
    acted = []
    for name in names:
        try:
            acted.append(ScheduleActed(name, True, (yield from act(app, name))))
        except ScheduleNotFound:
            acted.append(ScheduleActed(name, False, "not found"))
    done = [each.name for each in acted if each.ok]
    yield from audit.note(app.store, what, f"schedule{'s' * (len(done) > 1)} {', '.join(done)}" if done else "")
    return acted


def _pausing(app: Headrace, name: str) -> Course[str]:
    who = audit.operator()
    yield from changing(app.store, name, lambda record, now: paused(record, now, who))
    return "paused"


def _resuming(app: Headrace, name: str) -> Course[str]:
    changed = yield from changing(app.store, name, resumed)
    return f"goes on: {_details(app, changed).when}"


def _running(app: Headrace, name: str) -> Course[str]:
    found = yield from schedule_course(app, name)
    job = announced(app, job_now(found.record, new_id()))
    puts: list[Put] = []
    with around(app, [job], puts) as jobs:
        puts += yield app.store.put(jobs)
    return f"put as job {puts[0].id}"


def _deleting(app: Headrace, name: str) -> Course[str]:
    found = yield from schedule_course(app, name)
    if not (yield facet(app.store, Schedules).delete_schedule(name)):
        raise ScheduleNotFound(name)
    by = found.record.definition.declared_by
    return "deleted" if by is None else f"deleted, until a worker of {by} starts: it is declared there"
