"""Recurring jobs as their owners see them: a task bound to a schedule, and the schedule once it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypedDict, Unpack, cast

from msgspec.structs import replace

from headrace.errors import ArgumentsError, ConfigurationError, MaybeApplied, ScheduleNotFound
from headrace.job import Job
from headrace.options import JobOptions, ScheduledJobEdits, declared, editable, edited_fields
from headrace.policies import Misfire, Overlap
from headrace.records import Definition, ScheduleRecord, spec_of
from headrace.schedule import ScheduleError
from headrace.schedule.next_runs import first_tick, first_tick_again, tick_after
from headrace.schedule.rules import anchored, opened, rule_of
from headrace.shared import SharedTask
from headrace.store import Store
from headrace.store.courses import Course, arun_course, run_course
from headrace.store.facets import ScheduleLook, Schedules, facet
from headrace.task import Task, Using
from headrace.values.durations import Duration, Instant, as_datetime, milliseconds, moment
from headrace.values.names import check_count, check_flag, check_name

if TYPE_CHECKING:
    from headrace.app import Headrace

P = ParamSpec("P")

MOST = 1_000
"""Missed ticks that get jobs at most, whatever `limit` says."""
MOST_RUNS = 2**32 - 1
_OF_SCHEDULED = declared(JobOptions)
_OF_SINGLE_CALLS = "{} is for single calls: jobs of a schedule can't have it."


class ScheduleOptions(TypedDict, total=False):
    """What `every`, `cron` and `repeat` take besides the rule."""

    tz: str
    """The zone that times are read in; the app's own if not given."""
    name: str
    """What to call it. If not given: made of task, rule and arguments, so that the same again is the same schedule."""
    overlap: Literal["allow", "skip", "queue", "replace"]
    """What a tick does while the job before has not ended: put another beside it, put none, put one that runs after
    it (one at most), or put one in its place. `allow` unless said otherwise."""
    misfire: Literal["all", "once", "skip"]
    """What becomes of ticks that no worker was there for: all get their jobs (the latest `limit` of them), only the
    latest does, or none. `once` unless said otherwise."""
    limit: int
    grace: Duration
    """How late a tick may be before it counts as missed: a minute unless said otherwise."""
    jitter: Duration
    """Run each job up to so much later than its tick, to spread load. Always the same for the same tick."""
    start: Instant
    end: Instant
    offset: Duration
    """All ticks are so much later than the rule says."""
    runs: int
    """How many jobs there are before it is over."""
    carry_data: bool
    """What a run leaves with `current().update(...)`, the next one finds in `current().data`.

    `overlap` is `skip` then by default."""


class ScheduleEdits(ScheduleOptions, ScheduledJobEdits, total=False):
    """What `StoredSchedule.edit` takes: a rule, options of the schedule, options of its jobs, arguments."""

    every: str
    cron: str
    repeat: str
    task: Task[..., Any] | SharedTask[..., Any] | str
    """Another task, or its name. Its arguments must fit, those that were there or those given here."""
    args: Sequence[Any]
    """Arguments by position; with `kwargs`, they replace all that were there."""
    kwargs: Mapping[str, Any]


# -- options ------------------------------------------------------------------------------------------


def _check_options(options: Mapping[str, Any], app: Headrace, now: int) -> dict[str, Any]:
    """The fields of `Definition` that options stand for."""
    fields: dict[str, Any] = {}
    for name, kind in (("overlap", Overlap), ("misfire", Misfire)):
        if name in options:
            try:
                fields[name] = kind(options[name])
            except ValueError:
                raise ConfigurationError(f"{name} is one of {', '.join(kind)}, not {options[name]!r}.") from None
    for name in ("grace", "jitter", "offset"):
        if name in options:
            fields[name] = milliseconds(options[name], name)
    if "limit" in options:
        fields["limit"] = check_count("limit", options["limit"], 1)
        if fields["limit"] > MOST:
            raise ConfigurationError(f"limit is {MOST:,} at most, not {fields['limit']:,}.")
    if "runs" in options:
        fields["max_runs"] = min(check_count("runs", options["runs"], 1), MOST_RUNS)
    for name in ("start", "end"):
        if name in options:
            at, delay = moment(options[name], app.zone, name, now)
            fields[name] = at if at is not None else now + (delay or 0)
    if "carry_data" in options:
        fields["carry_data"] = check_flag("carry_data", options["carry_data"])
    return fields


def _checked(definition: Definition) -> Definition:
    if definition.start is not None and definition.end is not None and definition.start > definition.end:
        raise ConfigurationError("start comes after end: such a schedule never ticks.")
    if definition.carry_data and definition.overlap in (Overlap.ALLOW, Overlap.QUEUE):
        raise ConfigurationError(
            "carry_data hands what one run leaves to the next: that takes runs that do not overlap. "
            "Add overlap='skip' or overlap='replace'."
        )
    return definition


# -- a task bound to a schedule ----------------------------------------------------------------------------


class BoundSchedule(Generic[P]):
    """A task and when to run it. Made by `task.every(...)`, `task.cron(...)` and `task.repeat(...)`.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:", tz="Europe/Zurich")
    >>> @app.task
    ... def report(kind: str) -> None: ...
    >>> schedule = report.every("every weekday at 9:30", name="morning").enqueue("sales")
    >>> schedule.name, schedule.rule
    ('morning', 'every weekday at 09:30 in Europe/Zurich')
    """

    def __init__(self, using: Using[P, Any], kind: str, text: str, options: ScheduleOptions) -> None:
        unknown = set(options) - set(ScheduleOptions.__annotations__)
        if unknown:
            known = ", ".join(ScheduleOptions.__annotations__)
            raise ConfigurationError(f"A schedule has no option {min(unknown)!r}. It takes {known}.")
        for option in using.given:
            if option not in _OF_SCHEDULED:
                raise ConfigurationError(_OF_SINGLE_CALLS.format(option))
        self.app = using.task.app
        self._using = using
        self._options = options
        self._name = check_name("schedule", options["name"]) if "name" in options else None
        self.rule = rule_of(kind, text, options.get("tz", self.app.zone.key))
        _check_options(options, self.app, self.app.clock.now())

    def __repr__(self) -> str:
        return f"<{self._using.task.name} {self.rule}>"

    def definition(self, args: Sequence[Any], kwargs: Mapping[str, Any], now: int) -> Definition:
        """What it comes to with these arguments, at this time."""
        job = self._using.scheduled(args, kwargs)
        if job.lane is not None and job.lane.sequence:
            raise ConfigurationError(_OF_SINGLE_CALLS.format("sequence"))
        fields = _check_options(self._options, self.app, now)
        if fields.get("carry_data") and "overlap" not in fields:
            fields["overlap"] = Overlap.SKIP
        return _checked(Definition(rule=self.rule, **spec_of(job), **fields))

    def timeless(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Definition:
        """The same for a schedule that is declared in code: it must come to the same at any time."""
        definition = self.definition(args, kwargs, 0)
        if definition != self.definition(args, kwargs, 86_400_000 * 366):
            raise ConfigurationError("start and end of a declared schedule are dates and times, not words or delays.")
        return definition

    def name_for(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The name it was given, or one made of what it does."""
        if self._name is not None:
            return self._name
        task = self._using.task
        body = task.arguments.encode(tuple(args), dict(kwargs), self.app.payload_limit)
        content = f"{task.name}\n{self.rule}\n".encode() + task.arguments.fingerprint(body)
        return f"{task.name[:150]} {blake2b(content, digest_size=6).hexdigest()}"

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> StoredSchedule:
        """Store it: from now on its jobs come by themselves. The same again changes nothing; a name that is taken
        by a schedule stored before gets what is new about this one."""
        self.app._create_store()
        return StoredSchedule(self.app, run_course(self.app.store, self._storing(args, kwargs)))

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> StoredSchedule:
        """The same, from async code."""
        await self.app._acreate_store()
        return StoredSchedule(self.app, await arun_course(self.app.store, self._storing(args, kwargs)))

    def _storing(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Course[ScheduleRecord]:
        return storing(
            facet(self.app.store, Schedules),
            self.name_for(args, kwargs),
            lambda now: self.definition(args, kwargs, now),
        )


def storing(
    schedules: Schedules, name: str, wanted: Definition | Callable[[int], Definition]
) -> Course[ScheduleRecord]:
    """Store a schedule, or bring the one of this name up to date. Nothing is written if it is.

    `wanted` may depend on the time of the first look.
    """
    while True:
        look: ScheduleLook = yield schedules.schedules([name])
        if not isinstance(wanted, Definition):
            wanted = wanted(look.now)
        known = look.records[0] if look.records else None
        definition = anchored(wanted, None if known is None else known.definition, look.now)
        if known is None:
            record = ScheduleRecord(name=name, definition=definition, next=first_tick(definition, look.now))
        elif known.definition.declared_by is not None and wanted.declared_by is None:
            raise ConfigurationError(
                f"The schedule {name!r} is declared in code, by {known.definition.declared_by}: choose another name."
            )
        elif known.definition == definition:
            return known
        else:
            record = redefined(known, definition, look.now)
        yield from _put(schedules, record, None if known is None else known.version)


def _put(schedules: Schedules, record: ScheduleRecord, expected: int | None) -> Course[None]:
    """Whether it was written is seen by looking again."""
    with suppress(MaybeApplied):
        yield schedules.put_schedule(record, expected)


def changing(
    store: Store, name: str, change: Callable[[ScheduleRecord, int], ScheduleRecord]
) -> Course[ScheduleRecord]:
    """Change a schedule, whoever else changes it meanwhile. `change` gives back what is as it should be."""
    schedules = facet(store, Schedules)
    now = None
    while True:
        look: ScheduleLook = yield schedules.schedules([name])
        if not look.records:
            raise ScheduleNotFound(name)
        known = look.records[0]
        now = look.now if now is None else now
        wanted = change(known, now)
        if wanted == known:
            return known
        yield from _put(schedules, wanted, known.version)


def redefined(record: ScheduleRecord, definition: Definition, now: int) -> ScheduleRecord:
    """A schedule with another definition. Its next tick stays unless what is new is about when it ticks."""
    times = attrgetter("rule", "start", "end", "offset", "max_runs")
    if times(definition) == times(record.definition):
        return replace(record, definition=definition)
    return replace(record, definition=definition, next=first_tick(definition, now), started=None, finished=None)


# -- a schedule that is stored -------------------------------------------------------------------------------


class StoredSchedule:
    """A handle on a schedule. Attributes show it as it was when last looked at; `refresh()` looks again.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> @app.task
    ... def tidy() -> None: ...
    >>> schedule = tidy.every("every hour").enqueue()
    >>> schedule.pause()
    >>> schedule.paused
    True
    >>> schedule.edit(every="every 30 minutes", queue="slow")
    >>> schedule.rule, schedule.queue
    ('every 30 minutes UTC', 'slow')
    >>> schedule.delete()
    True
    """

    def __init__(self, app: Headrace, record: ScheduleRecord) -> None:
        self.app = app
        self.name = record.name
        self.record = record
        """Everything the store knows about it, as of the last look."""

    def __repr__(self) -> str:
        return f"<schedule {self.name}>"

    # -- looking --

    @property
    def rule(self) -> str:
        return self.record.definition.rule

    @property
    def task(self) -> str:
        return self.record.definition.task

    @property
    def queue(self) -> str:
        return self.record.definition.queue

    @property
    def paused(self) -> bool:
        return self.record.paused

    @property
    def declared_by(self) -> str | None:
        """The app that declares it in code; None: it was stored at run time."""
        return self.record.definition.declared_by

    @property
    def runs(self) -> int:
        """How many jobs it has put so far."""
        return self.record.runs

    @property
    def next(self) -> datetime | None:
        """When it ticks next. None: it is paused, or over, or repeats when its job has ended."""
        return None if self.record.paused else as_datetime(self.record.next)

    def upcoming(self, count: int = 10) -> list[datetime]:
        """Its next ticks, as far as they are known now."""
        ticks: list[int] = []
        tick = None if self.record.paused or self.record.finished is not None else self.record.next
        definition = self.record.definition
        if definition.max_runs is not None:
            count = min(count, definition.max_runs - self.record.runs)
        while tick is not None and len(ticks) < count:
            ticks.append(tick)
            try:
                tick = None if definition.follows else tick_after(definition, tick)
            except ScheduleError:
                break  # a rule of somebody else's that there are no words for here
        return [cast("datetime", as_datetime(tick)) for tick in ticks]

    @property
    def last_tick(self) -> datetime | None:
        return as_datetime(self.record.last_tick)

    @property
    def last_job(self) -> Job[Any] | None:
        """The job it has put last."""
        return None if self.record.last_job is None else Job(self.app, self.record.last_job)

    def refresh(self) -> StoredSchedule:
        """Look again. Raises `ScheduleNotFound` when it is gone."""
        self._change(lambda record, _: record)
        return self

    async def arefresh(self) -> StoredSchedule:
        """The same, from async code."""
        await self._achange(lambda record, _: record)
        return self

    # -- acting --

    def pause(self) -> None:
        """Stop ticking. What it has put already stays."""
        self._change(paused)

    async def apause(self) -> None:
        """The same, from async code."""
        await self._achange(paused)

    def resume(self) -> None:
        """Go on with the next tick from now on; those that came while it was paused are passed over."""
        self._change(resumed)

    async def aresume(self) -> None:
        """The same, from async code."""
        await self._achange(resumed)

    def edit(self, **changes: Unpack[ScheduleEdits]) -> None:
        """Change it while it is in use: the rule (`every`, `cron` or `repeat`), task, arguments, options.

        What is left out stays. Jobs that it has put already stay as they are. One that is declared in code gets what
        its code says when a worker starts.
        """
        self._change(edits(self.app, changes))

    async def aedit(self, **changes: Unpack[ScheduleEdits]) -> None:
        """The same, from async code."""
        await self._achange(edits(self.app, changes))

    def delete(self) -> bool:
        """Remove it; jobs that it has put stay. False: it was gone already."""
        return self.app.store.run(facet(self.app.store, Schedules).delete_schedule(self.name))

    async def adelete(self) -> bool:
        """The same, from async code."""
        return await self.app.store.arun(facet(self.app.store, Schedules).delete_schedule(self.name))

    def _change(self, change: Callable[[ScheduleRecord, int], ScheduleRecord]) -> None:
        self.record = run_course(self.app.store, changing(self.app.store, self.name, change))

    async def _achange(self, change: Callable[[ScheduleRecord, int], ScheduleRecord]) -> None:
        self.record = await arun_course(self.app.store, changing(self.app.store, self.name, change))


def paused(record: ScheduleRecord, now: int, by: str | None = None) -> ScheduleRecord:
    """A schedule that stops. One that has stopped stays as it is."""
    return record if record.paused else replace(record, paused=True, paused_at=now, paused_by=by)


def resumed(record: ScheduleRecord, now: int) -> ScheduleRecord:
    """A schedule that goes on."""
    if not record.paused:
        return record
    return replace(record, paused=False, paused_at=None, paused_by=None, next=first_tick_again(record, now))


_RULES = ("every", "cron", "repeat")
_OF_JOBS = editable("schedule")


def edits(app: Headrace, changes: ScheduleEdits) -> Callable[[ScheduleRecord, int], ScheduleRecord]:
    """A function that makes these changes to a schedule."""
    known = [name for name in ScheduleEdits.__annotations__ if name != "name"]
    unknown = set(changes) - set(known)
    if unknown:
        raise ConfigurationError(f"A schedule has no {min(unknown)!r} to edit. It has {', '.join(known)}.")
    if len([rule for rule in _RULES if rule in changes]) > 1:
        raise ConfigurationError("One rule at a time: every, cron or repeat.")
    if "tz" in changes and not ({"every", "cron"} & set(changes)):
        raise ConfigurationError("tz is the zone of a rule: write the rule, too (every or cron).")

    def change(record: ScheduleRecord, now: int) -> ScheduleRecord:
        definition = record.definition
        fields = _check_options(changes, app, now)
        for kind in _RULES:
            if kind in changes:
                fields["rule"] = rule_of(kind, cast("Any", changes)[kind], changes.get("tz", app.zone.key))
        if {"task", "args", "kwargs"} & set(changes):
            fields |= _what_runs(app, definition, changes)
        of_jobs = {name: value for name, value in changes.items() if name in _OF_JOBS}
        fields |= edited_fields("edit()", of_jobs, _OF_JOBS, definition.options)
        if fields.get("carry_data") and "overlap" not in fields and definition.overlap is Overlap.ALLOW:
            fields["overlap"] = Overlap.SKIP
        # `start` says from when strict intervals count; without it, an edit keeps the anchor.
        base = opened(definition) if "start" in fields else definition
        edited = anchored(_checked(replace(base, **fields)), definition, now)
        return record if edited == definition else redefined(record, edited, now)

    return change


def _what_runs(app: Headrace, definition: Definition, changes: ScheduleEdits) -> dict[str, Any]:
    """The task and its arguments, if these fit."""
    name = _name_of(app, changes.get("task", definition.task))
    if name not in app.tasks:
        raise ConfigurationError(f"This app has no task {name!r}, so its arguments can't be checked here.")
    arguments = app.tasks[name].arguments
    if "args" in changes or "kwargs" in changes:
        given = tuple(changes.get("args", ())), dict(changes.get("kwargs", {}))
        return {"task": name, "body": arguments.encode(*given, app.payload_limit)}
    try:
        arguments.decode(definition.body)
    except ArgumentsError as error:
        raise ConfigurationError(f"The schedule keeps its arguments, but {error}. Give it others, too.") from None
    return {"task": name}


def _name_of(app: Headrace, task: Task[..., Any] | SharedTask[..., Any] | str) -> str:
    if isinstance(task, SharedTask):
        return task.of(app).name
    if isinstance(task, Task):
        if app.tasks.get(task.name) is not task:
            raise ConfigurationError(f"{task.name} is a task of another app: name one of this app.")
        return task.name
    if not isinstance(task, str):
        raise ConfigurationError(f"task= takes a task or its name, not {task!r}.")
    return task
