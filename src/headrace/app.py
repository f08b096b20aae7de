"""The app: a registry of tasks, and the way to the store."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace import enqueueing
from headrace.errors import ArgumentsError, ConfigurationError
from headrace.events import AsyncEvents, EventQuery, Events, filter_of
from headrace.holder import StoreHolder
from headrace.hooks import Hooks
from headrace.including import Including
from headrace.job import Job
from headrace.options import check_routes, task_options
from headrace.retry import Backoff
from headrace.store.callers import given_connection
from headrace.store.contract import Operation
from headrace.store.courses import arun_course, run_course
from headrace.store.facets import DayStats, Statistics, Tags, facet
from headrace.store.paging import apages, list_schedules, pages
from headrace.store.selecting import JobQuery, Selection, query_of
from headrace.store.stats import QueueStats, day_of, of_day
from headrace.store.urls import shown_url
from headrace.task import AsyncTask, Call, Task, TaskDecorator, task_function
from headrace.transactions import block
from headrace.values.clock import Clock
from headrace.values.durations import Duration
from headrace.values.foreign import Codecs
from headrace.values.names import check_count, check_flag, check_name, check_version
from headrace.values.signatures import takes_keywords_of

if TYPE_CHECKING:
    from headrace.ops.look import WorkerFigures
    from headrace.ops.settings import AppSettings
    from headrace.queue import Queue
    from headrace.records import Definition
    from headrace.schedules import BoundSchedule, StoredSchedule
    from headrace.testing import Testing
    from headrace.worker.context import Context
    from headrace.worker.embedded import Worker
    from headrace.worker.meter import Board

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Headrace(StoreHolder, Hooks, Including):
    """Tasks, and the store that their jobs go to.

    `url`: where the jobs live; `$HEADRACE_STORE` if not given, else a file beside you. Opened when first used.
    `name`: what it signs the schedules with that it declares; if not given, `module:app` as workers import it.
    `version`: of the code, as `headrace workers` shows it; if not given, that of the installed package that it is in.
    `tz`: the zone of naive datetimes and of words like "7pm tomorrow".
    `retries`, `backoff`: what an escaped exception leads to in tasks that don't say otherwise; 0 retries: failure.
    `routes`: queues by GLOBs over task names, for tasks that name no queue: `{"mail.*": "mail"}`. The first that fits.
    `payload_limit`: the most bytes that encoded arguments, a result or data may take.
    `pool`: your own pool of connections to PostgreSQL, used instead of new ones; see docs/stores/postgres.md.

    >>> app = Headrace("sqlite:///:memory:")
    >>> @app.task
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> add(1, 2)
    3
    >>> job = add.enqueue(3, 4)
    >>> job.state
    <State.READY: 'ready'>
    >>> app.worker().run_until_empty()
    >>> job.result()
    7
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str | None = None,
        version: str | None = None,
        tz: str = "UTC",
        retries: int = 0,
        backoff: Backoff | None = None,
        routes: Mapping[str, str] | None = None,
        payload_limit: int = 1_048_576,
        pool: object | None = None,
        clock: Clock | None = None,
    ) -> None:
        StoreHolder.__init__(self, url, clock, pool)
        Hooks.__init__(self)
        Including.__init__(self)
        try:
            self.zone = ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError, TypeError) as error:
            raise ConfigurationError(f"tz={tz!r} is not a time zone. Write for example tz='Europe/Zurich'.") from error
        self.name = None if name is None else check_name("app", name)
        self.version = None if version is None else check_version(version)
        self.declared: dict[str, Definition] = {}
        """Schedules that are declared in code, by name."""
        self.codecs = Codecs()
        self.more_queues: set[str] = set()
        """Queues (or GLOBs) that workers listen to by default, though no task goes there unless a call says so."""
        self.payload_limit = check_count("payload_limit", payload_limit, 1)
        self.board: Board | None = None
        """Where workers inside this program count what they do; None: they don't (`headrace.metrics.collector`)."""
        self.routes = check_routes(routes)
        self._retries = check_count("retries", retries)
        self._backoff = backoff or Backoff()

    def __repr__(self) -> str:
        return f"<Headrace {f'{self.name} ' if self.name else ''}on {shown_url(self.url)}>"

    # -- tasks --

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retries: int | None = None,
        backoff: Backoff | None = None,
        retry_on: type[BaseException] | tuple[type[BaseException], ...] = ...,
        fail_on: type[BaseException] | tuple[type[BaseException], ...] = ...,
        timeout: Duration | None = None,
        heartbeat: Duration | None = None,
        isolate: bool = False,
        scratch: bool = False,
        max_crashes: int = 3,
        keep_result: bool = True,
        on_failure: Callable[[Context, BaseException], Any] | None = None,
        tags: Iterable[str] = (),
        headers: Mapping[str, str] = ...,
        expires: datetime | timedelta | float | str | None = None,
        lane: str | None = None,
        limit: int | None = None,
        rate: str | tuple[int, Duration] | None = None,
        weight: int | None = None,
        sequence: str | None = None,
    ) -> TaskDecorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Make a function callable through a queue, bare (`@app.task`) or with options (`@app.task(queue="mail")`).

        `retries`: further attempts after the first, with `backoff` between them, for exceptions of `retry_on` but
        not of `fail_on`, and for `raise Retry`, which may ask for 25 of them if this is not set here or in the call.
        `timeout`: how long a run may take. `heartbeat`: how long it may go without calling `current().heartbeat()`.
        `isolate`: run each job in a process of its own; with `scratch`, in an empty directory of its own too.
        `max_crashes`: how often the process may die under a job before it is failed. `on_failure`: called with the
        context and the exception when a job has failed for good. The others: see `headrace.options.JobOptions`.
        """

        def decorate(function: Callable[..., Any]) -> Task[Any, Any]:
            made = self._made(task_function(function, name), name, options)
            self._require_providers(made)
            return self._add(made)

        return decorate if function is None else decorate(function)

    def _made(self, function: Callable[..., Any], name: str | None, options: Mapping[str, Any]) -> Task[Any, Any]:
        """A task of this app, whether it is declared with it or shared."""
        kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
        return kind(self, function, name, task_options(options, self._retries, self._backoff))

    def _require_providers(self, task: Task[Any, Any]) -> None:
        missing = set(task.arguments.injected.values()) - set(self.providers) - set(self.job_providers)
        if missing:
            raise ConfigurationError(
                f"Task {task.name} asks for {min(missing)!r}, which nothing provides. "
                f"Write @app.provide({min(missing)!r}) above it."
            )

    def _add(self, task: Task[Any, Any]) -> Task[Any, Any]:
        if task.name in self.known_tasks:
            raise ConfigurationError(f"There is a task {task.name!r} already: give this one another name=.")
        self.known_tasks[task.name] = task
        return task

    def codec(self, kind: type[T], encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
        """Carry values of a type of yours, as arguments, results and data. Call it above the tasks that use the type.

        `encode` makes plain JSON values of a value (text, numbers, lists, dictionaries), `decode` makes an equal value
        of these. The codec is for values of exactly this type: a subclass needs one of its own.

        >>> from fractions import Fraction
        >>> app = Headrace("sqlite:///:memory:")
        >>> app.codec(Fraction, encode=str, decode=Fraction)
        >>> @app.task
        ... def half(share: Fraction) -> Fraction:
        ...     return share / 2
        >>> job = half.enqueue(Fraction(2, 3))
        >>> app.worker().run_until_empty()
        >>> job.result()
        Fraction(1, 3)
        """
        self.codecs.register(kind, encode, decode)

    # -- jobs --

    def enqueue_many(self, calls: Iterable[Call[R]], *, connection: object = ...) -> list[Job[R]]:
        """Put a batch of calls into the store in one step: all of them or none.

        Stores on Redis serve nobody else meanwhile: there more than 1,000 jobs, or 8 MB, are put in several such steps.
        If one of them raises, what came before it is there, and it is safe to enqueue the same calls again.
        `connection`: put them through this connection, in the transaction that is open there.

        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def double(number: int) -> int:
        ...     return number * 2
        >>> jobs = app.enqueue_many([double.call(number) for number in range(3)])
        >>> app.worker().run_until_empty()
        >>> [job.result() for job in jobs]
        [0, 2, 4]
        """
        return enqueueing.enqueue_many(self, calls, given_connection(connection))

    async def aenqueue_many(self, calls: Iterable[Call[R]], *, connection: object = ...) -> list[Job[R]]:
        """The same, from async code. The handles know their jobs' state: looking at it needs no further request."""
        return await self._aenqueue_many(calls, given_connection(connection))

    _enqueue = enqueueing.enqueue
    _aenqueue_many = enqueueing.aenqueue_many

    def transaction(self, connection: object) -> AbstractContextManager[None]:
        """Have every enqueue inside, in this thread or asyncio task, go through a connection of yours.

        The jobs are there if the transaction that is open on it commits. `with`, in async code too.

        >>> import apsw, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> app = Headrace(f"sqlite:///{folder}/shop.db")
        >>> @app.task
        ... def confirm(order: int) -> None: ...
        >>> app.failures()  # (any use of the app creates the file)
        {}
        >>> connection = apsw.Connection(f"{folder}/shop.db")
        >>> with connection, app.transaction(connection):
        ...     job = confirm.enqueue(7)
        >>> job.refresh().state
        <State.READY: 'ready'>
        >>> app.close()
        """
        return block(self, connection)

    def job(self, job_id: str) -> Job[Any]:
        """A handle on the job with this id. Nothing is looked up before you ask."""
        return Job(self, job_id)

    @takes_keywords_of(query_of)
    def jobs(self, **wanted: Unpack[JobQuery]) -> Iterator[Job[Any]]:
        """Jobs that fit all that is given, newest first, fetched page by page. See `JobQuery`.

        `state`: one or several. `task`: a name or a GLOB (`"shop.mail:*"`). `worker`: running under this one. `before`,
        `after`: put before or after this moment, or this long ago. `error`, `args`: with this text in the error, or in
        the value of an argument; what has no index is looked for job by job.

        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task(name="mail:send", tags=["mail"])
        ... def send(to: str) -> None: ...
        >>> jobs = [send.enqueue("ada"), send.using(tags=["mail", "vip"]).enqueue("bob")]
        >>> [job.tags for job in app.jobs(tag="mail", task="mail:*", state="ready")]
        [('mail', 'vip'), ('mail',)]
        >>> [job.id == jobs[1].id for job in app.jobs(args={"to": "bob"}, after="1 hour")]
        [True]
        """
        query = self._query(wanted)
        found = (job for page in pages(self.store, query.wanted) for job in page if query.fits(job))
        return (Job(self, job.id, snapshot=job) for job in found)

    @takes_keywords_of(query_of)
    def ajobs(self, **wanted: Unpack[JobQuery]) -> AsyncIterator[Job[Any]]:
        """The same for `async for`."""
        query = self._query(wanted)
        found = (job async for page in apages(self.store, query.wanted) for job in page if query.fits(job))
        return (Job(self, job.id, snapshot=job) async for job in found)

    def _query(self, wanted: JobQuery) -> Selection:
        return query_of(self.store, self.zone, self.clock.now(), **wanted)

    def failures(self, limit: int = 50) -> dict[str, int]:
        """The groups with the most failed jobs, and how many; most first.

        `app.jobs(state="failed", group=...)` lists the jobs of one.

        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def divide(a: int, b: int) -> float:
        ...     return a / b
        >>> job = divide.enqueue(1, 0)
        >>> app.worker().run_until_empty()
        >>> app.failures()
        {'ZeroDivisionError': 1}
        """
        found = self.store.run(facet(self.store, Statistics).failures(limit))
        return dict(found)

    async def afailures(self, limit: int = 50) -> dict[str, int]:
        """The same, from async code."""
        found = await self.store.arun(facet(self.store, Statistics).failures(limit))
        return dict(found)

    def workers(self) -> list[WorkerFigures]:
        """The worker processes as the store sees them: name, pid, queues, how many jobs they run, when last seen.

        `app.jobs(worker=name)` lists what one runs.
        """
        from headrace.ops.look import workers  # noqa: PLC0415  (few programs ask)

        return workers(self)

    async def aworkers(self) -> list[WorkerFigures]:
        """The same, from async code."""
        from headrace.ops.look import aworkers  # noqa: PLC0415

        return await aworkers(self)

    def stats(self, queue: str = "default", day: date | str | None = None) -> QueueStats:
        """How long jobs of a queue waited and ran on a day (UTC; today if not given), and what went wrong.

        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def nap() -> None: ...
        >>> jobs = app.enqueue_many([nap.call() for _ in range(3)])
        >>> app.worker().run_until_empty()
        >>> today = app.stats("default")
        >>> today.run.count, today.wait.percentile(90).total_seconds() < 60, today.failures
        (3, True, 0)
        """
        return of_day(self.store.run(self._stats(queue, day)))

    async def astats(self, queue: str = "default", day: date | str | None = None) -> QueueStats:
        """The same, from async code."""
        return of_day(await self.store.arun(self._stats(queue, day)))

    def _stats(self, queue: str, day: date | str | None) -> Operation[DayStats]:
        return facet(self.store, Statistics).stats(check_name("queue", queue), day_of(day, self.clock.now()))

    @property
    def settings(self) -> AppSettings:
        """Settings that all workers share: `app.settings["jobs-history"] = "3 days"`. See `AppSettings`."""
        from headrace.ops.settings import AppSettings  # noqa: PLC0415  (few programs change them)

        return AppSettings(self)

    def tags(self, limit: int = 50) -> dict[str, int]:
        """The most used tags, and how many jobs have each; most first."""
        found = self.store.run(facet(self.store, Tags).tags(limit))
        return dict(found)

    async def atags(self, limit: int = 50) -> dict[str, int]:
        """The same, from async code."""
        found = await self.store.arun(facet(self.store, Tags).tags(limit))
        return dict(found)

    def queue(self, name: str) -> Queue:
        """A handle on a queue: pause it, limit it and its lanes, look at what stands in line."""
        from headrace.queue import Queue  # noqa: PLC0415  (most programs only enqueue)

        return Queue(self, name)

    @takes_keywords_of(filter_of)
    def events(self, *, timeout: Duration | None = None, **wanted: Unpack[EventQuery]) -> Events:
        """What happens to jobs from now on, one event after the other. Without `timeout` it waits for ever.

        `job`: of this id. `queue`, `task`: a name or a GLOB. `what`: one or several of created, started, progress, log,
        done, failed, retried, deferred, released, crashed, moved, waiting, cancelling, cancelled, revived, edited,
        deleted, lost, taken back, set (a setting, or the rules of a lane). `tracked`: only of tracked jobs. `timeout`:
        end after so long without an event that fits. An event `missed` says that some were lost: the reader was slow,
        or the store was away.

        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task(name="greet")
        ... def greet(name: str) -> str:
        ...     return f"Hello, {name}!"
        >>> with app.events(timeout=0.1) as events:
        ...     job = greet.enqueue("world")
        ...     app.worker().run_until_empty()
        ...     [(event.what, event.task) for event in events]
        [('created', 'greet'), ('started', 'greet'), ('done', 'greet')]
        """
        return Events(self.store, filter_of(**wanted), timeout)

    @takes_keywords_of(filter_of)
    def aevents(self, *, timeout: Duration | None = None, **wanted: Unpack[EventQuery]) -> AsyncEvents:
        """The same for `async for`. It listens from the first step on, or from `async with app.aevents() as events`."""
        return AsyncEvents(self.store, filter_of(**wanted), timeout)

    # -- recurring jobs --

    def schedule(self, name: str, bound: BoundSchedule[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Declare a recurring job in code: `app.schedule("nightly", report.every("every day at 4am"), "sales")`.

        Each worker that starts sees to it that the store has what the code says: a new one is stored, one that has
        changed is changed (its next run stays, unless the rule is another), one that is gone from the code is removed.

        >>> app = Headrace("sqlite:///:memory:", name="shop")
        >>> @app.task
        ... def report(kind: str) -> None: ...
        >>> app.schedule("nightly", report.every("every day at 4am"), "sales")
        >>> app.worker().run_until_empty()
        >>> [(schedule.name, schedule.rule) for schedule in app.schedules()]
        [('nightly', 'every day at 04:00 UTC')]
        """
        if bound.app is not self:
            raise ArgumentsError(f"{bound!r} is of another app: declare it there.")
        if check_name("schedule", name) in self.declared:
            raise ConfigurationError(f"There is a schedule {name!r} already: give this one another name.")
        self.declared[name] = bound.timeless(args, kwargs)

    def schedules(self, *names: str) -> list[StoredSchedule]:
        """The schedules that the store has, by name; or those of these names that it has."""
        from headrace.schedules import StoredSchedule  # noqa: PLC0415

        found = run_course(self.store, list_schedules(self.store, names))
        return [StoredSchedule(self, record) for record in found]

    async def aschedules(self, *names: str) -> list[StoredSchedule]:
        """The same, from async code."""
        from headrace.schedules import StoredSchedule  # noqa: PLC0415

        found = await arun_course(self.store, list_schedules(self.store, names))
        return [StoredSchedule(self, record) for record in found]

    # -- workers --

    def worker(self, **options: Any) -> Worker:
        """A worker inside this program, without a supervisor: for tests, scripts and embedding. See `Worker`."""
        from headrace.worker.embedded import Worker  # noqa: PLC0415  (clients never need it)

        return Worker(self, **options)

    @asynccontextmanager
    async def lifespan(self, *, worker: bool = False) -> AsyncIterator[None]:
        """Open the store, creating it if need be, for as long as an async program lasts, without blocking its loop.

        For the start and the end of a web application: a store that can't be reached is known then, not at the first
        request. `worker`: run jobs in this program meanwhile. Inside `testing()` none does: call `run_all` there.

        >>> from asyncio import run
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def shout(word: str) -> str:
        ...     return word.upper()
        >>> async def main() -> str:
        ...     async with app.lifespan(worker=True):
        ...         return await (await shout.aenqueue("hello")).aresult(timeout=20)
        >>> run(main())
        'HELLO'
        """
        from asyncio import to_thread  # noqa: PLC0415  (half of what `import headrace` would take)

        check_flag("worker", worker)
        try:
            await to_thread(self._create_store)
            if worker and not self._stand_ins:
                async with self.worker():
                    yield
            else:
                yield
        finally:
            await self.aclose()

    def testing(self, *, schedules: bool = False) -> Testing:
        """For tests: `with app.testing() as t:` puts a real store in memory and a clock of your own in place.

        `schedules`: whether what the app declares with `app.schedule` is there, and ticks when time passes.
        """
        from headrace.testing import Testing  # noqa: PLC0415

        return Testing(self, schedules=schedules)
