"""One look at a whole store: its queues with their rates, what runs, the latest failures, the workers."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence

from msgspec import Struct

from headrace.records import Counts, Filter, SessionSnapshot, Snapshot, State
from headrace.store import Store
from headrace.store.contract import Facet
from headrace.store.facets import EventRecord, Events, Queues, facet
from headrace.store.paging import whole_page
from headrace.values.text import now_ms

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
    failed_at: int
    """Milliseconds since 1970, on the store's clock."""


class WorkerLine(Struct, frozen=True):
    """A worker process."""

    session: str
    worker: str
    alive: bool
    running: int
    queues: tuple[str, ...]


class Overview(Struct, frozen=True):
    """What a store has, at one moment."""

    at: int = 0
    queues: tuple[QueueLine, ...] = ()
    jobs: tuple[RunningLine, ...] = ()
    failures: tuple[FailedLine, ...] = ()
    """The latest ones, newest first. `failed` counts all of them."""
    workers: tuple[WorkerLine, ...] = ()

    @property
    def failed(self) -> int:
        return sum(line.failed for line in self.queues)


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


def measure_rates(store: Store, seconds: float) -> Rates | None:
    """Follow events for a while, as a single look has no rates. None where a store has no events."""
    if Facet.EVENTS not in store.facets:
        return None
    events = facet(store, Events)
    cursor = store.run(events.listen())
    ear = events.event_waiter()
    rates = Rates()
    try:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ear.arm()
            batch = store.run(events.events(cursor, 10_000))
            cursor = batch.cursor
            rates.hear(batch.events)
            if not batch.events:
                ear.wait(left)
    finally:
        ear.close()
    return rates


def take_look(store: Store, rates: Rates | None, before: Overview | None = None) -> Overview:
    """Ask the store for all of it. The failures of a look `before` are kept as long as their number is the same."""
    now = now_ms()
    counts = store.run(store.counts())
    queues = _queues(store, counts, None if rates is None else rates.now())
    sessions = store.run(store.sessions())
    same = before is not None and before.failed == sum(line.failed for line in queues)
    return Overview(
        now,
        queues,
        tuple(_running_line(job, now) for job in _running(store, sessions)),
        before.failures if before is not None and same else tuple(map(_failed_line, _failed(store))),
        tuple(map(_worker_line, sessions)),
    )


def paused_queues(store: Store) -> set[str]:
    """The queues that are paused; none where a store cannot pause."""
    if Facet.QUEUES not in store.facets:
        return set()
    controls = store.run(facet(store, Queues).controls())
    return {control.queue for control in controls if control.paused_at is not None}


def _queues(
    store: Store, counts: Sequence[Counts], rates: dict[str, tuple[float, float]] | None
) -> tuple[QueueLine, ...]:
    paused = paused_queues(store)
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


def _running(store: Store, sessions: Sequence[SessionSnapshot]) -> list[Snapshot]:
    """What runs: where it can be asked for by worker, without a search through all that waits."""
    states = (State.RUNNING,)
    if Facet.TAGS not in store.facets:
        return store.run(store.find(Filter(states=states, limit=LIMIT))).jobs
    found: list[Snapshot] = []
    for name in sorted({session.info.name for session in sessions if session.running}):
        found += store.run(store.find(Filter(states=states, worker=name, limit=LIMIT))).jobs
        if len(found) >= LIMIT:
            break
    return found[:LIMIT]


def _failed(store: Store) -> list[Snapshot]:
    """The latest failures, newest first."""
    found = whole_page(store, Filter(states=(State.FAILED,), limit=LIMIT)).jobs
    return sorted(found, key=lambda job: -(job.finished or 0))


def _running_line(job: Snapshot, now: int) -> RunningLine:
    seconds = max(0, now - (job.started or now)) / 1000
    percent = None if job.progress is None else round(100 * job.progress[0] / (job.progress[1] or 1), 1)
    return RunningLine(job.id, job.task, job.queue, job.worker, seconds, percent, job.cancelling)


def _failed_line(job: Snapshot) -> FailedLine:
    return FailedLine(job.id, job.task, job.queue, job.group or "", job.finished or 0)


def _worker_line(session: SessionSnapshot) -> WorkerLine:
    info = session.info
    return WorkerLine(info.id, info.name, session.alive, session.running, tuple(info.queues))
