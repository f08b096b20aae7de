"""What a task knows about the job it runs: `headrace.current()`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from headrace.errors import ArgumentsError, HeadraceError, JobCancelled, JobFailed, JobNotFound, LeaseGone
from headrace.outside import changes_of, setting
from headrace.records import Snapshot
from headrace.signals import Cancelled
from headrace.store.batches import thousands
from headrace.store.contract import Operation
from headrace.store.facets import transactional
from headrace.values.codec import decode_value, encode_value, log_line
from headrace.values.durations import as_datetime

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job
    from headrace.worker.run import Run


WithFailed = Literal["raise", "skip", "none"]
REPLACE = "current().replace(data), which takes any data"


class Context:
    """One run of a job: what it is, what it may say, whether it should stop. Safe to use from any thread of the job."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"<run of {self.task} {self.id}, attempt {self.attempt}>"

    # -- what it is --

    @property
    def id(self) -> str:
        """The job's id."""
        return self._run.lease.id

    @property
    def job(self) -> Job[Any]:
        """A handle on the job itself, as others have it. Nothing is looked up before you ask.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> @app.task
        ... def tags() -> list[str]:
        ...     return list(current().job.tags)
        >>> job = tags.using(tags=["red"]).enqueue()
        >>> app.worker().run_until_empty()
        >>> job.result()
        ['red']
        """
        return self._app.job(self.id)

    @property
    def task(self) -> str:
        """The task's name."""
        return self._run.lease.task

    @property
    def queue(self) -> str:
        return self._run.lease.queue

    @property
    def attempt(self) -> int:
        """1 on the first attempt. Crashes, snoozes and give-backs don't count."""
        return self._run.attempt

    @property
    def crashes(self) -> int:
        """How often the process died under this job before."""
        return self._run.lease.crashes

    @property
    def token(self) -> int | str:
        """Grows with every hand-out of the job: pass it on to fence off a run that has been overtaken."""
        return self._run.lease.token

    @property
    def tick(self) -> datetime | None:
        """Which time of its schedule the job is for, however late it runs. None: it is of no schedule."""
        return as_datetime(self._run.lease.extras.tick)

    @property
    def data(self) -> Any:
        """What an earlier attempt, or this one, left with `update`; from the next renewal on with what others have
        changed meanwhile (`job.update(...)`).
        """
        return decode_value(self._run.channel.look(self._run))

    @property
    def headers(self) -> Mapping[str, str]:
        """What the call, or else the task, gave the job to carry: `using(headers={...})`."""
        return self._run.override("headers") or {}

    @property
    def after(self) -> list[Job[Any]]:
        """The jobs that this one came after (`using(after=...)`), or that its last run waited for (`WaitFor`)."""
        app = self._app
        return [app.job(job_id) for job_id in self._run.lease.extras.after]

    @property
    def children(self) -> list[Job[Any]]:
        """The jobs that its last run waited for (`WaitFor`); none on the first run."""
        return self.after if self._run.lease.extras.resumed else []

    def results(self, failed: WithFailed = "raise") -> list[Any]:
        """What those in `after` returned, in the order in which they are there.

        `failed` says what to do about one that failed, was cancelled or is gone: raise `JobFailed`, `JobCancelled` or
        `JobNotFound`; leave it out ("skip"); or have None in its place ("none").
        """
        store = self._app.store
        found = [job for ids in thousands(self._run.lease.extras.after) for job in store.run(store.get(ids))]
        return self._returned(found, failed)

    async def aresults(self, failed: WithFailed = "raise") -> list[Any]:
        """The same, from async code."""
        store = self._app.store
        found = [job for ids in thousands(self._run.lease.extras.after) for job in await store.arun(store.get(ids))]
        return self._returned(found, failed)

    def _returned(self, found: list[Snapshot | None], failed: WithFailed) -> list[Any]:
        if failed not in get_args(WithFailed):
            raise ArgumentsError(f"failed is 'raise', 'skip' or 'none', not {failed!r}.")
        results = []
        for job, snapshot in zip(self.after, found, strict=True):
            try:
                results.append(job.returned(snapshot))
            except (JobFailed, JobCancelled, JobNotFound):
                if failed == "raise":
                    raise
                if failed == "none":
                    results.append(None)
        return results

    @property
    def _app(self) -> Headrace:
        return self._run.task.app

    # -- what it may say --

    def progress(self, done: float, total: float = 1.0) -> None:
        """Tell others how far the job is. Also counts as a heartbeat. Cheap: only the latest is sent."""
        progress = (float(done), float(total))
        if not all(map(math.isfinite, progress)):
            raise ArgumentsError(f"progress takes two finite numbers, not {progress[0]} of {progress[1]}.")
        self._run.say(progress=progress)
        self.heartbeat()

    def update(self, changes: Mapping[str, Any] | None = None, /, **pairs: Any) -> None:
        """Set keys of the job's data, for others to see and for the next attempt to find; other keys stay.

        `update(page=3)` and `update({"page": 3})` are the same, as with `job.update(...)`. `replace` takes other data
        than an object with keys, and leaves nothing of the old.
        """
        wanted = setting(changes_of(changes, pairs, REPLACE), instead=REPLACE)
        known = self._run.speaking.data
        data = encode_value(self._app.codecs, "data", wanted(decode_value(known)), self._run.channel.payload_limit)
        self._run.say(data=data, base=known or b"")

    def replace(self, data: Any) -> None:
        """Leave this data, whatever it is, in place of all that this run has seen of it.

        If others have changed the data since (`job.update(...)`), the keys that this run has changed or left out are
        changed in theirs.
        """
        self._run.say(data=encode_value(self._app.codecs, "data", data, self._run.channel.payload_limit))

    def log(self, line: str) -> None:
        """Add a line to the job's history."""
        self._run.say(lines=[log_line(line)])

    def heartbeat(self) -> datetime:
        """Say that the job is alive: needed for tasks with `heartbeat=`. Raises `Cancelled` when it should stop.

        Returns when the lease runs out: until then no other worker gets the job. Renewals, which the worker makes by
        itself, put that off, so a later heartbeat returns a later time.
        """
        channel = self._run.channel
        channel.heard(self._run)
        self.check()
        left = channel.lease_until(self._run) - channel.steady()
        return cast("datetime", as_datetime(self._app.clock.now() + left))

    # -- ending it in a transaction of its own --

    def complete(self, connection: object, result: Any = None) -> None:
        """Complete the job in the transaction that is open on a connection: its effects and its end are one.

        Once that is committed the job ends as done, with this result, however this run ends: what it raises or returns
        later does not count, nor does the death of its process. Raises `LeaseGone` if the job was taken from this run.
        Until the transaction ends, the job can't end in another way, and nothing else waits for it.
        """
        if not self._app.store.run(self._completing(connection, result)):
            raise LeaseGone(self.id)

    async def acomplete(self, connection: object, result: Any = None) -> None:
        """The same, from async code."""
        if not await self._app.store.arun(self._completing(connection, result)):
            raise LeaseGone(self.id)

    def _completing(self, connection: object, result: Any) -> Operation[bool]:
        run, store = self._run, transactional(self._app.store, "complete()")
        encoded = run.encode_result(result)
        operation = store.complete(run.lease_key, encoded, connection)
        run.completing = True
        return operation

    # -- whether it should stop --

    @property
    def cancelled(self) -> bool:
        """True when the job was cancelled, ran out of time, lost its lease, or its worker stops at once."""
        return self._run.stop_reason is not None

    def check(self) -> None:
        """Raise `Cancelled` if the job should stop. Call it now and then in long loops of plain functions."""
        if self._run.stop_reason is not None:
            raise Cancelled(self._run.stop_reason)


_current: ContextVar[Run] = ContextVar("headrace_context")


def current() -> Context:
    """The job that is being run here.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> @app.task
    ... def whoami() -> str:
    ...     return current().task
    >>> job = whoami.enqueue()
    >>> app.worker().run_until_empty()
    >>> job.result().endswith("whoami")
    True
    """
    try:
        return _current.get().context
    except LookupError:
        raise HeadraceError("No job is running here: current() works inside a task that a worker runs.") from None


def check_current() -> None:
    """Raise `Cancelled` if a job is being run here and should stop."""
    run = _current.get(None)
    if run is not None:
        run.context.check()


def refuse_on_loop(call: str, instead: str) -> None:
    """Refuse a call that waits inside an `async def` task: nothing else on its event loop could go on."""
    run = _current.get(None)
    if run is None or not run.task.is_async:
        return
    from asyncio import _get_running_loop  # noqa: PLC0415  (imported by then)

    if _get_running_loop() is not None:
        raise HeadraceError(
            f"{call} waits, and would block the event loop that this task and others run on. Write {instead}."
        )


set_current = _current.set
reset_current = _current.reset
find_current = _current.get
