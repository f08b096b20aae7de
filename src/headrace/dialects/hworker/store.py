"""An hworker queue as a store: jobs in a list and a hash that programs in any language share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.dialects.hworker import looking, requests
from headrace.dialects.hworker.catalogue import Catalogue
from headrace.dialects.hworker.driver import HworkerDriver, now
from headrace.dialects.hworker.keys import Keys
from headrace.dialects.hworker.listener import Listener
from headrace.dialects.hworker.monitor import Monitor
from headrace.dialects.hworker.options import parse_url
from headrace.dialects.hworker.requests import BROKEN, FAILED, JOBS, PROGRESS, Work
from headrace.dialects.hworker.sessions import Sessions
from headrace.dialects.hworker.turns import Turns
from headrace.dialects.hworker.wire import new_id, write
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
    State,
    Swept,
    Take,
    Token,
)
from headrace.store.contract import Facet, Operation, Waiter
from headrace.store.redis.operation import Steps
from headrace.store.redis.shared import OnRedis
from headrace.values.clock import Clock, SystemClock

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.custody import Custody

T = TypeVar("T")

log = logging.getLogger("headrace.hworker")

_REFUSALS: tuple[tuple[str, Callable[[NewJob], bool]], ...] = (
    ("a delay or a time to run (run_after=)", lambda job: job.run_at is not None or bool(job.delay)),
    ("a priority", lambda job: job.priority != 0),
    ("options of its own (using(retries=, timeout=, keep_result=))", lambda job: job.options is not None),
    ("a limit of crashes (max_crashes=): crashes are not counted", lambda job: job.max_crashes != 3),
    ("uniqueness (unique=, unique_key=)", lambda job: job.unique_key is not None),
    ("a roll call of workers (require_worker=)", lambda job: job.require_worker),
)


class HworkerStore(OnRedis):
    """Jobs of an hworker queue: `hworker+redis://localhost:6379/0?name=mail`.

    Options in the URL: `name` (required), `timeout` (seconds, 120), `failed_size` (1000), `failed_key`, `monitor`,
    `keep_alive` (yes or no, both yes) and `prefetch` (1: a worker holds no more jobs than it runs).

    A task's queue is the hworker name; `default` is the name in the URL. One name, one task: its only argument is the
    payload, or all of them in an array.
    """

    driver: HworkerDriver
    leases_in_jobs = True
    facets = frozenset({Facet.REVIVE})

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        place, self.options = parse_url(url)
        self.url = url
        self.driver = HworkerDriver(
            place, Keys(self.options.failed_key), None if clock is None or isinstance(clock, SystemClock) else clock
        )
        self.catalogue = Catalogue(self.options.name)
        self.sessions_here = Sessions()
        self._turns = Turns(self.options, self.catalogue, self.sessions_here)
        self._monitor = Monitor(self.options.timeout, log.error)
        self._swept: float | None = None

    def serve(self, app: Headrace) -> None:
        """Learn the app's tasks: which one runs the jobs of a name, and what its arguments are."""
        self.catalogue.learn(app.tasks)

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        for job in jobs:
            for what, asked in _REFUSALS:
                if asked(job):
                    raise Unsupported(f"An hworker job is an id and a payload, and cannot carry {what}.")
        ids = [new_id() for _ in jobs]
        names = [self.catalogue.name_of(job.queue) for job in jobs]
        raw = [
            (name, write(job_id, self.catalogue.payload(job.task, name, job.body)))
            for job, job_id, name in zip(jobs, ids, names, strict=True)
        ]

        def work() -> Work[list[Put]]:
            if raw:
                yield requests.queue(raw)
            return [Put(job_id, True) for job_id in ids]

        return Steps(work)

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Steps(lambda: looking.get(self.catalogue, ids))

    def find(self, wanted: Filter) -> Operation[Page]:
        return Steps(lambda: looking.find(self.catalogue, wanted))

    def counts(self) -> Operation[list[Counts]]:
        def work() -> Work[list[Counts]]:
            names = sorted(self.catalogue.names)
            numbers = yield requests.counts(names)
            answer = []
            for name, (waiting, running, broken, failed) in zip(names, numbers, strict=True):
                by_state = {State.READY: waiting, State.RUNNING: running, State.FAILED: failed + broken}
                if any(by_state.values()):
                    answer.append(Counts(name, {state: number for state, number in by_state.items() if number}))
            return answer

        return Steps(work)

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        raise Unsupported("An hworker queue keeps no history: messages are only logged, never written to Redis.")

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Steps(lambda: looking.act(self.catalogue, ids, (JOBS, PROGRESS)))

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Steps(lambda: looking.act(self.catalogue, ids, (JOBS, PROGRESS, FAILED, BROKEN)))

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Steps(lambda: looking.act(self.catalogue, ids, (FAILED, BROKEN), again=True))

    def job_waiter(self, job_id: str) -> Waiter:
        raise Unsupported("An hworker job leaves no result: messages are only logged, never written to Redis.")

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        if session.timeout > self.options.timeout * 1000:
            raise ConfigurationError(
                f"A worker renews every third of its session time-out ({session.timeout / 1000:g} s): too seldom for "
                f"an hworker queue whose jobs are given back after {self.options.timeout:g} s. Use a shorter "
                "session_timeout (--session-timeout), or a longer ?timeout= for all programs on this queue."
            )
        self.catalogue.check(session.queues)

        def work() -> Work[int]:
            known = self.sessions_here.find(session.id)
            moment: int = yield now()
            if known.info is None:
                known.info, known.opened = session, moment
                self._warn_of_strangers(session.queues)
            return moment

        return Steps(work)

    def _warn_of_strangers(self, queues: Sequence[str]) -> None:
        strangers = {self.catalogue.name_of(queue) for queue in queues}
        for name in sorted(name for name in strangers if self.catalogue.task_of(name) is None):
            log.warning("no task here has the queue %s: its jobs are left to others", name)

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
        return Steps(lambda: self._turns.exchange(session, number, outcomes, take))

    def report(self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0) -> Operation[list[bool]]:
        def work() -> Work[list[bool]]:
            held = self.sessions_here.find(session).held
            for report in reports:
                for _, line in report.log:
                    log.info("job %s: %s", report.id, line)
            return [report.ref in held for report in reports]
            yield  # nothing is sent: a generator all the same

        return Steps(work)

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
    ) -> Operation[Renewal]:
        return Steps(lambda: self._turns.renew(session, held))

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        return Steps(lambda: self._turns.close(session, crashed or ()))

    def write_down(self, session: str, custody: Custody) -> None:
        self.sessions_here.find(session).custody = custody

    def inherit(self, session: str, held: Mapping[Ref, Sequence[Any]]) -> None:
        self.sessions_here.find(session).inherit(held)

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        def work() -> Work[list[SessionSnapshot]]:
            moment: int = yield now()
            return [session.snapshot(moment) for session in self.sessions_here if session.info is not None]

        return Steps(work)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        names = [name for queue in queues if self.catalogue.task_of(name := self.catalogue.name_of(queue)) is not None]

        def has_room() -> bool | None:
            known = self.sessions_here.peek(session)
            return known.has_room if known is not None else None

        return Listener(self.driver, names, has_room)

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        """What a monitor does, as often as a monitor does it; in between it asks the server nothing."""

        def work() -> Work[Swept]:
            at = time.monotonic()
            if not self.options.monitor or (self._swept is not None and at - self._swept < self._monitor.period):
                return Swept()
            self._swept = at
            returned = 0
            for name in self.catalogue.names:
                if self.catalogue.shown_task(name) or name == self.options.name:
                    returned += len((yield from self._monitor.sweep(name)).given_back)
            if returned:
                log.warning("%d jobs were in progress for more than %g s: given back", returned, self.options.timeout)
            return Swept(jobs_returned=returned)

        return Steps(work)
