"""A WorkKit schedule as a store: `workkit+redis://host:6379/0?schedule=app-tasks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from headrace.dialects.base import OwnerlessStore
from headrace.dialects.lease_book import LeaseBook
from headrace.dialects.on_redis import RedisDialect, Stepwise, test_clock
from headrace.errors import ConfigurationError, Unsupported
from headrace.options import CARRIED
from headrace.records import Counts, Filter, NewJob, Page, Put, ScheduleRecord, SessionInfo, Snapshot
from headrace.store.ages import Oldest
from headrace.store.contract import Facet, Operation, Swept, Waiter
from headrace.store.facets import ScheduleLook
from headrace.store.redis.operation import Script, Steps
from headrace.task import content_key
from headrace.values.clock import Clock

from . import find, schedules
from .address import Keys, parse_url
from .exchange import Exchanges
from .find import Entry
from .handlers import Handlers, wire_name
from .payload import by_position, canonical, job_id
from .sessions import Session
from .sweep import Orphanage
from .times import Timekeeper, cron_of, in_order
from .waiter import ScheduleWaiter
from .wire import NewEntry, ScheduleDriver, Wire

if TYPE_CHECKING:
    from headrace.app import Headrace

DEFAULT_QUEUE = "default"


class WorkKitStore(RedisDialect, OwnerlessStore[Session]):
    """Jobs in a WorkKit schedule: two keys, shared with every program that follows the published format.

    Options of the URL: `schedule` (its name), `lease` (60s: after how long another listener takes over from one that
    died), `repair_after` (give jobs that have lost their entry for so long a new one), `modules` (a list, with commas,
    of modules whose functions may be run without being registered), `cron_order=cuckoo`.
    """

    driver: ScheduleDriver
    exchanges: Exchanges
    facets = frozenset({Facet.DELAY, Facet.SCHEDULES, Facet.AGES})
    REFUSES: ClassVar = {
        "priority": "A WorkKit schedule runs jobs by their times and knows no priority. Keep urgent jobs in another "
        "schedule.",
        "unique": "In a WorkKit schedule a job is unique by its task, arguments and time: write unique=True. No other "
        "key can be kept, so unique_key, unique_for and on_clash are refused.",
        **dict.fromkeys(
            CARRIED, "A WorkKit payload carries no options of a call: set retries, timeout and keep_result on the task."
        ),
        "test": "A WorkKit schedule has one line, and every listener takes from it. Keep test traffic in a schedule of "
        "its own.",
        "require_worker": "A WorkKit schedule does not say who listens to it, so require_worker can't be answered.",
        "history": "A WorkKit schedule keeps no history of its jobs: it has two keys, for what is to be done.",
        "revive": "A WorkKit schedule keeps no failed jobs, so none can be revived: add it again.",
        "job_waiter": "A WorkKit schedule keeps no results, and does not tell when a job has run.",
        "tick": "A WorkKit schedule is not ticked: its entry has the time of its next run.",
    }

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        place, self.settings = parse_url(url)
        self.keys = Keys(self.settings.schedule)
        self.driver = ScheduleDriver(place, self.keys, test_clock(clock))
        self.timekeeper = Timekeeper(test_clock(clock))
        self.wire = Wire(self.timekeeper)
        self.handlers = Handlers(self.settings.modules)
        self.book = LeaseBook(Session)
        self.exchanges = Exchanges(self)
        self.orphanage = Orphanage(self.settings, self.wire, self.timekeeper)

    def serve(self, app: Headrace) -> None:
        """The app whose tasks run here. It says how they are named, and in which order they take arguments."""
        super().serve(app)
        self.handlers.serve(app)

    def knows(self, task: str) -> bool:
        return task in self.tasks

    def home(self, task: str, queue: str) -> str:
        known = self.tasks.get(task)
        return queue if known is None else self.queue_of((known.options.queue,)) or queue

    def advice(self) -> list[str]:
        orphans = self.run(self.orphans())
        found = super().advice()
        if orphans:
            found.append(
                f"{len(orphans):,} jobs of the schedule {self.settings.schedule!r} have no entry: "
                "published listeners run them, or died doing so. repair_after=... gives them one."
            )
        return found

    def ask_time(self) -> Stepwise[int]:
        """What time it is at the server, which is asked if it was not said lately."""
        if not self.timekeeper.knows:
            yield self.wire.time()
        return self.timekeeper.now()

    def carries(self, option: str, job: NewJob) -> bool:
        """`unique=True` alone: the job's id is made from its content."""
        task = self.tasks.get(job.task)
        plain = job.unique_for is None and not job.replace
        return option == "unique" and plain and task is not None and job.unique_key == content_key(task, job.body)

    def queue_of(self, queues: Sequence[str]) -> str | None:
        """The name by which a worker calls this schedule, if it does."""
        return next((queue for queue in queues if queue in (DEFAULT_QUEUE, self.settings.schedule)), None)

    # -- clients --

    def refuse_put(self, jobs: Sequence[NewJob]) -> None:
        self.refuse_options(jobs)
        for job in jobs:
            if self.queue_of((job.queue,)) is None:
                raise Unsupported(
                    f"This store is the schedule {self.settings.schedule!r}: it has no queue {job.queue!r}. "
                    "Open that schedule as a store of its own."
                )

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        self.refuse_put(jobs)
        arguments = [by_position(self.tasks.get(job.task), job.body) for job in jobs]

        def work() -> Stepwise[list[Put]]:
            if not jobs:
                return []
            now = yield from self.ask_time()
            moments = [job.run_at if job.run_at is not None else now + (job.delay or 0) for job in jobs]
            instants = iter(self.timekeeper.instants(sum(moment <= now for moment in moments)))
            new = []
            for job, args, moment in zip(jobs, arguments, moments, strict=True):
                # A later moment is rounded up, so that a delay is never short. One in the past keeps its second: a job
                # that is put again, as by a drain that was killed, is the same job then.
                second = moment // 1000 * 1000 if moment <= now else -(-moment // 1000) * 1000
                cron = in_order(cron_of(second), self.settings.cron_order)
                text = canonical(wire_name(job.task), cron, args, job.id if job.unique_key is None else None)
                new.append(NewEntry(job_id(text), text, next(instants) if moment <= now else second))
            created = yield self.wire.insert(new, now)
            return [Put(entry.id, is_new) for entry, is_new in zip(new, created, strict=True)]

        return Steps(work)

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Steps(lambda: find.get(self, ids))

    def find(self, wanted: Filter) -> Operation[Page]:
        """Jobs that have an entry, by their next time."""
        return Steps(lambda: find.find(self, wanted))

    def entries(self) -> Operation[list[Entry]]:
        """All jobs with their next times, earliest first; those without an entry come last."""
        return Steps(lambda: find.entries(self))

    def orphans(self) -> Operation[dict[str, bytes]]:
        """Jobs that have no entry at present: published listeners run them, or died doing so."""
        return Steps(self.orphanage.find)

    def counts(self) -> Operation[list[Counts]]:
        return Steps(lambda: find.counts(self))

    def oldest(self) -> Operation[Oldest]:
        return Steps(lambda: find.oldest(self))

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """Removes them: a schedule has no place for cancelled jobs. Whoever runs one is told to stop."""
        return self.wire.remove(ids)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self.wire.remove(ids)

    # -- schedules --

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Operation[bool]:
        text = schedules.text_of(self, record)
        return Steps(lambda: schedules.put(self, record, expected, text))

    def schedules(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100
    ) -> Operation[ScheduleLook]:
        return Steps(lambda: schedules.look(self, names, after, limit))

    def delete_schedule(self, name: str) -> Operation[bool]:
        return Steps(lambda: schedules.delete(self, name))

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        if session.timeout * 4 > self.settings.lease * 3:
            raise ConfigurationError(
                f"A session of {session.timeout / 1000:g} s needs a lease of at least {session.timeout / 750:g} s: a "
                "worker that is cut off stops its jobs when its session ends, and their leases must last that long. "
                "Add &lease=..., or make the session's time-out shorter."
            )

        def work() -> Stepwise[int]:
            self.book.get(session.id)
            now: int = yield self.wire.time()
            self.book.open(session, now)
            self.handlers.add_names(session.tasks)
            return now

        return Steps(work)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        def told() -> int | None:
            known = self.book.find(session)
            return None if known is None else known.next_due

        def look() -> Script[tuple[bool, int]]:
            return self.wire.look(self.handlers.likenesses, self.exchanges.unusable.ids(), told)

        return ScheduleWaiter(self.driver, self.keys.channel, look, lambda: self.has_room(session))

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        def work() -> Stepwise[Swept]:
            return Swept(jobs_returned=(yield from self.orphanage.tend()))

        return Steps(work)
