"""What a task knows about the job it runs: `headrace.current()`."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from headrace.errors import ArgumentsError, HeadraceError, JobCancelled, JobFailed, JobNotFound
from headrace.records import Lease, Report, Snapshot, Token
from headrace.signals import Cancelled
from headrace.store.batches import thousands
from headrace.values.codec import clean, decode_value, encode_value
from headrace.values.durations import as_datetime

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.job import Job
    from headrace.task import Task


WithFailed = Literal["raise", "skip", "none"]

MOST_LINES = 10_000
"""As many as a history can be set to keep: of those that wait to be sent, the latest are kept."""


class Channel(Protocol):
    """Where a run's words go: to the pump, or through a pipe to the pump's process."""

    payload_limit: int

    def steady(self) -> int:
        """The worker's steady clock, in milliseconds."""

    def spoke(self, run: Context) -> None:
        """A run has something to report."""

    def heard(self, run: Context) -> None:
        """A run has given a sign of life."""


class Context:
    """One run of a job: what it is, what it may say, whether it should stop. Safe to use from any thread of the job."""

    # Most runs use none of these: what a class holds need not be set for each job.
    began: int | None = None
    beat: int = 0
    stop_reason: str | None = None
    stopper: Any = None
    thread: int | None = None
    overrides: Any = None
    sure_until: int = 0
    """Until when nobody else can have its job, on the steady clock. 0: as long as its session lives."""
    start_by: int | None = None
    """Its lane has a rate: if it has not started by then, on the steady clock, it is given back."""
    place: int = 0
    """Where the ledger has it."""
    former_tokens: Sequence[Token] = ()
    """What its lease's token was before it was renewed."""
    _progress: tuple[float, float] | None = None
    _data: bytes | None = None
    _log: deque[tuple[int, str]] | None = None
    _speaking = False

    def __init__(self, lease: Lease, task: Task[Any, Any] | None, channel: Channel) -> None:
        self.lease = lease
        self.task_object = task
        self._channel = channel

    def __repr__(self) -> str:
        return f"<run of {self.lease.task} {self.lease.id}, attempt {self.attempt}>"

    # -- what it is --

    @property
    def id(self) -> str:
        """The job's id."""
        return self.lease.id

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
        return self.lease.task

    @property
    def queue(self) -> str:
        return self.lease.queue

    @property
    def attempt(self) -> int:
        """1 on the first attempt. Crashes, snoozes and give-backs don't count."""
        return self.lease.attempts + 1

    @property
    def crashes(self) -> int:
        """How often the process died under this job before."""
        return self.lease.crashes

    @property
    def token(self) -> int | str:
        """Grows with every hand-out of the job: pass it on to fence off a run that has been overtaken."""
        return self.lease.token

    @property
    def tick(self) -> datetime | None:
        """Which time of its schedule the job is for, however late it runs. None: it is of no schedule."""
        return as_datetime(self.lease.tick)

    @property
    def data(self) -> Any:
        """What an earlier attempt, or this one, left with `update`."""
        return decode_value(self._data if self._data is not None else self.lease.data)

    @property
    def after(self) -> list[Job[Any]]:
        """The jobs that this one came after (`using(after=...)`), or that its last run waited for (`WaitFor`)."""
        app = self._app
        return [app.job(job_id) for job_id in self.lease.after]

    @property
    def children(self) -> list[Job[Any]]:
        """The jobs that its last run waited for (`WaitFor`); none on the first run."""
        return self.after if self.lease.resumed else []

    def results(self, failed: WithFailed = "raise") -> list[Any]:
        """What those in `after` returned, in the order in which they are there.

        `failed` says what to do about one that failed, was cancelled or is gone: raise `JobFailed`, `JobCancelled` or
        `JobNotFound`; leave it out ("skip"); or have None in its place ("none").
        """
        store = self._app.store
        found = [job for ids in thousands(self.lease.after) for job in store.run(store.get(ids))]
        return self._returned(found, failed)

    async def aresults(self, failed: WithFailed = "raise") -> list[Any]:
        """The same, from async code."""
        store = self._app.store
        found = [job for ids in thousands(self.lease.after) for job in await store.arun(store.get(ids))]
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
        if self.task_object is None:
            raise HeadraceError("This run belongs to no app.")
        return self.task_object.app

    # -- what it may say --

    def progress(self, done: float, total: float = 1.0) -> None:
        """Tell others how far the job is. Also counts as a heartbeat. Cheap: only the latest is sent."""
        progress = (float(done), float(total))
        if not all(map(math.isfinite, progress)):
            raise ArgumentsError(f"progress takes two finite numbers, not {progress[0]} of {progress[1]}.")
        self._progress = progress
        self._speak()
        self.heartbeat()

    def update(self, data: Any) -> None:
        """Leave data for others to see and for the next attempt to find."""
        self._data = encode_value("data", data, self._channel.payload_limit)
        self._speak()

    def log(self, line: str) -> None:
        """Add a line to the job's history."""
        words = clean(str(line)[:2000])
        with _lock:
            if self._log is None:
                self._log = deque(maxlen=MOST_LINES)
            self._log.append((self._channel.steady(), words))
        self._speak()

    def heartbeat(self) -> None:
        """Say that the job is alive: needed for tasks with `heartbeat=`. Raises `Cancelled` when it should stop."""
        self._channel.heard(self)
        self.check()

    # -- whether it should stop --

    @property
    def cancelled(self) -> bool:
        """True when the job was cancelled, ran out of time, lost its lease, or its worker stops at once."""
        return self.stop_reason is not None

    def check(self) -> None:
        """Raise `Cancelled` if the job should stop. Call it now and then in long loops of plain functions."""
        if self.stop_reason is not None:
            raise Cancelled(self.stop_reason)

    # -- the pump's side --

    def _speak(self) -> None:
        if not self._speaking:
            self._speaking = True
            self._channel.spoke(self)

    def relay(self, progress: tuple[float, float] | None, data: bytes | None, lines: tuple[str, ...]) -> None:
        """Say what an isolated run has said in its own process."""
        self._channel.heard(self)
        if progress is None and data is None and not lines:
            return
        self._progress = progress or self._progress
        self._data = data or self._data
        for line in lines:
            self.log(line)
        self._speak()

    def take_report(self) -> Report:
        """Everything said since the last report."""
        self._speaking = False
        with _lock:
            lines, self._log = self._log, None
        lease = self.lease
        return Report(
            ref=lease.ref,
            token=lease.token,
            id=lease.id,
            progress=self._progress,
            data=self._data,
            log=() if lines is None else tuple(lines),
        )


_lock = threading.Lock()
_current: ContextVar[Context] = ContextVar("headrace_context")


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
        return _current.get()
    except LookupError:
        raise HeadraceError("No job is running here: current() works inside a task that a worker runs.") from None


set_current = _current.set
reset_current = _current.reset
find_current = _current.get
