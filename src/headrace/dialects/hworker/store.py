"""An hworker queue as a store: jobs in a list and a hash that programs in any language share."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.dialects.base import OwnerlessStore
from headrace.dialects.hworker import find, requests
from headrace.dialects.hworker.catalogue import Catalogue
from headrace.dialects.hworker.driver import HworkerDriver, Keys
from headrace.dialects.hworker.exchange import Exchanges
from headrace.dialects.hworker.options import parse_url
from headrace.dialects.hworker.requests import BROKEN, FAILED, JOBS, PROGRESS
from headrace.dialects.hworker.sessions import Session
from headrace.dialects.hworker.sweep import Monitor
from headrace.dialects.hworker.waiter import ListWaiter
from headrace.dialects.hworker.wire import new_id, write
from headrace.dialects.lease_book import LeaseBook
from headrace.dialects.on_redis import RedisDialect, Stepwise, test_clock
from headrace.errors import ConfigurationError
from headrace.options import CARRIED
from headrace.records import Counts, Filter, NewJob, Page, Put, SessionInfo, Snapshot
from headrace.store.contract import Facet, Operation, Swept, Waiter
from headrace.store.redis.operation import Steps
from headrace.values.clock import Clock

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.hworker")


def _cannot_carry(what: str) -> str:
    return f"An hworker job is an id and a payload, and cannot carry {what}."


class HworkerStore(RedisDialect, OwnerlessStore[Session]):
    """Jobs of an hworker queue: `hworker+redis://localhost:6379/0?name=mail`.

    Options in the URL: `name` (required), `timeout` (seconds, 120), `failed_size` (1000), `failed_key`, `monitor`,
    `keep_alive` (yes or no, both yes) and `prefetch` (1: a worker holds no more jobs than it runs).

    A task's queue is the hworker name; `default` is the name in the URL. One name, one task: its only argument is the
    payload, or all of them in an array.
    """

    driver: HworkerDriver
    facets = frozenset({Facet.REVIVE})
    REFUSES: ClassVar = {
        "run_after": _cannot_carry("a delay or a time to run (run_after=)"),
        "priority": _cannot_carry("a priority"),
        **dict.fromkeys(CARRIED, _cannot_carry("options of its own")),
        "max_crashes": _cannot_carry("a limit of crashes (max_crashes=): crashes are not counted"),
        "unique": _cannot_carry("uniqueness (unique=, unique_key=)"),
        "test": _cannot_carry("a mark of test traffic (test=): keep it in a queue with a name of its own"),
        "require_worker": _cannot_carry("a roll call of workers (require_worker=)"),
        "history": "An hworker queue keeps no history: messages are only logged, never written to Redis.",
        "job_waiter": "An hworker job leaves no result: messages are only logged, never written to Redis.",
    }

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        place, self.options = parse_url(url)
        self.url = url
        self.driver = HworkerDriver(place, Keys(self.options.failed_key), test_clock(clock))
        self.catalogue = Catalogue(self.options.name)
        self.book = LeaseBook(Session)
        self.exchanges = Exchanges(self.options, self.catalogue, self.book)
        self._monitor = Monitor(self.options.timeout, log.error)
        self._swept: float | None = None

    def serve(self, app: Headrace) -> None:
        """Learn the app's tasks: which one runs the jobs of a name, and what its arguments are."""
        super().serve(app)
        self.catalogue.learn(self.tasks)

    def knows(self, task: str) -> bool:
        return task in self.tasks

    def home(self, task: str, queue: str) -> str:
        own = self.tasks[task].options.queue
        return own if self.catalogue.name_of(own) == queue else queue

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        self.refuse_options(jobs)
        ids = [new_id() for _ in jobs]
        names = [self.catalogue.name_of(job.queue) for job in jobs]
        raw = [
            (name, write(job_id, self.catalogue.payload(job.task, name, job.body)))
            for job, job_id, name in zip(jobs, ids, names, strict=True)
        ]

        def work() -> Stepwise[list[Put]]:
            if raw:
                yield requests.queue(raw)
            return [Put(job_id, True) for job_id in ids]

        return Steps(work)

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Steps(lambda: find.get(self.catalogue, ids))

    def find(self, wanted: Filter) -> Operation[Page]:
        return Steps(lambda: find.find(self.catalogue, wanted))

    def counts(self) -> Operation[list[Counts]]:
        return Steps(lambda: find.counts(self.catalogue))

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Steps(lambda: find.act(self.catalogue, ids, (JOBS, PROGRESS)))

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Steps(lambda: find.act(self.catalogue, ids, (JOBS, PROGRESS, FAILED, BROKEN)))

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Steps(lambda: find.act(self.catalogue, ids, (FAILED, BROKEN), again=True))

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        if session.timeout > self.options.timeout * 1000:
            raise ConfigurationError(
                f"A worker renews every third of its session time-out ({session.timeout / 1000:g} s): too seldom for "
                f"an hworker queue whose jobs are given back after {self.options.timeout:g} s. Use a shorter "
                "session_timeout (--session-timeout), or a longer ?timeout= for all programs on this queue."
            )
        self.catalogue.check(session.queues)

        def work() -> Stepwise[int]:
            self.book.get(session.id)
            moment: int = yield requests.now()
            if self.book.open(session, moment):
                names = {self.catalogue.name_of(queue) for queue in session.queues}
                for name in sorted(names - self.catalogue.served(session.queues).keys()):
                    log.warning("no task here has the queue %s: its jobs are left to others", name)
            return moment

        return Steps(work)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        return ListWaiter(self.driver, self.catalogue.served(queues), lambda: self.has_room(session))

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        """What a monitor does, as often as a monitor does it; in between it asks the server nothing."""

        def work() -> Stepwise[Swept]:
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
