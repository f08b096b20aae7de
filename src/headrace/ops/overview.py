"""One look at a whole store: its queues with their rates, what runs, the latest failures, the workers."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from headrace.ops.documents import moment
from headrace.ops.forms import forms
from headrace.ops.look import controls_course, rates_course
from headrace.records import Counts, Filter, Page, SessionSnapshot, Snapshot, State
from headrace.store import Store
from headrace.store.contract import Facet
from headrace.store.courses import Course, ask
from headrace.store.facets import EventRecord
from headrace.store.paging import whole_page_course
from headrace.values.text import now_ms

if TYPE_CHECKING:
    from headrace.app import Headrace

WINDOW = 10.0
"""Seconds over which rates are measured."""
LIMIT = 200
"""Running jobs and failures that are listed."""


class QueueLine(Struct, frozen=True):
    """A queue: how many jobs it has, and how many come and go."""

    queue: str
    paused: bool
    ready: int
    scheduled: int
    blocked: int
    running: int
    failed: int
    in_per_second: float | None
    """None where it was not measured."""
    out_per_second: float | None


class RunningLine(Struct, frozen=True):
    """A job that runs."""

    job: str
    task: str
    queue: str
    worker: str
    running_seconds: float
    progress_percent: float | None
    cancelling: bool


class FailedLine(Struct, frozen=True):
    """A job that has failed."""

    job: str
    task: str
    queue: str
    group: str
    failed_at: datetime


class WorkerLine(Struct, frozen=True):
    """A worker process."""

    session: str
    worker: str
    alive: bool
    running: int
    queues: tuple[str, ...]


class Overview(Struct, frozen=True):
    """What a store has, at one moment."""

    at: datetime
    queues: tuple[QueueLine, ...]
    jobs: tuple[RunningLine, ...]
    failed: int
    """How many jobs have failed."""
    failures: tuple[FailedLine, ...]
    """The latest of them, newest first."""
    workers: tuple[WorkerLine, ...]


class Rates:
    """How many jobs come and go per second, per queue, from events."""

    COMES = frozenset({"created"})
    GOES = frozenset({"done", "failed", "cancelled"})

    def __init__(self) -> None:
        self._moments: deque[tuple[float, str, bool]] = deque()
        self._began = time.monotonic()

    def hear(self, events: Sequence[EventRecord]) -> None:
        now = time.monotonic()
        self._moments.extend(
            (now, event.queue, event.what in self.COMES)
            for event in events
            if event.what in self.COMES or event.what in self.GOES
        )

    def now(self) -> dict[str, tuple[float, float]]:
        """Per queue: in and out per second, over the last ten seconds or since the beginning."""
        now = time.monotonic()
        while self._moments and self._moments[0][0] < now - WINDOW:
            self._moments.popleft()
        span = max(1.0, min(WINDOW, now - self._began))
        counted = Counter((queue, comes) for _, queue, comes in self._moments)
        return {queue: (counted[queue, True] / span, counted[queue, False] / span) for queue, _ in list(counted)}


def overview_course(app: Headrace, rates: Rates | None = None, before: Overview | None = None) -> Course[Overview]:
    """Look at all of a store, with these rates or those that it tells of the last minute.

    The failures of a look `before` are kept as long as their number is the same.
    """
    store, now = app.store, now_ms()
    counts: list[Counts] = yield store.counts()
    controls = yield from controls_course(store)
    paused = {control.queue for control in controls.values() if control.paused_at is not None}
    queues = _queues(counts, paused, (yield from _rates(app)) if rates is None else rates.now())
    sessions: list[SessionSnapshot] = yield store.sessions()
    running = yield from _running(store, sessions)
    failed = sum(line.failed for line in queues)
    if before is not None and before.failed == failed:
        failures = before.failures
    else:
        latest = (yield from whole_page_course(store, Filter(states=(State.FAILED,), limit=LIMIT))).jobs
        failures = tuple(map(_failed_line, sorted(latest, key=lambda job: -(job.finished or 0))))
    return Overview(
        moment(now),
        queues,
        tuple(_running_line(job, now) for job in running),
        failed,
        failures,
        tuple(map(_worker_line, sessions)),
    )


overview, aoverview = forms(overview_course)


def _rates(app: Headrace) -> Course[dict[str, tuple[float, float]] | None]:
    """In and out per second, by queue."""
    found = yield from rates_course(app)
    if found is None:
        return None
    return {queue: (rates.come.per_second, rates.go.per_second) for queue, rates in found.items()}


def _queues(
    counts: Sequence[Counts], paused: set[str], rates: dict[str, tuple[float, float]] | None
) -> tuple[QueueLine, ...]:
    by_queue = {entry.queue: entry.by_state for entry in counts}

    def line(queue: str) -> QueueLine:
        states = by_queue.get(queue, {})
        come, go = (None, None) if rates is None else rates.get(queue, (0.0, 0.0))
        return QueueLine(
            queue,
            paused=queue in paused,
            ready=states.get(State.READY, 0),
            scheduled=states.get(State.SCHEDULED, 0),
            blocked=states.get(State.BLOCKED, 0),
            running=states.get(State.RUNNING, 0),
            failed=states.get(State.FAILED, 0),
            in_per_second=come,
            out_per_second=go,
        )

    return tuple(map(line, sorted({*by_queue, *paused, *(rates or ())})))


def _running(store: Store, sessions: Sequence[SessionSnapshot]) -> Course[list[Snapshot]]:
    """What runs: where it can be asked for by worker, without a search through all that waits."""
    wanted = Filter(states=(State.RUNNING,), limit=LIMIT)
    if Facet.TAGS not in store.facets:
        return (yield from ask(store.find(wanted))).jobs
    found: list[Snapshot] = []
    for name in sorted({session.info.name for session in sessions if session.running}):
        page: Page = yield store.find(replace(wanted, worker=name))
        found += page.jobs
        if len(found) >= LIMIT:
            break
    return found[:LIMIT]


def _running_line(job: Snapshot, now: int) -> RunningLine:
    seconds = max(0, now - (job.started or now)) / 1000
    percent = None if job.progress is None else round(100 * job.progress[0] / (job.progress[1] or 1), 1)
    return RunningLine(job.id, job.task, job.queue, job.worker, seconds, percent, job.cancelling)


def _failed_line(job: Snapshot) -> FailedLine:
    return FailedLine(job.id, job.task, job.queue, job.group or "", moment(job.finished or 0))


def _worker_line(session: SessionSnapshot) -> WorkerLine:
    info = session.info
    return WorkerLine(info.id, info.name, session.alive, session.running, tuple(info.queues))
