"""docs/contract.md as plain Python: a store of dicts, one lock and no cleverness.

It is the reference that random histories compare every other store with, and a store under test itself.
A method `_name` does what the operation `name` describes; read them next to the page.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from headrace.clock import Clock, SystemClock
from headrace.errors import ConfigurationError, DependencyCycle, NoWorkers, SessionGone, StaleRequest
from headrace.glob import any_fits, fits, is_glob, matcher
from headrace.job import (
    Charge,
    Counts,
    Event,
    Filter,
    IfFailed,
    Kind,
    Lane,
    Lease,
    NewJob,
    Outcome,
    Page,
    Put,
    Ref,
    Renewal,
    Report,
    SessionInfo,
    SessionSnapshot,
    Snapshot,
    State,
    Swept,
    Take,
    Token,
    Turn,
    Verdict,
)
from headrace.settings import DEFINITIONS, checked
from headrace.stats import DAY, tally_of
from headrace.store import rules
from headrace.store.contract import CORE_FACETS, Durability, Facet, NoGuard, Operation
from headrace.store.facets import (
    DETAIL,
    Batch,
    Circumstances,
    DayStats,
    Edit,
    Happening,
    LaneSnapshot,
    QueueControl,
    ScheduleRecord,
    Tally,
)

from .ears import Ear
from .model_schedules import ScheduleModel

T = TypeVar("T")

WAITING = (State.SCHEDULED, State.READY, State.BLOCKED)
PROMOTED_AT_MOST = 1_000
LISTENS = 60_000
EVENTS_KEPT = 10_000


class Step(Operation[T]):
    """An operation, described: call it to do it."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[..., T], *args: object, **kwargs: object) -> None:
        self.act = partial(act, *args, **kwargs)


@dataclass(eq=False)
class Job:
    ref: int
    """Never used again; grows with every put, so it is the order of arrival, too."""
    id: str
    task: str
    queue: str
    state: State
    priority: int
    body: bytes
    options: bytes | None
    created: int
    due: int
    max_crashes: int
    unique_key: str | None
    unique_until: int | None
    former_key: str | None = None
    started: int | None = None
    finished: int | None = None
    attempts: int = 0
    crashes: int = 0
    token: int = 0
    session: str = ""
    """Who holds it, or held it last."""
    worker: str = ""
    handed_out: tuple[int, int] = (0, 0)
    """By which number of the session's requests, and as which of its leases."""
    spare: bool = False
    data: bytes | None = None
    progress: tuple[float, float] | None = None
    result: bytes | None = None
    error: bytes | None = None
    group: str | None = None
    cancelling: bool = False
    deferred_since: int | None = None
    after: tuple[str, ...] = ()
    if_failed: IfFailed = IfFailed.WAIT
    lane: Lane | None = None
    tags: tuple[str, ...] = ()
    tracked: bool = False
    schedule: str | None = None
    tick: int | None = None
    delay: int | None = None
    """To count from when the last dependency is met. None: it is due when it is due."""
    in_lanes_line: bool = False
    """Blocked because it is not its turn."""
    result_dropped: bool = False
    events: list[Event] = field(default_factory=list)

    def place(self) -> tuple[int, int, int]:
        return -self.priority, self.due, self.ref


def _most(names: Iterable[str], limit: int) -> list[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:limit]


@dataclass(eq=False)
class Edge:
    """One job waits for another."""

    number: int
    parent: Job
    child: Job
    policy: IfFailed


@dataclass(eq=False)
class Ended:
    """A job that others may wait for came to an end: some of its edges are still to be looked at."""

    parent: Job
    how: State | None
    """None: it was removed."""
    met: bool
    seen: int
    """The edges up to this number have been looked at,"""
    upto: int
    """and those up to this one are to be."""


@dataclass(eq=False)
class LaneRecord:
    lane: Lane
    front: Job | None = None
    """The one that stands in the queue's line, or will when the rate allows it."""
    turn: Job | None = None
    """In a sequence: the one that the others wait for."""
    starts: list[int] = field(default_factory=list)
    """The last `rate` of them."""
    taken: int = 0
    """How many of its jobs the present take has handed out."""

    def earliest(self) -> int:
        """When the rate allows the next start."""
        rate = self.lane.rate
        return 0 if rate is None or len(self.starts) < rate else self.starts[-rate] + self.lane.per

    def remembers(self, now: int) -> bool:
        return bool(self.starts) and max(self.starts) + self.lane.per > now


@dataclass(eq=False)
class Session:
    info: SessionInfo
    opened: int
    seen_at: int
    """On the wall clock, for people; `seen` is what expiry is measured by."""
    seen: int
    number: int = 0
    answer: list[Verdict] | list[bool] = field(default_factory=list)
    closed: bool = False


class Model(ScheduleModel):
    """The contract."""

    url = "model:"
    facets = CORE_FACETS | {
        Facet.TAGS, Facet.STATISTICS, Facet.SETTINGS, Facet.RELATIONS, Facet.LANES, Facet.QUEUES, Facet.EDIT,
        Facet.WHY, Facet.EVENTS, Facet.SCHEDULES,
    }  # fmt: skip
    durability = Durability.NONE
    leases_in_jobs = False

    def __init__(
        self, *, clock: Clock | None = None, keep_done: int | None = None, keep_failed: int | None = None
    ) -> None:
        self.clock = clock or SystemClock()
        self.keep_done = keep_done
        self.keep_failed = keep_failed
        self.jobs: dict[str, Job] = {}
        self.known_schedules: dict[str, ScheduleRecord] = {}
        self.known_sessions: dict[str, Session] = {}
        self.ears: list[Ear] = []
        self.lock = threading.Lock()
        self.last_ref = 0
        self.edges: list[Edge] = []
        self.last_edge = 0
        self.ended: list[Ended] = []
        self.lanes: dict[tuple[str, str], LaneRecord] = {}
        self.queue_controls: dict[str, QueueControl] = {}
        self.set: dict[str, int] = {}
        self.ran: list[tuple[str, int, int, int]] = []
        """Queue, day, wait and run of all jobs that were ever done."""
        self.counted: Counter[tuple[str, str, int]] = Counter()
        self.listened_until = 0
        self.happenings: list[Happening] = []
        """Since somebody first listened."""

    def run(self, operation: Operation[T]) -> T:
        assert isinstance(operation, Step)
        with self.lock:
            return operation.act()

    async def arun(self, operation: Operation[T]) -> T:
        return self.run(operation)

    def close(self) -> None:
        pass

    # -- put --

    def put(self, jobs: Sequence[NewJob]) -> Step[list[Put]]:
        return Step(self._put, jobs)

    def _put(self, jobs: Sequence[NewJob]) -> list[Put]:
        rules.check_batch(jobs)
        if any(new.require_worker and not self._has_worker(new) for new in jobs):
            raise NoWorkers
        for new in jobs:
            self._check_lane(new)
        answers = [self._put_one(new) for new in jobs]
        self._work_off()
        return answers

    def _put_one(self, new: NewJob) -> Put:
        if new.unique_key is None:
            if new.id in self.jobs:
                return Put(new.id, True)
        else:
            holder = self._holder(new.unique_key)
            if holder and not (new.replace and holder.state in WAITING):
                return Put(holder.id, False)
            same_id = self.jobs.get(new.id)
            if same_id and same_id is not holder and not same_id.state.final:
                return Put(new.id, False)
            if holder:
                self._happened(holder, "deleted", "replaced")
                self._remove(holder)
            self._make_way(new)
        self._insert(new)
        return Put(new.id, True)

    def _has_worker(self, new: NewJob) -> bool:
        return any(
            any_fits(session.info.queues, new.queue) and new.task in session.info.tasks
            for session in self._open_sessions()
            if not self._expired(session)
        )

    def _holder(self, key: str) -> Job | None:
        for job in self.jobs.values():
            kept = job.unique_until is not None and self.clock.now() < job.unique_until
            if job.unique_key == key and (not job.state.final or kept):
                return job
        return None

    def _make_way(self, new: NewJob) -> None:
        if new.id in self.jobs:
            self._happened(self.jobs[new.id], "deleted", "replaced")
            self._remove(self.jobs[new.id])
        for job in self.jobs.values():
            if job.unique_key == new.unique_key:
                job.former_key, job.unique_key = job.unique_key, None

    def _insert(self, new: NewJob) -> None:
        now = self.clock.now()
        due = now + (new.delay or 0) if new.run_at is None else new.run_at
        self.last_ref += 1
        job = self.jobs[new.id] = Job(
            ref=self.last_ref,
            id=new.id,
            task=new.task,
            queue=new.queue,
            state=State.READY,
            priority=new.priority,
            body=new.body,
            options=new.options,
            created=now,
            due=due,
            max_crashes=new.max_crashes,
            unique_key=new.unique_key,
            unique_until=None if new.unique_for is None else now + new.unique_for,
            tags=tuple(sorted(set(new.tags))),
            schedule=new.schedule,
            tick=new.tick,
            data=new.data,
            after=new.after,
            if_failed=new.if_failed,
            lane=new.lane,
        )
        self._note(job, "created")
        self._happened(job, "created")
        if job.lane is not None:
            self._define_lane(job, job.lane)
        culprit = self._come_after(job, new.after, job.if_failed)
        if culprit is not None:
            job.due = due
            self._fail_with(job, culprit, culprit.state)
            return
        if self._unmet(job) and new.run_at is None:
            job.delay = new.delay or 0
        self._wait_in_line(job, due)

    # -- looking --

    def get(self, ids: Sequence[str]) -> Step[list[Snapshot | None]]:
        return Step(lambda: [self._snapshot(self.jobs[i]) if i in self.jobs else None for i in ids])

    def find(self, wanted: Filter) -> Step[Page]:
        return Step(self._find, wanted)

    def _find(self, wanted: Filter) -> Page:
        found = [
            job
            for job in sorted(self.jobs.values(), key=lambda job: -job.ref)
            if (not wanted.states or job.state in wanted.states)
            and wanted.queue in (None, job.queue)
            and wanted.task in (None, job.task)
            and wanted.group in (None, job.group)
            and (wanted.task_like is None or matcher(wanted.task_like)(job.task))
            and (wanted.tag is None or wanted.tag in job.tags)
            and wanted.tracked in (None, job.tracked)
            and (wanted.worker is None or (job.state is State.RUNNING and job.worker == wanted.worker))
            and wanted.schedule in (None, job.schedule)
            and (wanted.after is None or job.ref < int(wanted.after))
        ]
        page = found[: wanted.limit]
        cursor = str(page[-1].ref) if len(found) > len(page) else None
        return Page([self._snapshot(job) for job in page], cursor)

    def counts(self) -> Step[list[Counts]]:
        return Step(self._counts)

    def _counts(self) -> list[Counts]:
        queues = sorted({job.queue for job in self.jobs.values()})
        return [
            Counts(queue, dict(Counter(job.state for job in self.jobs.values() if job.queue == queue)))
            for queue in queues
        ]

    def history(self, job_id: str) -> Step[list[Event]]:
        return Step(self._history, job_id)

    def _history(self, job_id: str) -> list[Event]:
        events = self.jobs[job_id].events if job_id in self.jobs else []
        return events[:1] + events[1:][1 - self._setting("max-job-history") :]

    # -- cancel, delete, revive --

    def cancel(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._cancel(i) for i in ids]))

    def _cancel(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state is State.DONE:
            return False
        if job.state is State.RUNNING:
            if not job.cancelling:
                self._happened(job, "cancelling")
            job.cancelling = True
            self._tell(session=job.session)
        elif job.state is not State.CANCELLED:
            self._finish(job, State.CANCELLED, self.clock.now())
            self._note(job, "cancelled")
            self._happened(job, "cancelled")
        return True

    def delete(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._delete(i) for i in ids]))

    def _delete(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None:
            return False
        self._happened(job, "deleted")
        self._remove(job)
        return True

    def _remove(self, job: Job) -> None:
        """Every way out of the store."""
        del self.jobs[job.id]
        self.edges = [edge for edge in self.edges if edge.child is not job]
        self._has_ended(job, None, met=job.state is State.DONE)
        self._leave(job)
        self._left_lane(job, job.queue)
        if job.state is State.RUNNING:
            self._left_running(job.queue)
        if not job.state.final:
            self._schedule_hears(job)
            self._tell(session=job.session, job=job.id)

    def revive(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._revive(i) for i in ids]))

    def _revive(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state not in (State.FAILED, State.CANCELLED):
            return False
        if job.former_key and any(
            other.unique_key == job.former_key and not other.state.final for other in self.jobs.values()
        ):
            return False
        job.attempts = job.crashes = 0
        job.error = job.group = job.finished = job.deferred_since = None
        self._note(job, "revived")
        self._happened(job, "revived")
        self.edges = [edge for edge in self.edges if edge.child is not job or self._unfinished(edge.parent)]
        job.delay = None
        self._wait_in_line(job, self.clock.now())
        return True

    # -- tags, tracking, failures --

    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Step[list[bool]]:
        return Step(self._tag, ids, add, remove)

    def _tag(self, ids: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> list[bool]:
        for job in self._known(ids):
            job.tags = tuple(sorted(set(job.tags) - set(remove) | set(add)))
        return [job_id in self.jobs for job_id in ids]

    def tags(self, limit: int = 50) -> Step[list[tuple[str, int]]]:
        return Step(lambda: _most((tag for job in self.jobs.values() for tag in job.tags), limit))

    def track(self, ids: Sequence[str], on: bool = True) -> Step[list[bool]]:
        return Step(self._track, ids, on)

    def _track(self, ids: Sequence[str], on: bool) -> list[bool]:
        for job in self._known(ids):
            job.tracked = on
        return [job_id in self.jobs for job_id in ids]

    def failures(self, limit: int = 50) -> Step[list[tuple[str, int]]]:
        failed = (job for job in self.jobs.values() if job.state is State.FAILED)
        return Step(lambda: _most((job.group or "" for job in failed), limit))

    def _known(self, ids: Sequence[str]) -> list[Job]:
        return [self.jobs[job_id] for job_id in ids if job_id in self.jobs]

    # -- sessions --

    def open(self, session: SessionInfo) -> Step[int]:
        return Step(self._open, session)

    def _open(self, info: SessionInfo) -> int:
        if info.id not in self.known_sessions:
            self.known_sessions[info.id] = Session(info, self.clock.now(), self.clock.now(), self.clock.steady())
        if self.known_sessions[info.id].closed:
            raise SessionGone
        return self.clock.now()

    def guard(self, session: str) -> NoGuard:
        return NoGuard()

    def renew(
        self, session: str, held: Sequence[tuple[Ref, Token, str]] = (), *, started: Sequence[Ref] = ()
    ) -> Step[Renewal]:
        return Step(self._renew, session, held, started)

    def _renew(self, session_id: str, named: Sequence[tuple[Ref, Token, str]], started: Sequence[Ref]) -> Renewal:
        session = self._live(session_id)
        self._mark_seen(session)
        self._mark_started(session, started)
        held = {(job.ref, job.token): job for job in self._held(session)}
        return Renewal(
            self.clock.now(),
            [job_id for ref, token, job_id in named if (ref, token) not in held],
            [job_id for ref, token, job_id in named if (ref, token) in held and held[ref, token].cancelling],
        )

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Step[list[str]]:
        return Step(lambda: self._and_work_off(self._close_session(session, crashed)))

    def _close_session(self, session_id: str, crashed: Sequence[Ref] | None) -> list[str]:
        session = self.known_sessions.get(session_id)
        if session is None or session.closed:
            return []
        held = sorted(self._held(session), key=lambda job: job.ref)
        for job in held:
            died = not job.spare if crashed is None else job.ref in crashed
            kind, note = (Kind.CRASHED, "its worker died") if died else (Kind.RELEASED, "")
            if crashed is None:
                self._happened(job, "lost", worker=job.worker)
            self._end(job, Outcome(ref=job.ref, token=job.token, id=job.id, kind=kind, note=note), 0)
            job.token += 1
        session.closed = True
        return [job.id for job in held]

    def sessions(self) -> Step[list[SessionSnapshot]]:
        return Step(self._sessions)

    def _sessions(self) -> list[SessionSnapshot]:
        return [
            SessionSnapshot(
                info=session.info,
                opened=session.opened,
                seen=session.seen_at,
                running=len(self._held(session)),
                alive=not self._expired(session),
            )
            for session in self._open_sessions()
        ]

    def sweep(self) -> Step[Swept]:
        return Step(self._sweep)

    def _sweep(self) -> Swept:
        age = self._setting("max-worker-age")
        expired = [
            session.info.id
            for session in self._open_sessions()
            if self._expired(session) or self.clock.steady() - session.seen >= max(age, session.info.timeout)
        ]
        returned = [job_id for session in expired for job_id in self._close_session(session, None)]
        self._drop_results()
        ended = (State.DONE, State.FAILED, State.CANCELLED)
        given_up = [job for job in self.jobs.values() if self._given_up(job)]
        for job in sorted(given_up, key=lambda job: (ended.index(job.state), job.finished, job.ref)):
            self._remove(job)
        self._work_off()
        for key in list(self.lanes):
            self._forget_lane(key)
        tick = self._next_tick()
        ticks_in = None if tick is None else max(0, tick - self.clock.now())
        return Swept(len(expired), len(returned), len(given_up), bool(self.ended), ticks_in)

    def _given_up(self, job: Job) -> bool:
        if job.finished is None:
            return False
        done = job.state is State.DONE
        given = self.keep_done if done else self.keep_failed
        keep = self._setting("jobs-history" if done else "failed-history") if given is None else given
        most = self._setting("jobs-history-count" if done else "failed-history-count")
        newer = sum(other.state is job.state and other.finished > job.finished for other in self.jobs.values())
        return job.finished + keep < self.clock.now() or newer >= most

    def _drop_results(self) -> None:
        keep = self._setting("results-history")
        for job in self.jobs.values():
            if keep is not None and job.state is State.DONE and job.finished + keep < self.clock.now():
                job.result_dropped |= job.result is not None
                job.result = None

    # -- statistics --

    def stats(self, queue: str, day: int) -> Step[DayStats]:
        return Step(self._stats, queue, day)

    def _stats(self, queue: str, day: int) -> DayStats:
        today = self.clock.now()
        if day < (today - self._setting("stats-history")) // DAY:
            return DayStats(queue=queue, day=day)
        waits, runs = (tally_of([row[i] for row in self.ran if row[:2] == (queue, day)]) for i in (2, 3))
        if day < (today - self._setting("histogram-history")) // DAY:
            waits, runs = (Tally(tally.count, tally.total, tally.squares) for tally in (waits, runs))
        failed = [job for job in self.jobs.values() if job.state is State.FAILED and job.queue == queue]
        return DayStats(
            queue=queue,
            day=day,
            wait=waits,
            run=runs,
            retries=self.counted["retries", queue, day],
            failures=self.counted["failures", queue, day],
            failed=sum(job.finished // DAY == day for job in failed),
        )

    # -- settings --

    def settings(self) -> Step[dict[str, int]]:
        return Step(lambda: dict(self.set))

    def set_settings(self, changes: dict[str, int | None]) -> Step[None]:
        return Step(self._set_settings, checked(changes))

    def _set_settings(self, changes: dict[str, int | None]) -> None:
        merged = {**self.set, **changes}
        self.set = {name: value for name, value in merged.items() if value is not None}

    def _setting(self, name: str) -> Any:
        return self.set.get(name, DEFINITIONS[name].default)

    # -- exchange and report --

    def exchange(
        self,
        session: str,
        number: int,
        outcomes: Sequence[Outcome] = (),
        take: Take | None = None,
        *,
        steady: int = 0,
        started: Sequence[Ref] = (),
    ) -> Step[Turn]:
        return Step(self._exchange, session, number, outcomes, take, steady, started)

    def _exchange(
        self,
        session_id: str,
        number: int,
        outcomes: Sequence[Outcome],
        take: Take | None,
        steady: int,
        started: Sequence[Ref],
    ) -> Turn:
        session = self._live(session_id)
        if not self._is_repeat(session, number):
            self._mark_started(session, started)
            session.answer = [self._settle(session, outcome, steady) for outcome in outcomes]
            self._work_off()
            if take is not None:
                self._take(session, number, take)
        self._mark_seen(session)
        handed_out = [job for job in self._held(session) if job.handed_out[0] == number]
        scheduled = [job.due for job in self.jobs.values() if job.state is State.SCHEDULED]
        return Turn(
            session.answer,
            [self._lease(job) for job in handed_out],
            self.clock.now(),
            self.clock.now() if self.ended else min(scheduled, default=None),
            self._next_tick(),
        )

    def report(self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0) -> Step[list[bool]]:
        return Step(self._report, session, number, reports, steady)

    def _report(self, session_id: str, number: int, reports: Sequence[Report], steady: int) -> list[bool]:
        session = self._live(session_id)
        if not self._is_repeat(session, number):
            session.answer = [self._record(session, report, steady) for report in reports]
        self._mark_seen(session)
        return session.answer

    def _record(self, session: Session, report: Report, steady: int) -> bool:
        job = self._by_ref(report.ref)
        if job is None or not self._holds(session, job, report.token):
            return False
        if report.progress is not None:
            job.progress = report.progress
            self._happened(job, "progress", "{:.14g}/{:.14g}".format(*report.progress), job.worker)
        if report.data is not None:
            job.data = report.data
        for at, line in report.log:
            self._note(job, "log", line, self.clock.now() - (steady - at))
            self._happened(job, "log", line, job.worker)
        return True

    def _is_repeat(self, session: Session, number: int) -> bool:
        if number < session.number:
            raise StaleRequest
        repeat = number == session.number
        session.number = number
        return repeat

    def _take(self, session: Session, number: int, take: Take) -> None:
        now = self.clock.now()
        scheduled = [j for j in self.jobs.values() if j.state is State.SCHEDULED and j.due <= now]
        for job in sorted(scheduled, key=lambda job: (job.due, job.ref))[:PROMOTED_AT_MOST]:
            self._fall_due(job)
        queues = self._queues_of(take)
        turn = 0
        for index in range(take.slots + take.spare):
            spare = index >= take.slots
            order = self._order(queues, turn, spare) if take.round_robin else queues
            job = next(filter(None, (self._head(queue, spare) for queue in order)), None)
            if job is None:
                break
            turn = queues.index(job.queue) + 1
            job.state = State.RUNNING
            job.token += 1
            job.session = session.info.id
            job.worker = session.info.name
            job.handed_out = (number, index)
            job.spare = spare
            job.started = now
            self._note(job, "started")
            self._happened(job, "started", worker=job.worker)
            self._started_in_lane(job)
        for lane in self.lanes.values():
            lane.taken = 0

    def _order(self, queues: list[str], turn: int, spare: bool) -> list[str]:
        """Whose turn it is, and who comes next if that one has nothing."""
        return queues[turn:] + queues[:turn]

    def _queues_of(self, take: Take) -> list[str]:
        """Names, each once, with the queues that have ready jobs in the place of a pattern that they match."""
        ready = sorted({job.queue for job in self.jobs.values() if job.state is State.READY})
        named = [[queue for queue in ready if fits(name, queue)] if is_glob(name) else [name] for name in take.queues]
        return list(dict.fromkeys(queue for names in named for queue in names))

    def _head(self, queue: str, spare: bool) -> Job | None:
        """What would be handed out next."""
        control = self.queue_controls.get(queue)
        if control and control.paused_at is not None:
            return None
        if control and control.limit is not None and (spare or len(self._running(queue)) >= control.limit):
            return None
        head = self._first(self._ready(queue))
        return None if head and head.lane and spare else head

    def _first(self, line: list[Job]) -> Job | None:
        return min(line, key=Job.place, default=None)

    def _ready(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.state is State.READY and job.queue == queue]

    def _running(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.state is State.RUNNING and job.queue == queue]

    def _settle(self, session: Session, outcome: Outcome, steady: int) -> Verdict:
        job = self._by_ref(outcome.ref)
        if job is None or job.token != outcome.token or job.session != session.info.id:
            return Verdict.STALE
        if job.state is not State.RUNNING:
            return Verdict.ALREADY
        self._end(job, outcome, steady)
        return Verdict.OK

    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        self._apply(job, outcome, steady, given_back)
        what = job.events[-1].what
        if outcome.kind is Kind.WAITING and what == "failed":
            return  # told already
        detail = outcome.note if job.finished is None else (job.group or "") if what == "failed" else ""
        self._happened(job, what, detail, job.worker)

    def _apply(self, job: Job, outcome: Outcome, steady: int, given_back: str) -> None:
        """The table "What an outcome does"."""
        now = self.clock.now()
        kind = outcome.kind
        queue = job.queue
        cancelled = job.cancelling and kind is not Kind.DONE
        job.cancelling = False
        job.spare = False
        if outcome.charge is Charge.ATTEMPT:
            job.attempts += 1
        if kind is Kind.CRASHED:
            job.crashes += 1
        if outcome.charge is not Charge.DEFERRAL:
            job.deferred_since = None
        elif job.deferred_since is None:
            job.deferred_since = now
        if outcome.data is not None:
            job.data = outcome.data
        if outcome.error is not None:
            job.error = outcome.error
        if outcome.began is not None:
            job.started = now - (steady - outcome.began)
        ended = now if outcome.ended is None else now - (steady - outcome.ended)
        due = now + outcome.delay if outcome.at is None else outcome.at

        if cancelled:
            job.group = outcome.group or job.group
            self._finish(job, State.CANCELLED, ended)
            self._note(job, "cancelled")
        elif kind is Kind.DONE:
            job.result = outcome.result
            job.error = job.group = None
            self._finish(job, State.DONE, ended)
            self._note(job, "done")
        elif kind is Kind.AGAIN:
            self.counted["retries", job.queue, ended // DAY] += outcome.charge is Charge.ATTEMPT
            job.group = outcome.group or job.group
            self._note(job, "deferred" if outcome.charge is Charge.DEFERRAL else "retried", outcome.note)
            self._wait_in_line(job, due)
        elif kind in (Kind.FAILED, Kind.BROKEN):
            job.group = outcome.group if kind is Kind.FAILED else "broken"
            self._finish(job, State.FAILED, ended)
            self._note(job, "failed", outcome.note or job.group or "")
        elif kind is Kind.CRASHED and job.crashes >= job.max_crashes:
            job.group = "crashed"
            self._finish(job, State.FAILED, ended)
            self._note(job, "failed")
        elif kind in (Kind.RELEASED, Kind.CRASHED):
            self._note(job, "crashed" if kind is Kind.CRASHED else given_back)
            self._wait_in_line(job, job.due, was_due=True)
        elif kind is Kind.MOVED:
            job.queue = outcome.queue or job.queue
            job.task = outcome.task or job.task
            job.body = job.body if outcome.body is None else outcome.body
            job.attempts = job.crashes = 0
            self._note(job, "moved")
            job.state = State.SCHEDULED
            if job.queue != queue:
                self._left_lane(job, queue)
            self._wait_in_line(job, due)
        elif kind is Kind.WAITING:
            self._wait_for_children(job, outcome.after)
        self._left_running(queue)

    # -- admission: where a job that wants to run goes --

    def _wait_in_line(self, job: Job, due: int, *, was_due: bool = False) -> None:
        """`was_due`: it is given back, and so stands in line whatever the clock says now."""
        job.due = due
        later = due > self.clock.now() and not was_due
        lane = self._lane_of(job)
        if self._unmet(job):
            job.state = State.BLOCKED
        elif lane and lane.turn is job:
            self._begin_turn(lane, job, later)
        elif later and not (lane and lane.lane.sequence):
            job.state = State.SCHEDULED
        elif lane:
            job.state = State.BLOCKED
            job.in_lanes_line = True
        else:
            job.state = State.READY
        if lane:
            self._admit(lane)
        self._tell(queue=job.queue)

    def _fall_due(self, job: Job) -> None:
        """A scheduled job's time has come."""
        lane = self._lane_of(job)
        if lane and lane.front is job:
            job.state = State.READY
        else:
            self._wait_in_line(job, job.due)

    def _leave(self, job: Job) -> None:
        """Out of whatever line it stands in."""
        lane = self.lanes.get((job.queue, job.lane.key)) if job.lane else None
        if lane and lane.front is job:
            lane.front = None
        job.in_lanes_line = False

    # -- relations --

    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Step[bool]:
        return Step(lambda: self._and_work_off(self._depend(job_id, add, remove)))

    def _depend(self, job_id: str, add: Sequence[str], remove: Sequence[str]) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state not in WAITING:
            return False
        lane = self._lane_of(job)
        if add and job.lane and lane and lane.lane.sequence:
            raise ConfigurationError(rules.no_dependencies_in(job.queue, job.lane))
        for parent_id in add:
            if self._is_waited_for([parent_id], job):
                raise rules.cycle(job_id, parent_id)
        waited = self._unmet(job)
        kept = [i for i in job.after if i not in remove or i in add]
        job.after = tuple(kept + [i for i in dict.fromkeys(add) if i not in kept])
        self.edges = [
            edge
            for edge in self.edges
            if edge.child is not job or edge.parent.id in add or edge.parent.id not in remove
        ]
        culprit = self._come_after(job, add, job.if_failed)
        if culprit is not None:
            self._fail_with(job, culprit, culprit.state)
        elif waited and not self._unmet(job):
            self._release(job)
        elif not waited and self._unmet(job):
            self._leave(job)
            self._wait_in_line(job, job.due)
        return True

    def _unmet(self, job: Job) -> list[Edge]:
        return [edge for edge in self.edges if edge.child is job]

    def _unfinished(self, job: Job) -> bool:
        return self.jobs.get(job.id) is job and not job.state.final

    def _come_after(self, child: Job, ids: Sequence[str], policy: IfFailed) -> Job | None:
        """Let a job wait for others. Answers with the first of them because of which it fails at once."""
        culprit = None
        for parent in [self.jobs[i] for i in ids if i in self.jobs]:
            if parent.state is State.DONE or (parent.state.final and policy is IfFailed.RUN):
                continue
            if parent not in [edge.parent for edge in self._unmet(child)]:
                self.last_edge += 1
                self.edges.append(Edge(self.last_edge, parent, child, policy))
            if parent.state.final and policy is IfFailed.FAIL and culprit is None:
                culprit = parent
        return culprit

    def _is_waited_for(self, ids: Sequence[str], job: Job) -> bool:
        """Whether one of these is the job, or waits for it, by whatever detour."""
        ahead = [self.jobs[i] for i in ids if i in self.jobs]
        seen = set(ahead)
        looked_at = 0
        while ahead:
            other = ahead.pop()
            if other is job:
                return True
            edges = self._unmet(other)
            looked_at += len(edges)
            if looked_at > rules.EDGES_TO_CHECK:
                raise rules.too_deep(job.id)
            parents = {edge.parent for edge in edges} - seen
            seen |= parents
            ahead += parents
        return False

    def _wait_for_children(self, job: Job, ids: Sequence[str]) -> None:
        lane = self._lane_of(job)
        why = ""
        if job.lane and lane and lane.lane.sequence:
            why = rules.no_dependencies_in(job.queue, job.lane)
        else:
            try:
                children = [i for i in ids if i in self.jobs and not self.jobs[i].state.final]
                why = rules.WAITS_FOR_ITSELF if self._is_waited_for(children, job) else ""
            except DependencyCycle:
                why = rules.TOO_DEEP_TO_WAIT
        if why:
            self._fail(job, why)
            return
        job.after = tuple(ids)
        self._come_after(job, ids, IfFailed.RUN)
        job.delay = 0 if self._unmet(job) else None
        self._note(job, "waiting")
        self._wait_in_line(job, self.clock.now())

    def _has_ended(self, job: Job, how: State | None, *, met: bool) -> None:
        """Note it, if somebody waits for it."""
        numbers = [edge.number for edge in self.edges if edge.parent is job]
        if numbers:
            self.ended.append(Ended(job, how, met, 0, max(numbers)))

    def _and_work_off(self, answer: T) -> T:
        self._work_off()
        return answer

    def _work_off(self) -> None:
        """Tell those who wait for what has ended, in bounded steps."""
        left = rules.EDGES_IN_A_STEP
        while self.ended and left:
            ended = self.ended[0]
            edges = [e for e in self.edges if e.parent is ended.parent and ended.seen < e.number <= ended.upto]
            for edge in edges[:left]:
                self._look_at(edge, ended)
                ended.seen = edge.number
            if len(edges) <= left:
                self.ended.pop(0)
            left -= min(left, len(edges))

    def _look_at(self, edge: Edge, ended: Ended) -> None:
        child = edge.child
        met = ended.met or edge.policy is IfFailed.RUN
        if met or ended.how is None:
            self.edges.remove(edge)
        if child.state is not State.BLOCKED:
            return
        if not met and (ended.how is None or edge.policy is IfFailed.FAIL):
            self._fail_with(child, ended.parent, ended.how)
        elif not self._unmet(child):
            self._release(child)

    def _release(self, job: Job) -> None:
        due = job.due if job.delay is None else self.clock.now() + job.delay
        job.delay = None
        self._wait_in_line(job, due)

    def _fail_with(self, job: Job, parent: Job, how: State | None) -> None:
        words = {State.FAILED: rules.FAILED_PARENT, State.CANCELLED: rules.CANCELLED_PARENT, None: rules.REMOVED_PARENT}
        self._fail(job, words[how].format(parent.id))

    def _fail(self, job: Job, why: str) -> None:
        job.error, job.group = rules.dependency_error(why), rules.DEPENDENCY
        self._finish(job, State.FAILED, self.clock.now())
        self._note(job, "failed")
        self._happened(job, "failed", rules.DEPENDENCY)

    # -- lanes --

    def lane(self, queue: str, key: str) -> Step[LaneSnapshot | None]:
        return Step(self._lane_snapshot, queue, key)

    def _lane_snapshot(self, queue: str, key: str) -> LaneSnapshot | None:
        self._forget_lane((queue, key))
        lane = self.lanes.get((queue, key))
        if lane is None:
            return None
        members = sorted(self._members(queue, key), key=lambda job: job.ref)
        running = [job.id for job in members if job.state is State.RUNNING or lane.turn is job]
        return LaneSnapshot(
            queue=queue,
            lane=lane.lane,
            running=tuple(running[: rules.SHOWN]),
            front=lane.front.id if lane.front else None,
            blocked=sum(job.in_lanes_line for job in members),
            next_start=lane.earliest() if lane.earliest() > self.clock.now() else None,
        )

    def _members(self, queue: str, key: str) -> list[Job]:
        """Its unfinished jobs."""
        jobs = [job for job in self.jobs.values() if job.lane and (job.queue, job.lane.key) == (queue, key)]
        return [job for job in jobs if not job.state.final]

    def _lane_of(self, job: Job) -> LaneRecord | None:
        return self.lanes.setdefault((job.queue, job.lane.key), LaneRecord(job.lane)) if job.lane else None

    def _check_lane(self, new: NewJob) -> None:
        if new.lane is not None and new.id not in self.jobs and self._lane_clashes(new.queue, new.lane):
            raise rules.not_both(new.queue, new.lane)

    def _lane_clashes(self, queue: str, wanted: Lane) -> bool:
        lane = self.lanes.get((queue, wanted.key))
        return bool(lane and lane.lane.sequence != wanted.sequence and self._members(queue, wanted.key))

    def _define_lane(self, job: Job, definition: Lane) -> None:
        """The newest put says what a lane is. Who stands in line by the old rules is looked at anew."""
        lane = self._lane_of(job)
        assert lane
        if lane.lane == definition:
            return
        lane.lane = definition
        lane.starts = lane.starts[-definition.rate :] if definition.rate else []
        front, lane.front = lane.front, None
        if front and lane.turn is front:
            self._make_front(lane, front)
        elif front:
            front.state = State.BLOCKED
            front.in_lanes_line = True
        self._admit(lane)

    def _admit(self, lane: LaneRecord) -> None:
        """Give the next one its turn, if it is time."""
        line = [job for job in self.jobs.values() if job.in_lanes_line and self._lane_of(job) is lane]
        if not line or lane.front or lane.turn:
            return
        if lane.lane.sequence:
            lane.turn = min(line, key=lambda job: job.ref)
            self._begin_turn(lane, lane.turn, lane.turn.due > self.clock.now())
        else:
            head = min(line, key=Job.place)
            running = [job for job in self._members(head.queue, lane.lane.key) if job.state is State.RUNNING]
            if lane.lane.limit is None or len(running) < lane.lane.limit:
                self._make_front(lane, head)

    def _begin_turn(self, lane: LaneRecord, job: Job, later: bool) -> None:
        job.in_lanes_line = False
        if later:
            job.state = State.SCHEDULED
            self._tell(queue=job.queue)
        else:
            self._make_front(lane, job)

    def _make_front(self, lane: LaneRecord, job: Job) -> None:
        now = self.clock.now()
        job.in_lanes_line = False
        job.due = max(now + lane.taken, lane.earliest())
        job.state = State.READY if lane.earliest() <= now else State.SCHEDULED
        lane.front = job
        self._tell(queue=job.queue)

    def _started_in_lane(self, job: Job) -> None:
        lane = self._lane_of(job)
        if lane is None:
            return
        lane.front = None
        lane.taken += 1
        if lane.lane.rate:
            lane.starts = [*lane.starts, self.clock.now()][-lane.lane.rate :]
        self._admit(lane)

    def _left_lane(self, job: Job, queue: str) -> None:
        """It has ended, is gone, or is in another queue now."""
        key = (queue, job.lane.key) if job.lane else None
        if key not in self.lanes:
            return
        lane = self.lanes[key]
        if lane.turn is job:
            lane.turn = None
        self._admit(lane)
        self._forget_lane(key)

    def _forget_lane(self, key: tuple[str, str]) -> None:
        if key in self.lanes and not self._members(*key) and not self.lanes[key].remembers(self.clock.now()):
            del self.lanes[key]

    # -- queues --

    def controls(self) -> Step[list[QueueControl]]:
        return Step(lambda: [self.queue_controls[queue] for queue in sorted(self.queue_controls)])

    def pause(self, queue: str, by: str = "") -> Step[bool]:
        return Step(self._pause, queue, by)

    def _pause(self, queue: str, by: str) -> bool:
        control = self.queue_controls.get(queue, QueueControl(queue=queue))
        if control.paused_at is not None:
            return False
        self._control(QueueControl(queue=queue, limit=control.limit, paused_by=by, paused_at=self.clock.now()))
        return True

    def resume(self, queue: str) -> Step[bool]:
        return Step(self._resume, queue)

    def _resume(self, queue: str) -> bool:
        control = self.queue_controls.get(queue)
        if control is None or control.paused_at is None:
            return False
        self._control(QueueControl(queue=queue, limit=control.limit))
        return True

    def limit(self, queue: str, running: int | None) -> Step[None]:
        rules.check_limit(queue, running)
        return Step(self._limit, queue, running)

    def _limit(self, queue: str, running: int | None) -> None:
        control = self.queue_controls.get(queue, QueueControl(queue=queue))
        by, at = control.paused_by, control.paused_at
        self._control(QueueControl(queue=queue, limit=running, paused_by=by, paused_at=at))

    def _control(self, control: QueueControl) -> None:
        self.queue_controls[control.queue] = control
        if control.limit is None and control.paused_at is None:
            del self.queue_controls[control.queue]
        self._tell(queue=control.queue)

    def _left_running(self, queue: str) -> None:
        """In a queue with a limit, somebody may have waited for that."""
        control = self.queue_controls.get(queue)
        if control and control.limit is not None:
            self._tell(queue=queue)

    # -- editing --

    def edit(self, ids: Sequence[str], change: Edit) -> Step[list[bool]]:
        rules.check_moment(change.run_at, change.delay)
        return Step(lambda: self._and_work_off([self._edit(i, change) for i in ids]))

    def _edit(self, job_id: str, change: Edit) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state not in WAITING:
            return False
        for name in ("body", "options", "data"):
            if getattr(change, name) is not None:
                setattr(job, name, getattr(change, name))
        if (change.queue, change.priority, change.run_at, change.delay) == (None, None, None, None):
            self._happened(job, "edited")
            return True
        queue, due = job.queue, job.due
        self._leave(job)
        job.priority = job.priority if change.priority is None else change.priority
        job.queue = change.queue or queue
        if change.run_at is not None:
            due, job.delay = change.run_at, None
        if change.delay is not None:
            due = self.clock.now() + change.delay
            job.delay = change.delay if self._unmet(job) else None
        if job.queue != queue:
            self._left_lane(job, queue)
        self._happened(job, "edited")
        self._wait_in_line(job, due)
        return True

    def time_out(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._time_out(i) for i in ids]))

    def _time_out(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state is not State.RUNNING:
            return False
        self._tell(session=job.session)
        self._end(job, Outcome(ref=job.ref, token=job.token, id=job.id, kind=Kind.RELEASED), 0, "timed out")
        job.token += 1
        return True

    def peek(self, queue: str, limit: int = 50) -> Step[list[Snapshot]]:
        return Step(lambda: [self._snapshot(job) for job in sorted(self._ready(queue), key=Job.place)[:limit]])

    # -- why --

    def circumstances(self, job_id: str) -> Step[Circumstances | None]:
        return Step(self._circumstances, job_id)

    def _circumstances(self, job_id: str) -> Circumstances | None:
        job = self.jobs.get(job_id)
        if job is None:
            return None
        unmet = [] if job.state.final else self._unmet(job)
        control = self.queue_controls.get(job.queue)
        running = sorted(self._running(job.queue), key=lambda other: other.ref)
        listeners = [
            session.info.name
            for session in self._open_sessions()
            if not self._expired(session)
            and any_fits(session.info.queues, job.queue)
            and job.task in session.info.tasks
        ]
        return Circumstances(
            now=self.clock.now(),
            job=self._snapshot(job),
            waits_for=tuple((edge.parent.id, edge.parent.state) for edge in unmet[: rules.SHOWN]),
            unmet=len(unmet),
            control=control,
            queue_running=tuple((other.id, other.worker) for other in running[: rules.SHOWN])
            if control and control.limit is not None
            else (),
            lane=self._lane_snapshot(job.queue, job.lane.key) if job.lane else None,
            ahead=self._ahead(job),
            listeners=tuple(sorted(listeners)[: rules.SHOWN]),
        )

    def _ahead(self, job: Job) -> int | None:
        if not job.in_lanes_line:
            return None
        lane = self._lane_of(job)
        assert lane
        line = [other for other in self.jobs.values() if other.in_lanes_line and self._lane_of(other) is lane]
        if lane.lane.sequence:
            return sum(other.ref < job.ref for other in line)
        return sum(other.place() < job.place() for other in line)

    # -- small things --

    def _finish(self, job: Job, state: State, finished: int) -> None:
        """Every way to an end."""
        was_final = job.state.final
        self._leave(job)
        job.state = state
        job.finished = finished
        self.counted["failures", job.queue, finished // DAY] += state is State.FAILED
        if state is State.DONE:
            self.ran.append((job.queue, finished // DAY, job.started - job.due, finished - job.started))
        self._tell(job=job.id)
        if not was_final:
            self._schedule_hears(job)
            self._has_ended(job, state, met=state is State.DONE)
            self._left_lane(job, job.queue)

    def _note(self, job: Job, what: str, detail: str = "", at: int | None = None) -> None:
        worker = "" if what in ("created", "revived") else job.worker
        job.events.append(Event(self.clock.now() if at is None else at, what, detail, worker))

    def _by_ref(self, ref: Ref) -> Job | None:
        return next((job for job in self.jobs.values() if job.ref == ref), None)

    def _holds(self, session: Session, job: Job, token: Token) -> bool:
        return job.state is State.RUNNING and job.session == session.info.id and job.token == token

    def _held(self, session: Session) -> list[Job]:
        held = (job for job in self.jobs.values() if self._holds(session, job, job.token))
        return sorted(held, key=lambda job: job.handed_out)

    def _mark_seen(self, session: Session) -> None:
        session.seen = self.clock.steady()
        session.seen_at = self.clock.now()

    def _mark_started(self, session: Session, started: Sequence[Ref]) -> None:
        for job in self._held(session):
            if job.ref in started:
                job.spare = False

    def _open_sessions(self) -> list[Session]:
        return [session for session in self.known_sessions.values() if not session.closed]

    def _expired(self, session: Session) -> bool:
        silence = self.clock.steady() - session.seen
        return bool(self._held(session)) and silence >= session.info.timeout

    def _live(self, session_id: str) -> Session:
        session = self.known_sessions.get(session_id)
        if session is None or session.closed or self._expired(session):
            raise SessionGone
        return session

    def _snapshot(self, job: Job) -> Snapshot:
        return Snapshot(**{name: getattr(job, name) for name in Snapshot.__struct_fields__})

    def _lease(self, job: Job) -> Lease:
        same = [name for name in Lease.__struct_fields__ if name != "cancelled"]
        return Lease(**{name: getattr(job, name) for name in same}, cancelled=job.cancelling)

    # -- events --

    def listen(self) -> Step[str]:
        return Step(self._listen)

    def _listen(self) -> str:
        self.listened_until = self.clock.steady() + LISTENS
        return str(len(self.happenings))

    def events(self, cursor: str, limit: int = 1_000) -> Step[Batch]:
        return Step(self._events, int(cursor), limit)

    def _events(self, after: int, limit: int) -> Batch:
        dropped = max(0, len(self.happenings) - EVENTS_KEPT)
        missed = self.clock.steady() >= self.listened_until or after < dropped
        self._listen()
        found = self.happenings[max(after, dropped) :][:limit]
        return Batch(found, str(max(after, dropped) + len(found)), missed)

    def hearer(self) -> Ear:
        return Ear(self.ears, events=True)

    def _happened(self, job: Job, what: str, detail: str = "", worker: str = "") -> None:
        if self.clock.steady() < self.listened_until:
            detail = detail.encode()[:DETAIL].decode(errors="ignore")
            self.happenings.append(
                Happening(self.clock.now(), what, job.id, job.task, job.queue, worker, detail, job.tracked)
            )
            for ear in self.ears:
                if ear.events:
                    ear.hear()

    # -- waiting --

    def waiter(self, session: str, queues: Sequence[str]) -> Ear:
        return Ear(self.ears, session=session, queues=queues)

    def watcher(self, job_id: str) -> Ear:
        return Ear(self.ears, job=job_id)

    def _tell(self, *, queue: str = "", session: str = "", job: str = "") -> None:
        for ear in self.ears:
            if (
                (queue and any_fits(ear.queues, queue))
                or (session and session == ear.session)
                or (job and job == ear.job)
            ):
                ear.hear()
