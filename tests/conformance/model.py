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
from typing import TypeVar

from headrace.clock import Clock, SystemClock
from headrace.errors import NoWorkers, SessionGone, StaleRequest
from headrace.glob import matcher
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
from headrace.store.contract import CORE_FACETS, Durability, Facet, Operation

from .ears import Ear, NoGuard

T = TypeVar("T")

WAITING = (State.SCHEDULED, State.READY, State.BLOCKED)
PROMOTED_AT_MOST = 1_000
DAY = 86_400_000


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
    events: list[Event] = field(default_factory=list)

    def place(self) -> tuple[int, int, int]:
        return -self.priority, self.due, self.ref


def _most(names: Iterable[str], limit: int) -> list[tuple[str, int]]:
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:limit]


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


class Model:
    """The contract."""

    url = "model:"
    facets = CORE_FACETS | {Facet.TAGS, Facet.STATISTICS, Facet.SETTINGS}
    durability = Durability.NONE
    leases_in_jobs = False

    def __init__(self, *, clock: Clock | None = None, keep_done: int = DAY, keep_failed: int = 30 * DAY) -> None:
        self.clock = clock or SystemClock()
        self.keep_done = keep_done
        self.keep_failed = keep_failed
        self.jobs: dict[str, Job] = {}
        self.known_sessions: dict[str, Session] = {}
        self.ears: list[Ear] = []
        self.lock = threading.Lock()
        self.last_ref = 0

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
        if any(new.require_worker and not self._has_worker(new) for new in jobs):
            raise NoWorkers
        return [self._put_one(new) for new in jobs]

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
                del self.jobs[holder.id]
            self._make_way(new)
        self._insert(new)
        return Put(new.id, True)

    def _has_worker(self, new: NewJob) -> bool:
        return any(
            new.queue in session.info.queues and new.task in session.info.tasks
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
        self.jobs.pop(new.id, None)
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
        )
        self._note(job, "created")
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
        return Step(lambda: list(self.jobs[job_id].events) if job_id in self.jobs else [])

    # -- cancel, delete, revive --

    def cancel(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: [self._cancel(i) for i in ids])

    def _cancel(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state is State.DONE:
            return False
        if job.state is State.RUNNING:
            job.cancelling = True
            self._tell(session=job.session)
        elif job.state is not State.CANCELLED:
            self._finish(job, State.CANCELLED, self.clock.now())
            self._note(job, "cancelled")
        return True

    def delete(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: [self._delete(i) for i in ids])

    def _delete(self, job_id: str) -> bool:
        return self.jobs.pop(job_id, None) is not None

    def revive(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: [self._revive(i) for i in ids])

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
        return Step(self._close_session, session, crashed)

    def _close_session(self, session_id: str, crashed: Sequence[Ref] | None) -> list[str]:
        session = self.known_sessions.get(session_id)
        if session is None or session.closed:
            return []
        held = self._held(session)
        for job in held:
            died = not job.spare if crashed is None else job.ref in crashed
            kind = Kind.CRASHED if died else Kind.RELEASED
            self._end(job, Outcome(ref=job.ref, token=job.token, id=job.id, kind=kind), 0)
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
        expired = [session.info.id for session in self._open_sessions() if self._expired(session)]
        returned = [job_id for session in expired for job_id in self._close_session(session, None)]
        given_up = [job.id for job in self.jobs.values() if self._given_up(job)]
        for job_id in given_up:
            self._delete(job_id)
        return Swept(len(expired), len(returned), len(given_up), False)

    def _given_up(self, job: Job) -> bool:
        if job.finished is None:
            return False
        keep = self.keep_done if job.state is State.DONE else self.keep_failed
        return job.finished + keep < self.clock.now()

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
            if take is not None:
                self._take(session, number, take)
        self._mark_seen(session)
        handed_out = [job for job in self._held(session) if job.handed_out[0] == number]
        scheduled = [job.due for job in self.jobs.values() if job.state is State.SCHEDULED]
        return Turn(
            session.answer,
            [self._lease(job) for job in handed_out],
            self.clock.now(),
            min(scheduled, default=None),
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
        if report.data is not None:
            job.data = report.data
        for at, line in report.log:
            self._note(job, "log", line, self.clock.now() - (steady - at))
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
            job.state = State.READY
        for index, job in enumerate(self._line(take)[: take.slots + take.spare]):
            job.state = State.RUNNING
            job.token += 1
            job.session = session.info.id
            job.worker = session.info.name
            job.handed_out = (number, index)
            job.spare = index >= take.slots
            job.started = now
            self._note(job, "started")

    def _line(self, take: Take) -> list[Job]:
        """All that could be handed out, in the order in which it would be."""
        ready = sorted((j for j in self.jobs.values() if j.state is State.READY), key=Job.place)
        lines = [[job for job in ready if job.queue == queue] for queue in take.queues]
        if not take.round_robin:
            return [job for line in lines for job in line]
        turns = max((len(line) for line in lines), default=0)
        return [line[turn] for turn in range(turns) for line in lines if turn < len(line)]

    def _settle(self, session: Session, outcome: Outcome, steady: int) -> Verdict:
        job = self._by_ref(outcome.ref)
        if job is None or job.token != outcome.token or job.session != session.info.id:
            return Verdict.STALE
        if job.state is not State.RUNNING:
            return Verdict.ALREADY
        self._end(job, outcome, steady)
        return Verdict.OK

    def _end(self, job: Job, outcome: Outcome, steady: int) -> None:
        """The table "What an outcome does"."""
        now = self.clock.now()
        kind = outcome.kind
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
            job.group = outcome.group or job.group
            self._note(job, "deferred" if outcome.charge is Charge.DEFERRAL else "retried")
            self._wait_in_line(job, due)
        elif kind in (Kind.FAILED, Kind.BROKEN):
            job.group = outcome.group if kind is Kind.FAILED else "broken"
            self._finish(job, State.FAILED, ended)
            self._note(job, "failed")
        elif kind is Kind.CRASHED and job.crashes >= job.max_crashes:
            job.group = "crashed"
            self._finish(job, State.FAILED, ended)
            self._note(job, "failed")
        elif kind in (Kind.RELEASED, Kind.CRASHED):
            job.state = State.READY
            self._note(job, "crashed" if kind is Kind.CRASHED else "released")
            self._tell(queue=job.queue)
        elif kind is Kind.MOVED:
            job.queue = outcome.queue or job.queue
            job.task = outcome.task or job.task
            job.body = job.body if outcome.body is None else outcome.body
            job.attempts = job.crashes = 0
            self._note(job, "moved")
            self._wait_in_line(job, due)

    # -- small things --

    def _wait_in_line(self, job: Job, due: int) -> None:
        job.due = due
        job.state = State.SCHEDULED if due > self.clock.now() else State.READY
        self._tell(queue=job.queue)

    def _finish(self, job: Job, state: State, finished: int) -> None:
        job.state = state
        job.finished = finished
        self._tell(job=job.id)

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

    # -- waiting --

    def waiter(self, session: str, queues: Sequence[str]) -> Ear:
        return Ear(self.ears, session=session, queues=queues)

    def watcher(self, job_id: str) -> Ear:
        return Ear(self.ears, job=job_id)

    def _tell(self, *, queue: str = "", session: str = "", job: str = "") -> None:
        for ear in self.ears:
            if queue in ear.queues or (session and session == ear.session) or (job and job == ear.job):
                ear.hear()
