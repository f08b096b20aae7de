"""Jobs that wait move from one store to another, step by step, while both are in use.

A step of a native store or Qless claims jobs: it moves them into a paused queue of the source, where no worker gets
them; puts them at the target under their own ids; and deletes them at the source. A native target gets them parked, so
that none is run before a second queue of the source says that it was brought; a drain that continues after a crash
finds in these queues how far each job has come, whatever the target has done with it meanwhile. The wires of other
systems have no such place: there a step leases jobs like a worker, puts them at the target under ids made of theirs,
and settles them as done.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from headrace import crashpoints
from headrace.errors import ConfigurationError, Unsupported
from headrace.ops.copy import past_of
from headrace.ops.forms import threaded
from headrace.records import (
    Filter,
    Kind,
    Lease,
    NewJob,
    Outcome,
    ScheduleRecord,
    SessionInfo,
    Snapshot,
    State,
    Take,
    spec_of,
)
from headrace.store import Store
from headrace.store.contract import Facet
from headrace.store.facets import PARKED, Edit, Editing, Queues, Restoring, Schedules, facet
from headrace.store.urls import shown_url

if TYPE_CHECKING:
    from headrace.app import Headrace

AT_ONCE = 100
"""How many jobs one step moves, at most."""
CLAIMED, BROUGHT = " (draining)", " (drained)"
"""What the names of the queues end with that a job is in which is claimed, and which is parked at the target, too."""
MOST_LEFT = 1_000
"""How many jobs may stay behind in a queue before the drain gives the queue up: it meets them again and again."""
IDLE_SECONDS = 1.0

WAITING = (State.READY, State.SCHEDULED, State.BLOCKED)
Advance: TypeAlias = Callable[[int], object]


class Names(Struct, frozen=True):
    """What is called otherwise at the target."""

    tasks: Mapping[str, str] = {}
    queues: Mapping[str, str] = {}


AS_THEY_ARE = Names()


class Left(Struct, frozen=True):
    """Jobs or schedules that were not carried, for one reason."""

    why: str
    number: int
    example: str


class Plan(Struct, frozen=True):
    """What a drain would do."""

    jobs: int
    schedules: int
    left: list[Left]
    warnings: list[str]


class Drained(Struct, frozen=True):
    """What a drain has done."""

    jobs: int
    schedules: int
    left: list[Left]


class _Reasons:
    """Why something stays behind: counted, with one example each."""

    def __init__(self) -> None:
        self._met: dict[str, list[str]] = {}
        self.ids: set[str] = set()

    def add(self, what: str, why: str) -> None:
        if what not in self.ids:
            self.ids.add(what)
            self._met.setdefault(why, []).append(what)

    def summary(self) -> list[Left]:
        return [Left(why, len(ids), ids[0]) for why, ids in self._met.items()]


# -- what to do ------------------------------------------------------------------------------------------


def plan(app: Headrace, target: Headrace, names: Names = AS_THEY_ARE) -> Plan:
    """Look at every job that waits, and ask the target whether it would take it. Writes nothing."""
    source, reasons, jobs = app.store, _Reasons(), 0
    for page in _pages(source, Filter(states=WAITING, limit=AT_ONCE)):
        for job in page:
            if _is_acceptable(target.store, _new_job(source, target.store, job, names), reasons):
                jobs += 1
    schedules = sum(1 for _ in _schedules(source)) if _both_have_schedules(source, target.store) else 0
    return Plan(jobs, schedules, reasons.summary(), list(_warnings(source, target.store)))


aplan = threaded(plan)


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
    source, reasons, moved = app.store, _Reasons(), 0
    schedules = _move_schedules(source, target.store, names, reasons)
    carry = _Carrier(source, target.store, names, reasons)
    began = time.monotonic()
    while True:
        before = moved
        for number in _steps(source, carry):
            moved += number
            advance(number)
            if rate is not None:
                _rest(began + moved / rate, stopped)
            if stopped():
                return Drained(moved, schedules, reasons.summary())
        if not follow and moved == before:
            return Drained(moved, schedules, reasons.summary())
        if moved == before:
            _rest(time.monotonic() + IDLE_SECONDS, stopped)


adrain = threaded(drain)


def _rest(until: float, stopped: Callable[[], bool]) -> None:
    while (left := until - time.monotonic()) > 0 and not stopped():
        time.sleep(min(left, 0.1))


def _warnings(source: Store, target: Store) -> Iterator[str]:
    if not _keeps_ids(target):
        yield (
            f"{shown_url(target.url)} does not know a job by an id of ours: if the drain is killed, the {AT_ONCE} "
            "jobs of one step may come twice."
        )
    if not _can_claim(source):
        yield (
            f"{shown_url(source.url)} hands out jobs by leases only: stop its workers, or a job whose drain was "
            "killed may run there too."
        )
    if Facet.SCHEDULES in source.facets and Facet.SCHEDULES not in target.facets and any(_schedules(source)):
        yield f"{shown_url(target.url)} has no schedules: those of {shown_url(source.url)} stay."


def _keeps_ids(store: Store) -> bool:
    return isinstance(store, Restoring) or Facet.EDIT in store.facets


def _can_claim(store: Store) -> bool:
    return {Facet.EDIT, Facet.QUEUES} <= store.facets


def _both_have_schedules(source: Store, target: Store) -> bool:
    return Facet.SCHEDULES in source.facets and Facet.SCHEDULES in target.facets


# -- at the target -----------------------------------------------------------------------------------------


def _new_job(source: Store, target: Store, job: Snapshot | Lease, names: Names) -> NewJob:
    """A job of the source as the target is to have it. Due times keep the order, where a target has any."""
    queue = _base(job.queue)
    later = isinstance(job, Snapshot) and job.state is State.SCHEDULED
    values: dict[str, Any] = {
        "id": job.id if _can_claim(source) else _derived(source, job.id),
        "task": names.tasks.get(job.task, job.task),
        "queue": names.queues.get(queue, queue),
        "data": job.data,
        "run_at": job.due if later or (job.due and Facet.DELAY in target.facets) else None,
    }
    if isinstance(job, Lease):
        return NewJob(body=job.body, priority=job.priority, options=job.options, max_crashes=job.max_crashes, **values)
    related = {"unique_key": job.unique_key, "after": job.after, "if_failed": job.if_failed}
    return NewJob(**{**spec_of(job), **values, **related})


def _base(queue: str) -> str:
    """The queue that a job was in before the drain."""
    return queue.removesuffix(CLAIMED).removesuffix(BROUGHT)


def _derived(source: Store, job_id: str) -> str:
    """An id that is the same in every run, and that no other installation of the same system comes to."""
    return hashlib.blake2s(f"{shown_url(source.url)} {job_id}".encode(), digest_size=16).hexdigest()


def _is_acceptable(target: Store, job: NewJob, reasons: _Reasons) -> bool:
    try:
        target.put([job])  # describes it only: what can't be carried is refused here
    except (ConfigurationError, Unsupported) as error:
        reasons.add(f"job {job.id}", str(error))
        return False
    return True


class _Carrier:
    """Brings jobs to the target."""

    def __init__(self, source: Store, target: Store, names: Names, reasons: _Reasons) -> None:
        self.source, self.target, self.names, self.reasons = source, target, names, reasons

    def acceptable(self, jobs: Iterable[Any]) -> list[Any]:
        new = ((job, _new_job(self.source, self.target, job, self.names)) for job in jobs)
        return [job for job, made in new if _is_acceptable(self.target, made, self.reasons)]

    @property
    def parks(self) -> bool:
        """Whether a job that was brought waits for its release."""
        return _can_claim(self.source) and isinstance(self.target, Restoring)

    def bring(self, jobs: Sequence[Any]) -> list[bool]:
        """Which of these jobs are at the target now."""
        new = [_new_job(self.source, self.target, job, self.names) for job in jobs]
        if self.parks:
            new = [replace(job, run_at=PARKED) for job in new]
        puts = self.target.run(self.target.put(new))
        there = [put.id == job.id or not _keeps_ids(self.target) for put, job in zip(puts, new, strict=True)]
        for put, job, is_there in zip(puts, new, there, strict=True):
            if not is_there:
                self.reasons.add(f"job {job.id}", f"Job {put.id} has its unique key {job.unique_key!r}.")
        return there

    def release(self, jobs: Sequence[Snapshot]) -> None:
        """Let those that are parked at the target run there. One that has been released is left alone."""
        assert isinstance(self.target, Restoring)
        self.target.run(self.target.restore([past_of(job) for job in jobs]))


# -- at the source -----------------------------------------------------------------------------------------


def _steps(source: Store, carry: _Carrier) -> Iterator[int]:
    """Move what waits now, some at a time: how many have moved by each step."""
    return _claim_and_move(source, carry) if _can_claim(source) else _lease_and_move(source, carry)


def _claim_and_move(source: Store, carry: _Carrier) -> Iterator[int]:
    editing, queues = facet(source, Editing), facet(source, Queues)
    names = {counts.queue for counts in source.run(source.counts())}
    for queue in sorted({_base(name) for name in names}):
        kept = (queue + BROUGHT, queue + CLAIMED)
        for name in kept:
            source.run(queues.pause(name, "headrace drain"))
        for name in names.intersection(kept):  # what a drain has left that was killed
            for page in _pages(source, Filter(states=WAITING, queue=name, limit=AT_ONCE)):
                yield _move(source, queue, page[::-1], carry)
        behind = 0
        while behind < MOST_LEFT and (jobs := _next_in_line(source, queue, behind, carry)):
            ids = [job.id for job in carry.acceptable(jobs)]
            behind += len(jobs) - len(ids)
            _reach("drain.claiming")
            if ids:
                source.run(editing.edit(ids, Edit(queue=queue + CLAIMED)))
                claimed = [job for job in source.run(source.get(ids)) if job is not None and job.state in WAITING]
                yield _move(source, queue, [job for job in claimed if job.queue == queue + CLAIMED], carry)
        for name in kept:
            source.run(queues.resume(name))


def _next_in_line(source: Store, queue: str, behind: int, carry: _Carrier) -> list[Snapshot]:
    """The next jobs of a queue that may be moved: in line, then those for later, then those that wait for jobs which
    are not at the source any more."""
    ready = source.run(facet(source, Editing).peek(queue, AT_ONCE + behind))
    found = [job for job in ready if not _stays(job, carry)]
    if found:
        return found[:AT_ONCE]
    for state in (State.SCHEDULED, State.BLOCKED):
        for page in _pages(source, Filter(states=(state,), queue=queue, limit=AT_ONCE)):
            found = [job for job in page if not _stays(job, carry) and not _is_tied(source, job)]
            if found:
                return found
    return []


def _stays(job: Snapshot, carry: _Carrier) -> bool:
    return f"job {job.id}" in carry.reasons.ids


def _is_tied(source: Store, job: Snapshot) -> bool:
    """Whether it waits for a job that is at the source and has not ended."""
    parents = source.run(source.get(list(job.after))) if job.after else []
    return any(parent is not None and not parent.state.final for parent in parents)


def _move(source: Store, queue: str, jobs: Sequence[Snapshot], carry: _Carrier) -> int:
    """Move claimed jobs of a queue, from wherever each has come to. How many have moved."""
    brought = [job for job in jobs if job.queue == queue + BROUGHT]
    claimed = [job for job in jobs if job.queue == queue + CLAIMED]
    if claimed:
        brought += _bring(source, queue, claimed, carry)
    if brought and carry.parks:
        carry.release(brought)
        _reach("drain.released")
    if brought:
        source.run(source.delete([job.id for job in brought]))
        _reach("drain.deleted")
    return len(brought)


def _bring(source: Store, queue: str, jobs: Sequence[Snapshot], carry: _Carrier) -> list[Snapshot]:
    """Bring claimed jobs to the target: those that are there now. Those that it does not take go back."""
    editing = facet(source, Editing)
    _reach("drain.claimed")
    there = carry.bring(jobs)
    _reach("drain.put")
    brought = [job for job, is_there in zip(jobs, there, strict=True) if is_there]
    back = [job.id for job, is_there in zip(jobs, there, strict=True) if not is_there]
    if back:
        source.run(editing.edit(back, Edit(queue=queue)))
    if brought and carry.parks:
        source.run(editing.edit([job.id for job in brought], Edit(queue=queue + BROUGHT)))
        _reach("drain.brought")
    return brought


def _lease_and_move(source: Store, carry: _Carrier) -> Iterator[int]:
    queues = tuple(counts.queue for counts in source.run(source.counts()))
    if not queues:
        return
    session, number = uuid4().hex, 0
    # Some wires hand out nothing but what a worker says to know.
    tasks = tuple({job.task for page in _pages(source, Filter(states=WAITING, limit=AT_ONCE)) for job in page})
    source.run(source.open(SessionInfo(id=session, name="headrace drain", queues=queues, tasks=tasks)))
    kept: list[Outcome] = []
    outcomes: list[Outcome] = []
    try:
        while len(kept) < MOST_LEFT:
            number += 1
            reply = source.run(source.exchange(session, number, outcomes, Take(queues, slots=AT_ONCE)))
            _reach("drain.claimed")
            if not reply.leases:
                break
            leases = carry.acceptable(reply.leases)
            moved = {lease.id for lease, there in zip(leases, carry.bring(leases), strict=True) if there}
            _reach("drain.put")
            outcomes = [_outcome(lease, Kind.DONE) for lease in reply.leases if lease.id in moved]
            kept += [_outcome(lease, Kind.RELEASED) for lease in reply.leases if lease.id not in moved]
            if len(moved) < len(reply.leases) or len(reply.leases) < AT_ONCE:
                number += 1
                source.run(source.exchange(session, number, outcomes))
                outcomes = []
            yield len(moved)
    finally:
        source.run(source.exchange(session, number + 1, [*outcomes, *kept]))
        source.run(source.close_session(session))
    yield from _move_later_ones(source, carry)


def _outcome(lease: Lease, kind: Kind) -> Outcome:
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind)


def _move_later_ones(source: Store, carry: _Carrier) -> Iterator[int]:
    """Jobs that are due later can't be leased: they are put at the target, and deleted here long before their time."""
    for page in _pages(source, Filter(states=(State.SCHEDULED,), limit=AT_ONCE)):
        jobs = carry.acceptable(page)
        gone = [job.id for job, there in zip(jobs, carry.bring(jobs), strict=True) if there]
        _reach("drain.put")
        if gone:
            source.run(source.delete(gone))
            yield len(gone)


def _pages(source: Store, wanted: Filter) -> Iterator[list[Snapshot]]:
    """Jobs, page by page; none again that has gone meanwhile."""
    asked: Filter | None = wanted
    while asked is not None:
        page = source.run(source.find(asked))
        if page.jobs:
            yield page.jobs
        asked = None if page.cursor is None else replace(wanted, after=page.cursor)


def _reach(point: str) -> None:
    if crashpoints.armed:
        crashpoints.reach(point)


# -- schedules ---------------------------------------------------------------------------------------------


def _schedules(source: Store) -> Iterator[ScheduleRecord]:
    after, more = "", True
    while more:
        look = source.run(facet(source, Schedules).schedules(after=after, limit=AT_ONCE))
        yield from look.records
        after, more = (look.records[-1].name, look.more) if look.records else ("", False)


def _move_schedules(source: Store, target: Store, names: Names, reasons: _Reasons) -> int:
    """A schedule that is at the target already is left there, and here, unless it is the same."""
    if not _both_have_schedules(source, target):
        return 0
    here, there = facet(source, Schedules), facet(target, Schedules)
    moved = 0
    for record in list(_schedules(source)):
        definition = replace(
            record.definition,
            task=names.tasks.get(record.definition.task, record.definition.task),
            queue=names.queues.get(record.definition.queue, record.definition.queue),
        )
        try:
            put = target.run(there.put_schedule(replace(record, definition=definition), None))
        except (ConfigurationError, Unsupported) as error:
            reasons.add(f"schedule {record.name}", str(error))
            continue
        _reach("drain.schedule")
        found = target.run(there.schedules([record.name])).records
        if put or (found and found[0].definition == definition):
            source.run(here.delete_schedule(record.name))
            moved += 1
        else:
            reasons.add(f"schedule {record.name}", f"{shown_url(target.url)} has another schedule of this name.")
    return moved
