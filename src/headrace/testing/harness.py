"""The testing helper: the real store, the real way to run a job, one thread, and time that stands still."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from headrace.errors import ConfigurationError, HeadraceError, JobFailed
from headrace.job import Job
from headrace.records import NO_TIME, Filter, Kind, Lease, Outcome, Take, Verdict
from headrace.shared import SharedTask
from headrace.store.contract import Reported
from headrace.task import Task
from headrace.testing.matching import call_text, expected_arguments, fits, what_is_there
from headrace.testing.store import TestingStore
from headrace.values.clock import ManualClock, SystemClock
from headrace.values.codec import decode_error
from headrace.values.durations import Duration, as_datetime, milliseconds
from headrace.worker.context import Context
from headrace.worker.embedded import default_queues
from headrace.worker.identity import introduce
from headrace.worker.outcomes import put_off, rebase
from headrace.worker.reconcile import reconcile
from headrace.worker.resources import Resources
from headrace.worker.run import Run, perform, perform_async

if TYPE_CHECKING:
    from types import TracebackType

    from headrace.app import Headrace
    from headrace.store import Store

P = ParamSpec("P")
R = TypeVar("R")

SESSION_TIMEOUT = 3_600_000


class Testing:
    """What `with app.testing() as t:` gives: the app on a fresh store in memory, with a clock of its own.

    Jobs run when you say so, in this thread, one after the other, through the same code as in a worker: arguments are
    encoded and decoded, retries back off, hooks and middleware run, provided values are injected. What differs:
    isolated tasks run in this process, and `timeout=` and `heartbeat=` are not enforced, as time stands still. The
    clock begins at the present time; durations ("in 5 minutes") are counted by it, and words that name a time of day
    ("7pm tomorrow") are read by it. The app's own URL is never opened meanwhile: `app.close()`, which the shutdown of a
    web framework calls, leaves the store in memory and its jobs in place. Jobs of your own transactions are there when
    these are committed.

    >>> from headrace import Headrace
    >>> app = Headrace()
    >>> @app.task(retries=3)
    ... def charge(order: int) -> str:
    ...     return f"order {order} charged"
    >>> with app.testing() as t:
    ...     job = charge.using(run_after="in 5 minutes").enqueue(7)
    ...     print(t.run_all())
    ...     t.advance("5 minutes")
    ...     print(t.run_all(), job.result())
    0
    1 order 7 charged
    """

    __test__ = False  # pytest: the name says what it is for, not what it is

    def __init__(self, app: Headrace, *, schedules: bool = False) -> None:
        self.app = app
        self._schedules = schedules
        self.clock = ManualClock(SystemClock().now())
        self.payload_limit = app.payload_limit
        self._store: Store | None = None
        self._session = ""
        self._numbers = itertools.count(1)
        self._runner: asyncio.Runner | None = None
        self._resources: Resources | None = None
        self._raised: BaseException | None = None
        self._provided: dict[str, Any] = {}

    # -- coming and going --

    def __enter__(self) -> Testing:
        if self._store is not None:
            raise HeadraceError("This app.testing() is in use already: make another one.")
        self.app.load_included()
        self._store = store = TestingStore(self.clock)
        self.app.stand_in(store, self.clock)
        self.app.failure_hooks.append(self._remember)
        info = introduce(default_queues(self.app), tuple(sorted(self.app.tasks)), SESSION_TIMEOUT)
        self._session = info.id
        store.run(store.open(info))
        if self._schedules:
            reconcile(self.app)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if _loop_runs_here():  # which keeps ours from running in this thread
                with ThreadPoolExecutor(1) as other:
                    other.submit(self._clean_up).result()
            else:
                self._clean_up()
        finally:
            self.app.failure_hooks.remove(self._remember)
            self.app.stand_down(self._open_store)
            self._open_store.close()
            self._store = self._resources = self._runner = None
            self._provided.clear()

    def _clean_up(self) -> None:
        if self._resources is not None:
            self._resources.stop()
        if self._runner is not None:
            self._runner.close()

    @property
    def _open_store(self) -> Store:
        if self._store is None:
            raise HeadraceError("Not in testing: write 'with app.testing() as t:' and use t inside.")
        return self._store

    # -- time --

    @property
    def now(self) -> datetime:
        """What the store takes for the present time."""
        return cast("datetime", as_datetime(self.clock.now()))

    def advance(self, duration: Duration) -> None:
        """Let time pass: seconds, a timedelta, or words. `run_all` then runs what has fallen due.

        Schedules tick on the way, each at its time.
        """
        end = self.clock.now() + milliseconds(duration, "advance")
        while (left := self._tick()) is not None and self.clock.now() + left <= end:
            self.clock.advance(left)
        self.clock.advance(end - self.clock.now())
        self._tick()

    def _tick(self) -> int | None:
        """Tick what is due. Answers in how many milliseconds the next schedule does."""
        from headrace.worker.ticker import tick_some  # noqa: PLC0415  (most tests have no schedules)

        while (left := tick_some(self._open_store, self.app)) == 0:
            pass
        return left

    # -- running --

    def provide(self, name: str, value: Any) -> None:
        """Pass this value to tasks in place of what the app provides under the name, until the test ends.

        Its provider is not called, whether it makes a value per process or per job.

        >>> from headrace import Headrace, inject
        >>> app = Headrace()
        >>> @app.provide("mailer")
        ... def mailer() -> list[str]:
        ...     raise OSError("no mail server here")
        >>> @app.task
        ... def send(to: str, mailer: list[str] = inject("mailer")) -> None:
        ...     mailer.append(to)
        >>> with app.testing() as t:
        ...     t.provide("mailer", sent := [])
        ...     job = send.enqueue("ada")
        ...     print(t.run_all(), sent)
        1 ['ada']
        """
        if name not in self.app.providers and name not in self.app.job_providers:
            raise ConfigurationError(f"Nothing provides {name!r}, so there is nothing to replace. (@app.provide)")
        self._provided[name] = value
        if self._resources is not None:
            self._resources.values[name] = value

    def run_all(self, *, raise_errors: bool = True, limit: int = 10_000) -> int:
        """Run everything that is ready, and whatever that enqueues, until nothing is. Answers with the number of runs.

        A job that fails for good is recorded as failed, and then its exception, the very object, is raised here: a
        mistake in a task does not go unnoticed, and `pytest.raises` works. Jobs behind it stay ready for the next
        `run_all`.
        With `raise_errors=False` failures are only recorded. An exception that leads to a retry is never raised.

        Queues are emptied one after the other by name; within a queue the order is that of a worker with one slot.
        `limit` ends jobs that enqueue themselves for ever.
        """
        if _loop_runs_here():
            raise HeadraceError("An event loop runs here already: write 'await t.arun_all()' in async tests.")
        runs = 0
        while (lease := self._take()) is not None:
            if runs == limit:
                self._settle(_given_back(lease))
                raise HeadraceError(
                    f"{limit:,} runs, and there is more to do: does a job enqueue itself? Or set limit=."
                )
            runs += 1
            self._raised = None
            outcome = self._perform(lease)
            self._settle(outcome)
            if raise_errors:
                self._raise(outcome, lease)
        return runs

    async def arun_all(self, *, raise_errors: bool = True, limit: int = 10_000) -> int:
        """The same, from async code: jobs run in another thread, coroutines on a loop of their own there."""
        return await asyncio.to_thread(self.run_all, raise_errors=raise_errors, limit=limit)

    def _take(self) -> Lease | None:
        store = self._open_store
        queues = {*default_queues(self.app), *(count.queue for count in store.run(store.counts()))}
        take = Take(tuple(sorted(queues)), slots=1, grace=NO_TIME)
        number = next(self._numbers)
        turn = store.run(store.exchange(self._session, number, (), take, steady=self.steady()))
        if not turn.leases and turn.next_tick is not None and turn.next_tick <= turn.now:
            self._tick()
            return self._take()
        return turn.leases[0] if turn.leases else None

    def _perform(self, lease: Lease) -> Outcome:
        task = self.app.tasks.get(lease.task)
        if task is None:
            return put_off(lease, self.clock.now())
        run = Run(lease, task, self)
        if self._runner is None or self._resources is None:
            self._runner = asyncio.Runner()
            self._resources = Resources(self.app, self._runner.run)
            self._resources.values |= self._provided
            self._resources.start()
        if task.is_async:
            return self._runner.run(perform_async(run, self._resources, self.steady))
        return perform(run, self._resources, self.steady)

    def _settle(self, outcome: Outcome) -> None:
        store = self._open_store
        while True:
            reply = store.run(store.exchange(self._session, next(self._numbers), [outcome], steady=self.steady()))
            if Verdict.CHANGED not in reply.verdicts:
                return
            rebase(outcome, self._data(outcome.id))

    def _data(self, job_id: str) -> bytes | None:
        store = self._open_store
        (job,) = store.run(store.get([job_id]))
        return None if job is None else job.data

    def _remember(self, context: Context, error: BaseException) -> None:
        self._raised = error

    def _raise(self, outcome: Outcome, lease: Lease) -> None:
        error, self._raised = self._raised, None
        if outcome.kind is Kind.FAILED and error is not None:
            raise error
        if outcome.kind in (Kind.FAILED, Kind.BROKEN):
            text = decode_error(outcome.error)
            raise JobFailed(lease.id, outcome.group or "broken", text.type, text.message, text.traceback)

    # -- what a run says (see worker.run.Channel) --

    def steady(self) -> int:
        """The steady clock of the one worker here."""
        return self.clock.steady()

    def spoke(self, run: Run) -> None:
        """Progress, data and log lines are in the store at once."""
        store, said = self._open_store, run.speaking
        while True:
            report = said.take(run.lease)
            number = next(self._numbers)
            (answer,) = store.run(store.report(self._session, number, [report], steady=self.steady()))
            if answer is not Reported.CHANGED:
                return said.recorded(report)
            said.hear(self._data(run.id))

    def heard(self, run: Run) -> None:
        """A sign of life; nobody doubts it here."""

    def look(self, run: Run) -> bytes | None:
        """The data is always as it is in the store."""
        run.speaking.hear(self._data(run.id))
        return run.speaking.look()

    def lease_until(self, run: Run) -> int:
        """Time stands still during a run, so its lease has all its time left."""
        return self.steady() + SESSION_TIMEOUT

    # -- looking --

    @property
    def jobs(self) -> list[Job[Any]]:
        """All jobs there are, in whatever state, oldest first."""
        store = self._open_store
        found: list[Job[Any]] = []
        cursor = None
        while True:
            page = store.run(store.find(Filter(limit=500, after=cursor)))
            found += [Job(self.app, snapshot.id, snapshot=snapshot) for snapshot in page.jobs]
            cursor = page.cursor
            if cursor is None:
                return found[::-1]

    def assert_enqueued(self, task: Task[..., R] | SharedTask[..., R], /, *args: Any, **kwargs: Any) -> Job[R]:
        """Fail unless a job of this task was enqueued with (at least) these arguments. Answers with the newest.

        It may have run meanwhile; `clear()` forgets what was before. Options are looked at on the job that is returned.

        >>> from headrace import Headrace
        >>> app = Headrace()
        >>> @app.task
        ... def send(to: str, subject: str = "hi") -> None: ...
        >>> with app.testing() as t:
        ...     _ = send.using(queue="mail").enqueue("ada@example.org")
        ...     t.assert_enqueued(send, to="ada@example.org").queue
        'mail'
        """
        __tracebackhide__ = True  # pytest: the line to show is the test's own
        task = self._own(task)
        expected = expected_arguments(task, args, kwargs)
        jobs = self.jobs
        for job in reversed(jobs):
            if fits(task, job, expected):
                return cast("Job[R]", job)
        there = what_is_there(task, jobs, expected)
        raise AssertionError(f"{call_text(task.name, expected)} was not enqueued.\n{there}")

    def assert_not_enqueued(self, task: Task[..., Any] | SharedTask[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Fail if a job of this task was enqueued with (at least) these arguments."""
        __tracebackhide__ = True
        task = self._own(task)
        expected = expected_arguments(task, args, kwargs)
        jobs = self.jobs
        if any(fits(task, job, expected) for job in jobs):
            raise AssertionError(f"{call_text(task.name, expected)} was enqueued.\n{what_is_there(task, jobs)}")

    def _own(self, task: Task[P, R] | SharedTask[P, R]) -> Task[P, R]:
        return task.of(self.app) if isinstance(task, SharedTask) else task

    def clear(self) -> None:
        """Forget all jobs."""
        store = self._open_store
        store.run(store.delete([job.id for job in self.jobs]))


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _given_back(lease: Lease) -> Outcome:
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.RELEASED)
