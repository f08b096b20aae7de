"""A store as a file of JSON lines, and back: a backup, and the way from one native store to another.

The first line says what the file is, the last how much is in it. Between them each line is a setting, a control of a
queue or a lane, a blocked task, a schedule or a job, the newest job first, as stores list them. Jobs come in oldest
first, so that none arrives before a job that it waits for. Ids are kept: to bring in the same file twice changes
nothing the second time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from headrace.errors import ConfigurationError, Unsupported
from headrace.ops import audit
from headrace.ops.forms import forms
from headrace.records import Filter, NewJob, Page, Put, ScheduleRecord, Snapshot, State, spec_of
from headrace.store import Store
from headrace.store.blocking import Block, Blocking
from headrace.store.courses import Course
from headrace.store.facets import PARKED, Past, QueueControl, Queues, Restoring, Schedules, Settings, Tags, facet
from headrace.store.lanes import LaneRule, Lanes
from headrace.store.limits import DEPENDENCY
from headrace.store.paging import following, list_schedules
from headrace.store.urls import shown_url
from headrace.values.text import iso, now_ms

if TYPE_CHECKING:
    from headrace.app import Headrace

VERSION = 1
READ_AT_ONCE = 250
"""How many jobs are read in one step."""
AT_ONCE, BYTES_AT_ONCE = 1_000, 8_000_000
"""How many jobs, and bytes of a file, are brought in in one step, or one job: a step costs a commit or two."""

Advance: TypeAlias = Callable[[int], object]
"""Hears how many more jobs have been dealt with."""


class Head(Struct, frozen=True, tag="headrace"):
    """The first line."""

    version: int
    store: str
    at: str


class Setting(Struct, frozen=True, tag="setting"):
    name: str
    value: int


class Control(Struct, frozen=True, tag="queue"):
    control: QueueControl


class Ruled(Struct, frozen=True, tag="lane"):
    queue: str
    key: str
    rule: LaneRule


class Blocked(Struct, frozen=True, tag="block"):
    block: Block


class Recurring(Struct, frozen=True, tag="schedule"):
    schedule: ScheduleRecord


class Copied(Struct, frozen=True, tag="job"):
    job: Snapshot


class End(Struct, frozen=True, tag="end"):
    """The last line."""

    jobs: int
    schedules: int


Line: TypeAlias = Head | Setting | Control | Ruled | Blocked | Recurring | Copied | End

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode
_decode_head = msgspec.json.Decoder(Head).decode
_decode_copied = msgspec.json.Decoder(Copied).decode
_JOB = b'{"type":"job"'
"""How the line of a job begins."""


class Saved(Struct, frozen=True):
    """What a copy holds."""

    jobs: int
    schedules: int


class Loaded(Struct, frozen=True):
    """What was brought in."""

    jobs: int
    schedules: int
    there: int
    """Jobs and schedules that were there already, and were left as they are."""
    refused: list[tuple[str, str]]
    """What could not be carried, and why."""


# -- out -------------------------------------------------------------------------------------------------


def save_course(app: Headrace, file: IO[bytes], advance: Advance = lambda _: None) -> Course[Saved]:
    """Write all that a native store has into a file. Jobs that come meanwhile are left out."""
    store = _native(app)

    def write(line: Line) -> None:
        file.write(_encode(line) + b"\n")

    write(Head(VERSION, shown_url(app.url), iso(now_ms()) or ""))
    settings: dict[str, int] = yield facet(store, Settings).settings()
    for name, value in settings.items():
        write(Setting(name, value))
    controls: list[QueueControl] = yield facet(store, Queues).controls()
    for control in controls:
        write(Control(control))
    rules: list[tuple[str, str, LaneRule]] = yield facet(store, Lanes).lane_rules()
    for queue, key, rule in rules:
        write(Ruled(queue, key, rule))
    blocks: list[Block] = yield facet(store, Blocking).blocks()
    for block in blocks:
        write(Blocked(block))
    schedules = yield from list_schedules(store)
    for record in schedules:
        write(Recurring(record))
    jobs = 0
    wanted: Filter | None = Filter(limit=READ_AT_ONCE)
    while wanted is not None:
        page: Page = yield store.find(wanted)
        for job in page.jobs:
            write(Copied(job))
        jobs += len(page.jobs)
        advance(len(page.jobs))
        wanted = following(wanted, page)
    write(End(jobs, len(schedules)))
    return Saved(jobs, len(schedules))


save, asave = forms(save_course)


# -- in --------------------------------------------------------------------------------------------------


def load_course(app: Headrace, file: IO[bytes], advance: Advance = lambda _: None) -> Course[Loaded]:
    """Bring in what a file has, which is read twice and must be seekable.

    A job that ran comes in as one that waits; one that is there is left as it is. `ConfigurationError`: the file is
    not a copy, is cut short, or is of a newer version. Nothing has been written then.
    """
    store = _native(app)
    lines, places = _read(file)
    absent = facet(store, Settings).absent_settings
    settings: dict[str, int | None] = {line.name: line.value for line in lines if isinstance(line, Setting)}
    refused = [(f"setting {name}", absent[name]) for name in settings if name in absent]
    if known := {name: value for name, value in settings.items() if name not in absent}:
        yield facet(store, Settings).set_settings(known)
    for line in lines:
        if isinstance(line, Control):
            yield from _govern(facet(store, Queues), line.control)
        elif isinstance(line, Ruled):
            rule = line.rule
            yield facet(store, Lanes).set_lane(
                line.queue, line.key, limit=rule.limit, rate=rule.rate, per=rule.per, by=rule.by
            )
        elif isinstance(line, Blocked):
            yield facet(store, Blocking).block(line.block.task, line.block.reason, line.block.by)
    brought = there = 0
    for batch in _oldest_first(file, places):
        for some in _by_key(batch):
            new, old = yield from _bring_in(store, some, refused)
            brought, there = brought + new, there + old
        advance(len(batch))
    schedules = [line.schedule for line in lines if isinstance(line, Recurring)]
    added = 0
    for record in schedules:
        added += yield facet(store, Schedules).put_schedule(record, None)
    yield from audit.note(store, "copy", f"from a file: jobs {brought:,}, schedules {added:,}")
    return Loaded(brought, added, there + len(schedules) - added, refused)


load, aload = forms(load_course)


def _native(app: Headrace) -> Store:
    if not isinstance(app.store, Restoring):
        raise Unsupported(
            f"{shown_url(app.url)} is no native store, and a copy has more about a job than it keeps. "
            "Use 'headrace drain' to move the jobs that wait."
        )
    return app.store


def _read(file: IO[bytes]) -> tuple[list[Line], array[int]]:
    """The lines that are no jobs, and where each job's line begins. Checks the file as a whole."""
    lines: list[Line] = []
    places = array("Q")
    at = 0
    file.seek(0)
    for number, text in enumerate(file, 1):
        if text.startswith(_JOB):
            places.append(at)
        else:
            lines.append(_line(text, number) if lines else _head(text))
        at += len(text)
    if not lines:
        raise ConfigurationError("The file is empty: it is no copy of a store.")
    end = lines[-1]
    if not isinstance(end, End) or end.jobs != len(places):
        raise ConfigurationError("The copy is cut short: its last line is missing. Make it again.")
    return lines, places


def _head(text: bytes) -> Head:
    try:
        head = _decode_head(text)
    except msgspec.MsgspecError:
        raise ConfigurationError("The file is no copy of a store: its first line does not say so.") from None
    if head.version > VERSION:
        raise ConfigurationError(
            f"The copy is of version {head.version}, and this headrace reads up to {VERSION}: use a newer headrace."
        )
    return head


def _line(text: bytes, number: int) -> Line:
    try:
        line: Line = _decode(text)
        return line
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"Line {number} of the copy can't be read: {error}.") from None


def _oldest_first(file: IO[bytes], places: Sequence[int]) -> Iterator[list[Snapshot]]:
    batch: list[Snapshot] = []
    size = 0
    for place in reversed(places):
        file.seek(place)
        text = file.readline()
        if batch and (len(batch) == AT_ONCE or size + len(text) > BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(_decode_copied(text).job)
        size += len(text)
    if batch:
        yield batch


def _by_key(jobs: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """Parts in which no two have the same unique key: an ended job gives it to the next once it has its past."""
    part: list[Snapshot] = []
    keys: set[str | None] = set()
    for job in jobs:
        key = None if job.state is State.DONE else job.unique_key
        if key is not None and key in keys:
            yield part
            part, keys = [], set()
        part.append(job)
        keys.add(key)
    yield part


def _govern(queues: Queues, control: QueueControl) -> Course[None]:
    if control.paused_by is not None:
        yield queues.pause(control.queue, control.paused_by)
    if control.limit is not None:
        yield queues.limit(control.queue, control.limit)


def _bring_in(store: Store, jobs: Sequence[Snapshot], refused: list[tuple[str, str]]) -> Course[tuple[int, int]]:
    """Put jobs where no worker gets them, then give them their past. How many are new, and how many were there."""
    assert isinstance(store, Restoring)
    puts = yield from _put(store, jobs, refused)
    for job in jobs:
        if (holder := puts.get(job.id, job.id)) != job.id:
            what = f"unique key of job {job.id}" if job.state.final else f"job {job.id}"
            refused.append((what, f"job {holder} has its unique key {job.unique_key!r}"))
            if job.state.final:
                puts |= yield from _put(store, [job], refused, bare=True)
    accepted = [job for job in jobs if puts.get(job.id) == job.id]
    restored: list[bool] = (yield store.restore([past_of(job) for job in accepted])) if accepted else []
    tracked = [job.id for job, new in zip(accepted, restored, strict=True) if new and job.tracked]
    if tracked:
        yield facet(store, Tags).track(tracked)
    return sum(restored), len(restored) - sum(restored)


def _put(
    store: Store, jobs: Sequence[Snapshot], refused: list[tuple[str, str]], *, bare: bool = False
) -> Course[dict[str, str]]:
    """Which job stands for which. If the store refuses one, the others are put one by one, and one that has ended comes
    without its relations to others."""
    try:
        puts: list[Put] = yield store.put([_new_job(job, bare=bare) for job in jobs])
        return {job.id: put.id for job, put in zip(jobs, puts, strict=True)}
    except ConfigurationError as error:
        if len(jobs) == 1:
            again = jobs[0].state.final and not bare
            refused.append((f"{'relations of ' if again else ''}job {jobs[0].id}", str(error)))
            return (yield from _put(store, jobs, refused, bare=True)) if again else {}
    found: dict[str, str] = {}
    for job in jobs:
        found |= yield from _put(store, [job], refused)
    return found


def _new_job(job: Snapshot, *, bare: bool = False) -> NewJob:
    """As it is put. One that has ended comes with what it needs when it is revived, unless it is to be `bare`."""
    values: dict[str, Any] = {**spec_of(job), "id": job.id, "run_at": PARKED, "data": job.data}
    if not job.state.final:
        values |= {"schedule": job.schedule, "tick": job.tick}
    else:
        values |= {"expires": None, "lane": None if bare else job.lane}
    if not bare and job.state is not State.DONE:
        values["unique_key"] = job.unique_key
    if not job.state.final or (job.group == DEPENDENCY and not bare):
        values |= {"after": job.after, "if_failed": job.if_failed}
    return NewJob(**values)


def past_of(job: Snapshot) -> Past:
    """What a job went through, for the store that it comes to; one that ran waits there."""
    values = {name: getattr(job, name) for name in Past.__struct_fields__}
    if not job.state.final:
        values["state"] = values["finished"] = None
    return Past(**values)
