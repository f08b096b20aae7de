"""A WorkKit schedule as a store: `workkit+redis://host:6379/0?schedule=app-tasks`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from headrace.errors import ConfigurationError, Unsupported
from headrace.records import (
    Counts,
    ExchangeReply,
    Filter,
    HistoryRecord,
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
    Swept,
    Take,
    Token,
)
from headrace.store.contract import Facet, Operation, Waiter
from headrace.store.redis.operation import Script, Steps
from headrace.store.redis.shared import OnRedis
from headrace.values.clock import Clock, SystemClock

from . import reading, views
from .address import Keys, parse_url
from .arguments import by_position
from .driver import ScheduleDriver
from .ear import ScheduleWaiter
from .handlers import Handlers
from .names import wire_name
from .orphans import Orphanage
from .payload import canonical, job_id
from .refusals import refuse_options
from .sessions import Session, Sessions
from .times import Timekeeper, cron_of, in_order
from .turn import Turns
from .wire import NewEntry, Wire

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.custody import Custody

T = TypeVar("T")
Course = Generator[Script[Any], Any, T]

DEFAULT_QUEUE = "default"
SURE_AFTER = 10_000
"""A job due later than this can't have run while an insertion was sent again: its repeat is recognised."""


class WorkKitStore(OnRedis):
    """Jobs in a WorkKit schedule: two keys, shared with every program that follows the published format.

    Options of the URL: `schedule` (its name), `lease` (60s: after how long another listener takes over from one that
    died), `repair_after` (give jobs that have lost their entry for so long a new one), `modules` (a list, with commas,
    of modules whose functions may be run without being registered), `cron_order=cuckoo`.
    """

    driver: ScheduleDriver
    leases_in_jobs = True
    facets = frozenset({Facet.DELAY})

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self.place, self.settings = parse_url(url)
        self.keys = Keys(self.settings.schedule)
        test_clock = None if clock is None or isinstance(clock, SystemClock) else clock
        self.driver = ScheduleDriver(self.place, self.keys, test_clock)
        self.timekeeper = Timekeeper(test_clock)
        self.wire = Wire(self.timekeeper)
        self.handlers = Handlers(self.settings.modules)
        self._sessions = Sessions()
        self._turns = Turns(self)
        self._orphanage = Orphanage(
            self.settings.schedule, self.wire, self.timekeeper, self.settings.repair_after, self.settings.cron_order
        )

    def serve(self, app: Headrace) -> None:
        """The app whose tasks run here. It says how they are named, and in which order they take arguments."""
        self.handlers.serve(app)

    def advice(self) -> list[str]:
        """What an operator should know, in sentences; none if all is well."""
        orphans = self.run(self.orphans())
        found = super().advice()
        if orphans:
            found.append(
                f"{len(orphans):,} jobs of the schedule {self.settings.schedule!r} have no entry: "
                "published listeners run them, or died doing so. repair_after=... gives them one."
            )
        return found

    def ask_time(self) -> Course[None]:
        """What time it is at the server, if it was not said lately."""
        if not self.timekeeper.knows:
            yield self.wire.time()

    def queue_of(self, queues: Sequence[str]) -> str | None:
        """The name by which a worker calls this schedule, if it does."""
        return next((queue for queue in queues if queue in (DEFAULT_QUEUE, self.settings.schedule)), None)

    @property
    def known_sessions(self) -> list[Session]:
        """Those of this process."""
        return self._sessions.all()

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        for job in jobs:
            refuse_options(job)
            if self.queue_of((job.queue,)) is None:
                raise Unsupported(
                    f"This store is the schedule {self.settings.schedule!r}: it has no queue {job.queue!r}. "
                    "Open that schedule as a store of its own."
                )
        arguments = [by_position(self.handlers.task(job.task), job.body) for job in jobs]

        def course() -> Course[list[Put]]:
            if not jobs:
                return []
            yield from self.ask_time()
            now = self.timekeeper.now()
            new = [self._new_entry(job, args, now) for job, args in zip(jobs, arguments, strict=True)]
            created = yield self.insert(new, now)
            return [Put(entry.id, is_new) for entry, is_new in zip(new, created, strict=True)]

        return Steps(course)

    def _new_entry(self, job: NewJob, args: list[Any], now: int) -> NewEntry:
        moment = job.run_at if job.run_at is not None else now + (job.delay or 0)
        # "Now" is the present second, which has begun; a later moment is rounded up, so that a delay is never short.
        due = now // 1000 * 1000 if moment <= now else -(-moment // 1000) * 1000
        text = canonical(wire_name(job.task), in_order(cron_of(due), self.settings.cron_order), args)
        return NewEntry(job_id(text), text, due)

    def insert(self, entries: Sequence[NewEntry], now: int) -> Script[list[bool]]:
        """The published insertion. A repeat can be told from a new job while the first can't have run."""
        sure = all(entry.due > now + SURE_AFTER for entry in entries)
        return self.wire.insert(entries, repeatable=sure)

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Steps(lambda: reading.get(self, ids))

    def find(self, wanted: Filter) -> Operation[Page]:
        """Jobs that have an entry, by their next time."""
        return Steps(lambda: reading.find(self, wanted))

    def snapshot(self, name: str, text: bytes, score: float | None) -> Snapshot:
        """An entry as a job. The server's time must be known, as it is after any answer."""
        return views.snapshot(
            name,
            text,
            score,
            self.timekeeper.now(),
            schedule=self.settings.schedule,
            handlers=self.handlers,
            sessions=self.known_sessions,
            counters=self._turns.counters(name),
        )

    def entries(self) -> Operation[list[views.Entry]]:
        """All jobs with their next times, earliest first; those without an entry come last."""
        return Steps(lambda: reading.entries(self, self._orphanage.find))

    def orphans(self) -> Operation[dict[str, bytes]]:
        """Jobs that have no entry at present: published listeners run them, or died doing so."""
        return Steps(self._orphanage.find)

    def counts(self) -> Operation[list[Counts]]:
        return Steps(lambda: reading.counts(self))

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        return _refuse("A WorkKit schedule keeps no history of its jobs: it has two keys, for what is to be done.")

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """Removes them: a schedule has no place for cancelled jobs. Whoever runs one is told to stop."""
        return self.wire.remove(ids)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self.wire.remove(ids)

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return _refuse("A WorkKit schedule keeps no failed jobs, so none can be revived: add it again.")

    def job_waiter(self, job_id: str) -> Waiter:
        return _refuse("A WorkKit schedule keeps no results, and tells nobody when a job has run.")

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        if session.timeout * 4 > self.settings.lease * 3:
            raise ConfigurationError(
                f"A session of {session.timeout / 1000:g} s needs a lease of at least {session.timeout / 750:g} s: a "
                "worker that is cut off stops its jobs when its session ends, and their leases must last that long. "
                "Add &lease=..., or make the session's time-out shorter."
            )

        def course() -> Course[int]:
            now: int = yield self.wire.time()
            self._sessions.open(session, now)
            self.handlers.add_names(session.tasks)
            return now

        return Steps(course)

    def exchange(
        self,
        session: str,
        number: int,
        outcomes: Sequence[Outcome] = (),
        take: Take | None = None,
        *,
        steady: int = 0,
        started: Sequence[Ref] = (),
    ) -> Operation[ExchangeReply]:
        return Steps(lambda: self._turns.exchange(self._sessions.get(session), number, outcomes, take))

    def report(self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0) -> Operation[list[bool]]:
        """Progress, data and log lines have no place on the wire: nothing is recorded, and the run goes on."""

        def course() -> Course[list[bool]]:
            found = self._sessions.get(session)
            if found.answered(number) is None:
                found.answer(number, None)
            return [False for _ in reports]
            yield  # nothing is asked of the server

        return Steps(course)

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
    ) -> Operation[Renewal]:
        """Without leases: only whether the server answers, so that a worker that is cut off learns of it."""
        return Steps(lambda: self._turns.renew(self._sessions.get(session) if held else None, held))

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        """Gives back what this process still holds, or has inherited."""

        def course() -> Course[list[str]]:
            found = self._sessions.find(session)
            given_back = [] if found is None else (yield from self._turns.give_back(found, crashed or ()))
            self._sessions.close(session)
            return given_back

        return Steps(course)

    def write_down(self, session: str, custody: Custody) -> None:
        self._sessions.get(session).custody = custody

    def inherit(self, session: str, held: Mapping[Ref, Sequence[Any]]) -> None:
        self._sessions.get(session).inherit(held)

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        """Those of this process: a schedule does not say who listens to it."""

        def course() -> Course[list[SessionSnapshot]]:
            return [_seen(session) for session in self.known_sessions]
            yield

        return Steps(course)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        def judge(now: int, news: bool, due: int | None) -> tuple[bool, int]:
            known = self._sessions.find(session)
            told = known.next_due if known is not None else None
            # A run time that the worker has not been told of is news, too: it sleeps until the one that it knows.
            sooner = due is not None and (told is None or told <= now or due < told)
            return news or sooner, -1

        def look() -> Script[tuple[bool, int]]:
            return self.wire.look(self.handlers.likenesses, self._turns.skip, judge)

        return ScheduleWaiter(self.driver, self.keys.channel, look, lambda: self._room(session))

    def _room(self, session: str) -> bool | None:
        known = self._sessions.find(session)
        return None if known is None else known.has_room

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        """Looks for orphans now and then."""

        def course() -> Course[Swept]:
            repaired = (yield from self._orphanage.tend()) if self._orphanage.due else 0
            return Swept(jobs_returned=repaired)

        return Steps(course)


def _seen(session: Session) -> SessionSnapshot:
    return SessionSnapshot(
        info=session.info, opened=session.opened, seen=session.seen, running=len(session.held), alive=True
    )


def _refuse(why: str) -> NoReturn:
    raise Unsupported(why)
