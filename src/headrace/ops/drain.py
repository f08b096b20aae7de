"""Jobs that wait move from one store to another, step by step, while both are in use.

A step of a native store or Qless claims jobs: it moves them into a paused queue of the source, where no worker gets
them; puts them at the target under their own ids; and deletes them at the source. A native target gets them parked, so
that none is run before a second queue of the source says that it was brought; a drain that continues after a crash
finds in these queues how far each job has come, whatever the target has done with it meanwhile. Jobs that dependencies
relate move as one family, all or none: a store fails a job whose parent is removed. The wires of other
systems have no such place: there a step leases jobs (`headrace.ops.leasing`), puts them at the target under ids made
of theirs, and settles them as done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from itertools import compress, groupby
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from headrace import crashpoints
from headrace.errors import ConfigurationError, Unsupported
from headrace.ops import audit, leasing
from headrace.ops.carrier import Carrier, Left, Names, Reasons, can_claim, keeps_ids
from headrace.ops.families import WAITING, families, parts
from headrace.ops.forms import threaded
from headrace.ops.holds import Held, held_at
from headrace.ops.sidings import BROUGHT, CLAIMED, base
from headrace.records import Filter, ScheduleRecord, Snapshot, State
from headrace.store import Store
from headrace.store.contract import Facet
from headrace.store.courses import run_course
from headrace.store.facets import Edit, Editing, Queues, Schedules, facet
from headrace.store.paging import list_schedules, pages
from headrace.store.urls import shown_url
from headrace.values.text import now_ms

if TYPE_CHECKING:
    from headrace.app import Headrace

AT_ONCE = 100
"""How many jobs one step moves, at most."""
MOST_LEFT = 1_000
"""How many jobs may stay behind in a queue before the drain gives the queue up: it meets them again and again."""
GIVEN_UP = (
    f"{MOST_LEFT:,} jobs at the head of the line can't be moved, and those behind them were not looked at. See to "
    "those at the head, and start the drain again."
)
IDLE_SECONDS = 1.0

AS_THEY_ARE = Names()
Advance: TypeAlias = Callable[[int], object]


class Running(Struct, frozen=True):
    """Jobs that run at the source. They stay: they end there, or come back when their leases run out."""

    number: int
    since: int | None = None
    """When the first of them began, in milliseconds, where the source says so."""
    until: int | None = None
    """When the last lease runs out, unless it is renewed, where the source says so."""


class Drained(Struct, frozen=True):
    """What a drain has done."""

    jobs: int
    schedules: int
    left: list[Left]
    running: Running
    held: list[Held]
    """Queues and tasks of the target whose jobs wait there, as they are paused or blocked at the source."""


class Plan(Drained, frozen=True):
    """What a drain would do."""

    warnings: list[str]


# -- what to do ------------------------------------------------------------------------------------------


def plan(app: Headrace, target: Headrace, names: Names = AS_THEY_ARE) -> Plan:
    """Look at every job that waits, and ask the target whether it would take it. Writes nothing.

    (A PostgreSQL schema that is not there is created, empty.)
    """
    source, reasons, jobs = app.store, Reasons(), 0
    target._create_store()
    _check_apart(source, target.store, probing=False)
    carry = Carrier(source, target.store, names, reasons)
    schedules = [record for record, _ in _movable(source, carry)]
    carry.hold_back((record.definition for record in schedules), only_look=True)
    for family in families(source, AT_ONCE):
        carry.refuses(family, AT_ONCE)
    for accepted in _carriable(source, carry) if can_claim(source) else leasing.would_move(source, carry, AT_ONCE):
        carry.hold_back(accepted, only_look=True)
        jobs += len(accepted)
    warnings = list(_warnings(source, target.store, carry.held))
    return Plan(jobs, len(schedules), reasons.summary(), _running(source), carry.held, warnings)


aplan = threaded(plan)


def _carriable(source: Store, carry: Carrier) -> Iterator[list[Snapshot]]:
    for page in pages(source, Filter(states=WAITING, limit=AT_ONCE)):
        yield carry.acceptable(job for job in page if not _stays(job, carry))


def drain(
    app: Headrace,
    target: Headrace,
    names: Names = AS_THEY_ARE,
    *,
    rate: float | None = None,
    follow: bool = False,
    advance: Advance = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Drained:
    """Move all jobs that wait and all schedules. `rate`: at most so many jobs per second. `follow`: go on for ever.

    `stopped` is asked between steps. What was begun and not finished is finished by the next drain.
    """
    source, reasons, moved = app.store, Reasons(), 0
    target._create_store()
    _check_apart(source, target.store, probing=True)
    carry = Carrier(source, target.store, names, reasons)
    schedules = _move_schedules(source, carry)
    rested, is_over = time.monotonic(), False
    while not is_over:
        before = moved
        while source.run(source.sweep()).more:  # what dead workers, or a drain that was killed, have left
            pass
        with closing(_steps(source, carry)) as steps:
            for number in steps:
                moved += number
                advance(number)
                if rate is not None:  # a pause saves up nothing
                    rested = max(rested, time.monotonic() - 1) + number / rate
                    _rest(rested, stopped)
                if is_over := stopped():
                    break
        moved += leasing.finish_arrivals(source, carry, AT_ONCE)
        if moved == before and not is_over:
            if follow:
                _rest(time.monotonic() + IDLE_SECONDS, stopped)
            is_over = not follow or stopped()
    if not stopped():
        _note_what_stays(source, carry)
    _write_down(source, target.store, moved, schedules)
    return Drained(moved, schedules, reasons.summary(), _running(source), carry.held)


adrain = threaded(drain)


def _rest(until: float, stopped: Callable[[], bool]) -> None:
    while (left := until - time.monotonic()) > 0 and not stopped():
        time.sleep(min(left, 0.1))


def _note_what_stays(source: Store, carry: Carrier) -> None:
    for family in families(source, AT_ONCE):
        carry.refuses(family, AT_ONCE)
    for jobs in () if can_claim(source) else leasing.would_move(source, carry, AT_ONCE):
        for job in jobs:
            carry.reasons.add(f"job {job.id}", leasing.NOT_HANDED_OUT)


def _write_down(source: Store, target: Store, jobs: int, schedules: int) -> None:
    """The drain is an act of an operator, at both stores."""
    for store, where in ((source, f"to {shown_url(target.url)}"), (target, f"from {shown_url(source.url)}")):
        about = f"{where}: jobs {jobs:,}, schedules {schedules:,}" if jobs or schedules else ""
        run_course(store, audit.note(store, "drain", about))


def _running(source: Store) -> Running:
    number = sum(counts.by_state.get(State.RUNNING, 0) for counts in source.run(source.counts()))
    if not number:
        return Running(0)
    jobs = source.run(source.find(Filter(states=(State.RUNNING,), limit=AT_ONCE))).jobs
    ends = [job.due for job in jobs if job.due > now_ms()]  # of a job that runs, this is the end of its lease
    begins = [job.started for job in jobs if job.started is not None]
    return Running(number, min(begins, default=None), max(ends, default=None))


def _warnings(source: Store, target: Store, held: Sequence[Held]) -> Iterator[str]:
    there = held_at(target) if held else {}
    for one in held:
        if (one.what, one.name) not in there:
            yield (
                f"{one.what.capitalize()} {one.name} would be {one.how} at {shown_url(target.url)}, as it is at the "
                f"source: what others put there for it waits as well, until {one.until!r}."
            )
    if not keeps_ids(target):
        yield (
            f"{shown_url(target.url)} does not know a job by an id of ours: jobs have other ids there, and if the "
            f"drain is killed, the {AT_ONCE} jobs of one step may come twice."
        )
    if not can_claim(source):
        yield (
            f"{shown_url(source.url)} hands out jobs by leases only: stop its workers, or a job whose drain was "
            "killed may run there too."
        )


def _check_apart(source: Store, target: Store, *, probing: bool) -> None:
    """A store is not drained into itself: its jobs would be deleted. As it may have several URLs, a pause at the
    source that shows at the target tells, too."""
    same = source.url == target.url
    if probing and not same and can_claim(source) and can_claim(target):
        here, probe = facet(source, Queues), f"drain {uuid4().hex}"
        source.run(here.pause(probe, "headrace drain"))
        try:
            same = any(control.queue == probe for control in target.run(facet(target, Queues).controls()))
        finally:
            source.run(here.resume(probe))
    if same:
        raise ConfigurationError(f"{shown_url(source.url)} and {shown_url(target.url)} are the same store.")


# -- at the source -----------------------------------------------------------------------------------------


def _steps(source: Store, carry: Carrier) -> Generator[int]:
    """Move what waits now, some at a time: how many have moved by each step."""
    if can_claim(source):
        return _claim_and_move(source, carry)
    return leasing.lease_and_move(source, carry, AT_ONCE, MOST_LEFT, GIVEN_UP)


def _claim_and_move(source: Store, carry: Carrier) -> Generator[int]:
    queues = facet(source, Queues)
    names = {counts.queue for counts in source.run(source.counts())}
    try:
        yield from _move_families(source, carry)
        for queue in sorted({base(name) for name in names}):
            for siding in (queue + BROUGHT, queue + CLAIMED):
                source.run(queues.pause(siding, "headrace drain"))
                if siding in names:  # what a drain has left that was killed
                    for page in pages(source, Filter(states=WAITING, queue=siding, limit=AT_ONCE)):
                        yield _move(source, queue, page[::-1], carry)
            yield from _move_queue(source, queue, carry)
            _resume_sidings(source, {queue})
    except GeneratorExit:  # it was stopped between two steps
        _resume_sidings(source, {base(name) for name in names})
        raise


def _move_queue(source: Store, queue: str, carry: Carrier) -> Iterator[int]:
    editing, behind = facet(source, Editing), 0
    while behind < MOST_LEFT and (jobs := _next_in_line(source, queue, behind, carry)):
        ids = [job.id for job in carry.acceptable(jobs)]
        behind += len(jobs) - len(ids)
        crashpoints.passing("drain.claiming")
        if ids:
            source.run(editing.edit(ids, Edit(queue=queue + CLAIMED)))
            claimed = [job for job in source.run(source.get(ids)) if job is not None and job.state in WAITING]
            yield _move(source, queue, [job for job in claimed if job.queue == queue + CLAIMED], carry)
    if behind >= MOST_LEFT:
        carry.reasons.add(f"queue {queue}", GIVEN_UP)


def _resume_sidings(source: Store, of: Collection[str]) -> None:
    """The sidings of these queues that have nothing in them are no longer paused, and so no longer listed."""
    queues = facet(source, Queues)
    used = {counts.queue for counts in source.run(source.counts())}
    for control in source.run(queues.controls()):
        if control.queue.endswith((CLAIMED, BROUGHT)) and base(control.queue) in of and control.queue not in used:
            source.run(queues.resume(control.queue))


def _move_families(source: Store, carry: Carrier) -> Iterator[int]:
    """Move related jobs: all are claimed first; parents come to the target first, and leave the source last."""
    found = families(source, AT_ONCE)
    carry.related = {name for family in found for name in family.ids}
    for family in found:
        if family.tied or carry.refuses(family, AT_ONCE) or not _claim(source, family.ids):
            _give_back(source, carry, family.ids)
            continue
        brought: list[Snapshot] = []
        for part in parts(family.ids, AT_ONCE):
            jobs, before = [job for job in source.run(source.get(part)) if job is not None], len(brought)
            for queue, claimed in groupby(jobs, lambda job: base(job.queue)):
                brought += _all_brought(source, queue, list(claimed), carry)
            if len(brought) < before + len(jobs):  # another job at the target has a unique key of one of them
                brought = _take_back(source, brought, carry)
                break
        _give_back(source, carry, family.ids)
        for some in parts(brought, AT_ONCE) if carry.parks else ():
            carry.release(some)
            crashpoints.passing("drain.released")
        for some in parts(brought[::-1], AT_ONCE):
            source.run(source.delete([job.id for job in some]))
            crashpoints.passing("drain.deleted")
            carry.related -= {job.id for job in some}
            yield len(some)


def _take_back(source: Store, brought: Sequence[Snapshot], carry: Carrier) -> list[Snapshot]:
    """Remove jobs from the target that are parked there, as another one of their family can't come. Which remain:
    those that a drain before this one has brought, and may have released."""
    if not carry.parks:
        return list(brought)
    parked = [job for job in reversed(brought) if job.queue.endswith(CLAIMED)]
    for job in parked:
        source.run(facet(source, Editing).edit([job.id], Edit(queue=job.queue)))
    for part in parts([job.id for job in parked], AT_ONCE):
        carry.target.run(carry.target.delete(part))
    return [job for job in brought if not job.queue.endswith(CLAIMED)]


def _claim(source: Store, ids: Sequence[str]) -> bool:
    """Keep the workers of the source from these jobs. False: one of them has been taken, or is gone."""
    queues, editing = facet(source, Queues), facet(source, Editing)
    for part in parts(ids, AT_ONCE):
        homes: dict[str, list[str]] = {}
        for job in source.run(source.get(part)):
            if job is None or job.state not in WAITING:
                return False
            if not job.queue.endswith((CLAIMED, BROUGHT)):
                homes.setdefault(job.queue, []).append(job.id)
        crashpoints.passing("drain.claiming")
        for queue, names in homes.items():
            source.run(queues.pause(queue + BROUGHT, "headrace drain"))
            source.run(queues.pause(queue + CLAIMED, "headrace drain"))
            claimed = source.run(editing.edit(names, Edit(queue=queue + CLAIMED)))
            if not all(claimed):
                return False
    return True


def _give_back(source: Store, carry: Carrier, ids: Sequence[str]) -> None:
    """Jobs that are claimed, by this drain or by one that was killed, and not at the target, go where they were."""
    for part in parts(ids, AT_ONCE):
        jobs = [job for job in source.run(source.get(part)) if job is not None and job.queue.endswith(CLAIMED)]
        there = carry.target.run(carry.target.get([job.id for job in jobs])) if jobs else []
        for job in (job for job, twin in zip(jobs, there, strict=True) if twin is None):
            source.run(facet(source, Editing).edit([job.id], Edit(queue=base(job.queue))))


def _next_in_line(source: Store, queue: str, behind: int, carry: Carrier) -> list[Snapshot]:
    """The next jobs of a queue that may be moved: in line, then those for later, then those that their lanes block."""
    ready = source.run(facet(source, Editing).peek(queue, AT_ONCE + behind + min(len(carry.related), MOST_LEFT)))
    found = [job for job in ready if not _stays(job, carry)]
    if found:
        return found[:AT_ONCE]
    for state in (State.SCHEDULED, State.BLOCKED):
        for page in pages(source, Filter(states=(state,), queue=queue, limit=AT_ONCE)):
            found = [job for job in page if not _stays(job, carry)]
            if found:
                return found
    return []


def _stays(job: Snapshot, carry: Carrier) -> bool:
    return job.id in carry.related or f"job {job.id}" in carry.reasons.ids


def _move(source: Store, queue: str, jobs: Sequence[Snapshot], carry: Carrier) -> int:
    """Move claimed jobs of a queue, from wherever each has come to. How many have moved."""
    brought = _all_brought(source, queue, jobs, carry)
    if brought and carry.parks:
        carry.release(brought)
        crashpoints.passing("drain.released")
    if brought:
        source.run(source.delete([job.id for job in brought]))
        crashpoints.passing("drain.deleted")
    return len(brought)


def _all_brought(source: Store, queue: str, jobs: Sequence[Snapshot], carry: Carrier) -> list[Snapshot]:
    """Which of these are at the target, as those that are claimed only are brought there."""
    carry.hold_back(jobs)
    claimed = [job for job in jobs if job.queue == queue + CLAIMED]
    new = _bring(source, queue, claimed, carry) if claimed else []
    there = {job.id for job in new}
    return [job for job in jobs if job.queue == queue + BROUGHT or job.id in there]


def _bring(source: Store, queue: str, jobs: Sequence[Snapshot], carry: Carrier) -> list[Snapshot]:
    """Bring claimed jobs to the target: those that are there now. Those that it does not take go back."""
    editing = facet(source, Editing)
    crashpoints.passing("drain.claimed")
    there = carry.bring(jobs)
    crashpoints.passing("drain.put")
    brought = list(compress(jobs, there))
    back = [job.id for job, is_there in zip(jobs, there, strict=True) if not is_there]
    if back:
        source.run(editing.edit(back, Edit(queue=queue)))
    if brought and carry.parks:
        source.run(editing.edit([job.id for job in brought], Edit(queue=queue + BROUGHT)))
        crashpoints.passing("drain.brought")
    return brought


# -- schedules ---------------------------------------------------------------------------------------------


def _movable(source: Store, carry: Carrier) -> Iterator[tuple[ScheduleRecord, ScheduleRecord]]:
    """Schedules that the target would take, each with what it would be there; why the others stay is noted."""
    here = held_at(source)
    for record in run_course(source, list_schedules(source)) if Facet.SCHEDULES in source.facets else ():
        definition, names = record.definition, carry.names
        moved = replace(
            definition,
            task=names.tasks.get(definition.task, definition.task),
            queue=carry.queue_at_target(definition.task, definition.queue),
        )
        new = replace(record, definition=moved, version=0)
        try:
            facet(carry.target, Schedules).put_schedule(new, None)  # describes it only
            why = carry.unheld(definition, here)
        except (ConfigurationError, Unsupported) as error:
            why = str(error)
        if why:
            carry.reasons.add(f"schedule {record.name}", why)
        else:
            yield record, new


def _move_schedules(source: Store, carry: Carrier) -> int:
    """A schedule that is at the target already is left there, and here, unless it is the same."""
    moved, target = 0, carry.target
    for record, new in _movable(source, carry):
        here, there = facet(source, Schedules), facet(target, Schedules)
        carry.hold_back([record.definition])
        put = target.run(there.put_schedule(new, None))
        crashpoints.passing("drain.schedule")
        found = target.run(there.schedules([record.name])).records
        if put or (found and found[0].definition == new.definition):
            source.run(here.delete_schedule(record.name))
            moved += 1
        else:
            carry.reasons.add(f"schedule {record.name}", f"{shown_url(target.url)} has another schedule of this name.")
    return moved
