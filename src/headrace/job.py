"""A job as its owner sees it: look at it, wait for it, cancel it."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from headrace.editing import depend_course, edit_of
from headrace.errors import JobCancelled, JobFailed, JobNotFound, NotCommitted, ResultGone, Timeout
from headrace.options import headers_of
from headrace.outside import Change, change_of, log_course, update_course
from headrace.records import HistoryRecord, NewJob, Snapshot, State
from headrace.store.contract import Operation
from headrace.store.courses import Course, arun_course, run_course
from headrace.store.facets import Editing, Tags, facet
from headrace.store.settings import retention_of
from headrace.values.codec import ErrorText, decode_error, decode_value
from headrace.values.durations import Duration, Instant, as_datetime, seconds
from headrace.values.names import check_queue, check_tags
from headrace.values.text import length

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.events import AsyncEvents, Events

R_co = TypeVar("R_co", covariant=True)

LOOK_AGAIN = 5.0
"""Seconds after which whoever waits for a job looks again, should the news of its end have been lost."""


class HistoryEntry(NamedTuple):
    """One thing that happened to a job."""

    at: datetime
    what: str
    detail: str
    worker: str


class Progress(NamedTuple):
    """How far a job says it is."""

    done: float
    total: float

    @property
    def fraction(self) -> float:
        return self.done / self.total if self.total else 0.0


class Job(Generic[R_co]):
    """A handle on one job. Attributes show the job as it was when last looked at; `refresh()` looks again.

    `R` is what the task returns: `job.result()` has that type.
    """

    __slots__ = ("_snapshot", "_state", "app", "created_now", "id", "is_uncommitted")

    def __init__(
        self,
        app: Headrace,
        job_id: str,
        *,
        created_now: bool = False,
        snapshot: Snapshot | None = None,
        state: State | None = None,
        is_uncommitted: bool = False,
    ) -> None:
        self.app = app
        self.id = job_id
        self.created_now = created_now
        """False: this is the job that was there already, with the same id or unique key."""
        self._snapshot = snapshot
        self._state = state
        """What it is known to be since it was put, before the first look."""
        self.is_uncommitted = is_uncommitted
        """It was enqueued in a transaction of the caller, and has not been seen since."""

    def __repr__(self) -> str:
        return f"<job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # -- looking --

    def refresh(self) -> Job[R_co]:
        """Look at the job again. Raises `JobNotFound` when it is gone."""
        return self._seen(self.app.store.run(self.app.store.get([self.id]))[0])

    async def arefresh(self) -> Job[R_co]:
        """The same, from async code."""
        return self._seen((await self.app.store.arun(self.app.store.get([self.id])))[0])

    def _seen(self, snapshot: Snapshot | None) -> Job[R_co]:
        if snapshot is None:
            raise NotCommitted(self.id) if self.is_uncommitted else JobNotFound(self.id, retention_of(self.app.store))
        self._snapshot = snapshot
        self.is_uncommitted = False
        return self

    @property
    def snapshot(self) -> Snapshot:
        """Everything the store knows about the job, as of the last look."""
        if self._snapshot is None:
            self.refresh()
        return cast("Snapshot", self._snapshot)

    def saw(self, snapshot: Snapshot | None) -> None:
        """Keep what a look has found; None: the job is gone, and the next look says so."""
        self._snapshot = snapshot

    @property
    def state(self) -> State:
        if self._snapshot is None and self._state is not None:
            return self._state
        return self.snapshot.state

    @property
    def task(self) -> str:
        return self.snapshot.task

    @property
    def queue(self) -> str:
        return self.snapshot.queue

    @property
    def attempts(self) -> int:
        """Attempts made so far; crashes are counted apart, in `crashes`."""
        return self.snapshot.attempts

    @property
    def crashes(self) -> int:
        return self.snapshot.crashes

    @property
    def run_after(self) -> datetime:
        return cast("datetime", as_datetime(self.snapshot.due))

    @property
    def progress(self) -> Progress | None:
        """What the run last said with `current().progress(done, total)`."""
        found = self.snapshot.progress
        return None if found is None else Progress(*found)

    @property
    def data(self) -> Any:
        """What its runs left with `current().update(...)`, and others with `update`."""
        return decode_value(self.snapshot.data)

    @property
    def headers(self) -> dict[str, str]:
        """What it carries for its run: `using(headers={...})`."""
        options = self.snapshot.options
        return headers_of(options)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.snapshot.tags

    @property
    def tracked(self) -> bool:
        """Whether it is tracked (`track`)."""
        return self.snapshot.tracked

    @property
    def history(self) -> list[HistoryEntry]:
        """What happened to the job so far, oldest first. Always a fresh look."""
        return _lines(self.app.store.run(self.app.store.history(self.id)))

    async def ahistory(self) -> list[HistoryEntry]:
        """The same, from async code."""
        return _lines(await self.app.store.arun(self.app.store.history(self.id)))

    def events(self, *, what: str | Collection[str] | None = None, timeout: Duration | None = None) -> Events:
        """What happens to it from now on: see `Headrace.events`."""
        return self.app.events(job=self.id, what=what, timeout=timeout)

    def aevents(self, *, what: str | Collection[str] | None = None, timeout: Duration | None = None) -> AsyncEvents:
        """The same for `async for`."""
        return self.app.aevents(job=self.id, what=what, timeout=timeout)

    # -- waiting --

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the job to end, and return what it returned.

        Raises `JobFailed` with the remote error, `JobCancelled`, `JobNotFound` if it was deleted, or `Timeout`. Inside
        a task it keeps a slot of the worker busy, which the other job may need: `raise WaitFor(job)` does not. Inside
        an `async def` task it is refused, as it would block the event loop: `await job` there.
        """
        from headrace.worker.context import check_current, refuse_on_loop  # noqa: PLC0415  (few programs run jobs)

        refuse_on_loop("job.result()", "'await job' (or 'await job.aresult(timeout=...)'), or raise WaitFor(job)")
        began, limit = time.monotonic(), _limit(timeout)
        if self.refresh().state.final:
            return self._outcome()
        watcher = self.app.store.job_waiter(self.id)
        try:
            while True:
                watcher.arm()
                if self.refresh().state.final:
                    return self._outcome()
                check_current()
                watcher.wait(self._left(began, limit))
        finally:
            watcher.close()

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        """The same, from async code. `await job` is `await job.aresult()`."""
        began, limit = time.monotonic(), _limit(timeout)
        if (await self.arefresh()).state.final:
            return self._outcome()
        watcher = self.app.store.job_waiter(self.id)
        try:
            while True:
                watcher.arm()
                if (await self.arefresh()).state.final:
                    return self._outcome()
                await watcher.wait_async(self._left(began, limit))
        finally:
            watcher.close()

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.aresult().__await__()

    def returned(self, snapshot: Snapshot | None) -> R_co:
        """What it returned, as of this look. Raises what `result` raises, and `Timeout` if it has not ended."""
        if not self._seen(snapshot).state.final:
            raise Timeout(f"Job {self.id} is still {self.state}.")
        return self._outcome()

    def _left(self, began: float, limit: float | None) -> float:
        if limit is None:
            return LOOK_AGAIN
        left = began + limit - time.monotonic()
        if left <= 0:
            raise Timeout(f"Timed out after {length(round(limit * 1000))}: job {self.id} is still {self.state}.")
        return min(left, LOOK_AGAIN)

    def _outcome(self) -> R_co:
        snapshot = self.snapshot
        if snapshot.state is State.DONE:
            if snapshot.result_dropped:
                raise ResultGone(self.id)
            task = self.app.tasks.get(snapshot.task)
            decode = decode_value if task is None else task.results.decode
            return cast("R_co", decode(snapshot.result))
        if snapshot.state is State.CANCELLED:
            raise JobCancelled(self.id)
        error = decode_error(snapshot.error)
        if snapshot.error is None and snapshot.group == "crashed":
            error = ErrorText("Crashed", "its worker process died")
        raise JobFailed(self.id, snapshot.group or "", error.type, error.message, error.traceback)

    # -- acting --

    def cancel(self) -> bool:
        """Cancel it: at once if it waits; a running one is told to stop. False if it is done already."""
        return self.app.store.run(self.app.store.cancel([self.id]))[0]

    async def acancel(self) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self.app.store.cancel([self.id])))[0]

    def delete(self) -> bool:
        """Remove all trace of it. A running one goes on in vain: its outcome is refused."""
        return self.app.store.run(self.app.store.delete([self.id]))[0]

    async def adelete(self) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self.app.store.delete([self.id])))[0]

    def revive(self, to: str | None = None) -> bool:
        """Put it back in line after it failed or was cancelled, with its counters at zero. `to`: of another queue."""
        return self.app.store.run(self._again((State.FAILED, State.CANCELLED), to))[0]

    async def arevive(self, to: str | None = None) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self._again((State.FAILED, State.CANCELLED), to)))[0]

    def requeue(self, to: str | None = None) -> bool:
        """Run it again, though it is done: its result goes, and its counters are at zero. False: it is not done."""
        return self.app.store.run(self._again((State.DONE,), to))[0]

    async def arequeue(self, to: str | None = None) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self._again((State.DONE,), to)))[0]

    def _again(self, ended: tuple[State, ...], to: str | None) -> Operation[list[bool]]:
        store = self.app.store
        if to is None and State.DONE not in ended:
            return store.revive([self.id])
        return facet(store, Editing).requeue([self.id], None if to is None else check_queue(to), ended)

    def tag(self, *tags: str) -> bool:
        """Put words on it, to find it by. False if it is gone."""
        return self.app.store.run(self._tag(tags, ()))[0]

    async def atag(self, *tags: str) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self._tag(tags, ())))[0]

    def untag(self, *tags: str) -> bool:
        """Take words off it. False if it is gone."""
        return self.app.store.run(self._tag((), tags))[0]

    async def auntag(self, *tags: str) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self._tag((), tags)))[0]

    def _tag(self, add: tuple[str, ...], remove: tuple[str, ...]) -> Operation[list[bool]]:
        self._snapshot = self._state = None
        return facet(self.app.store, Tags).tag([self.id], check_tags(add), check_tags(remove))

    def track(self) -> bool:
        """Track it: `app.jobs(tracked=True)` finds it. False if it is gone."""
        return self.app.store.run(self._track(True))[0]

    async def atrack(self) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self._track(True)))[0]

    def untrack(self) -> bool:
        """Stop tracking it. False if it is gone."""
        return self.app.store.run(self._track(False))[0]

    async def auntrack(self) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self._track(False)))[0]

    def _track(self, on: bool) -> Operation[list[bool]]:
        self._snapshot = self._state = None
        return facet(self.app.store, Tags).track([self.id], on)

    def log(self, line: str) -> bool:
        """Add a line to its history, in whatever state it is. False if it is gone."""
        return run_course(self.app.store, log_course(self.app, [self.id], line))[0]

    async def alog(self, line: str) -> bool:
        """The same, from async code."""
        return (await arun_course(self.app.store, log_course(self.app, [self.id], line)))[0]

    def update(self, change: Mapping[str, Any] | Change | None = None, /, **pairs: Any) -> bool:
        """Change its data, in whatever state it is. False if it is gone.

        `update(key=value)` and `update({"key": value})` set keys of an object and leave the others. `update(function)`
        takes any data: the function gets the old data (None: none) and returns the new; it is called again if the data
        changes meanwhile, so that no change is lost. A run sees the new data from its next renewal on.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def send() -> None: ...
        >>> job = send.enqueue()
        >>> job.update(approved=True), job.update(lambda data: {**data, "by": "ada"})
        (True, True)
        >>> job.data
        {'approved': True, 'by': 'ada'}
        """
        return run_course(self.app.store, self._update(change, pairs))

    async def aupdate(self, change: Mapping[str, Any] | Change | None = None, /, **pairs: Any) -> bool:
        """The same, from async code."""
        return await arun_course(self.app.store, self._update(change, pairs))

    def _update(self, change: Mapping[str, Any] | Change | None, pairs: Mapping[str, Any]) -> Course[bool]:
        self._snapshot = self._state = None
        return update_course(self.app, self.id, change_of(change, pairs))

    # -- changing --

    def edit(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        run_after: Instant | None = None,
        headers: Mapping[str, str] | None = None,
        expires: Instant | None = None,
        data: Any = ...,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> bool:
        """Change it while it waits. False: it is not waiting (any more).

        `args` and `kwargs` replace all its arguments, and are checked as those of a call. What was made of the
        arguments when it was put (its lane, its uniqueness) stays.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def send(to: str) -> None: ...
        >>> job = send.enqueue("adda")
        >>> job.edit(queue="slow", run_after="in 5 minutes", args=["ada"])
        True
        >>> job.refresh().state
        <State.SCHEDULED: 'scheduled'>
        """
        change = edit_of(self, queue, priority, run_after, headers, expires, data, args, kwargs)
        return self.app.store.run(facet(self.app.store, Editing).edit([self.id], change))[0]

    async def aedit(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        run_after: Instant | None = None,
        headers: Mapping[str, str] | None = None,
        expires: Instant | None = None,
        data: Any = ...,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> bool:
        """The same, from async code."""
        if self._snapshot is None and any(value is not None for value in (args, kwargs, headers)):
            await self.arefresh()
        change = edit_of(self, queue, priority, run_after, headers, expires, data, args, kwargs)
        return (await self.app.store.arun(facet(self.app.store, Editing).edit([self.id], change)))[0]

    def depend(self, *, add: Sequence[Job[Any] | str] = (), remove: Sequence[Job[Any] | str] = ()) -> bool:
        """Change which jobs it comes after. False: it is not waiting (any more). Raises `DependencyCycle`.

        Only what it comes after can be removed, else `ConfigurationError`.
        """
        return run_course(self.app.store, depend_course(self.app, self.id, add, remove))

    async def adepend(self, *, add: Sequence[Job[Any] | str] = (), remove: Sequence[Job[Any] | str] = ()) -> bool:
        """The same, from async code."""
        return await arun_course(self.app.store, depend_course(self.app, self.id, add, remove))

    def take_back(self, to: str | None = None) -> bool:
        """Take it away from the worker that runs it, and put it back in line. False: it is not running.

        `to`: into the line of another queue, in the same step.
        """
        return self.app.store.run(self._take_back(to))[0]

    async def atake_back(self, to: str | None = None) -> bool:
        """The same, from async code."""
        return (await self.app.store.arun(self._take_back(to)))[0]

    def _take_back(self, to: str | None) -> Operation[list[bool]]:
        return facet(self.app.store, Editing).take_back([self.id], None if to is None else check_queue(to))

    def why(self) -> str:
        """Why it is not running, or what became of it, in one sentence.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def send() -> None: ...
        >>> send.enqueue().why()
        "no live worker listens to the queue 'default'. Start one: headrace worker APP --queues default"
        """
        from headrace.ops.why import why  # noqa: PLC0415  (few programs ask)

        return why(self.app, self.refresh().snapshot).sentence

    async def awhy(self) -> str:
        """The same, from async code."""
        from headrace.ops.why import awhy  # noqa: PLC0415

        return (await awhy(self.app, (await self.arefresh()).snapshot)).sentence


def _limit(timeout: Duration | None) -> float | None:
    """Seconds to wait, at most. Nearly always it is given as such a number."""
    if timeout is None or (type(timeout) in (int, float) and 0 <= timeout < 1e9):  # type: ignore[operator]
        return timeout  # type: ignore[return-value]
    return seconds(timeout, "timeout")


def _lines(events: list[HistoryRecord]) -> list[HistoryEntry]:
    return [HistoryEntry(cast("datetime", as_datetime(e.at)), e.what, e.detail, e.worker) for e in events]


def state_after_put(job: NewJob) -> State | None:
    """The state of a job that has just been put; None: that is for the store to decide, by its clock or other jobs."""
    if job.after or job.lane is not None or job.run_at is not None:
        return None
    return State.SCHEDULED if job.delay else State.READY
