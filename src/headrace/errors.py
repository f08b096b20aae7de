"""Every exception a user can meet. All derive from `HeadraceError`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.handle import Job
    from headrace.task import Call


class HeadraceError(Exception):
    """The base of every error that headrace raises."""


# -- using the API -----------------------------------------------------------------------------------


class ConfigurationError(HeadraceError, ValueError):
    """An option, a URL or a task definition that cannot work. Says which, and what to write instead."""


class ArgumentsError(HeadraceError, TypeError):
    """The arguments of a call cannot be queued: wrong number, wrong type, or not encodable."""


class PayloadTooLarge(ArgumentsError):
    """The encoded arguments (or a result) exceed the size that the app allows."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what}: {size:,} bytes are more than the limit of {limit:,}. Store the data elsewhere and "
            "pass a reference, or raise Headrace(payload_limit=...)."
        )
        self.size = size
        self.limit = limit


class Unsupported(HeadraceError):
    """This store cannot do that; nothing was written."""


class DependencyCycle(HeadraceError):
    """A job would wait for itself, by whatever detour; nothing was written."""


class StillNeeded(HeadraceError):
    """Another job waits for this one, in a store where it would wait for ever; nothing was changed."""

    def __init__(self, job_id: str, by: str) -> None:
        super().__init__(
            f"Job {by} waits for job {job_id}, and would do so for ever if that were gone. "
            f"Cancel {by} first, or both at once. Nothing was changed."
        )
        self.job_id = job_id
        self.by = by


class NoWorkers(HeadraceError):
    """`require_worker=True`, and no live worker listens to that queue and knows that task."""


class JobNotFound(HeadraceError, LookupError):
    """No job has this id: it never existed, was deleted, or its retention ran out."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no job {job_id}: it never existed, was deleted, or was purged.")
        self.job_id = job_id


class ResultGone(HeadraceError, LookupError):
    """The job is done, and its result is no longer kept: results were dropped before their jobs (`results-history`)."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} is done, but its result is no longer kept. (See 'headrace settings'.)")
        self.job_id = job_id


class ScheduleNotFound(HeadraceError, LookupError):
    """No schedule has this name: it never existed, or was deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no schedule {name!r}: it never existed, or was deleted.")
        self.name = name


# -- what became of a job ----------------------------------------------------------------------------


class JobFailed(HeadraceError):
    """The job ended in failure. Carries the remote error as text: exceptions are never rebuilt from data."""

    def __init__(self, job_id: str, group: str, kind: str, message: str, traceback: str) -> None:
        super().__init__(f"Job {job_id} failed ({group}): {': '.join(filter(None, (kind, message)))}")
        self.job_id = job_id
        self.group = group
        self.kind = kind
        self.message = message
        self.traceback = traceback


class JobCancelled(HeadraceError):
    """The job was cancelled before it was done."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} was cancelled.")
        self.job_id = job_id


class Timeout(HeadraceError, TimeoutError):
    """Waiting took longer than asked for, or a job ran longer than its `timeout`."""


# -- raised by a task to say what should become of its job -------------------------------------------


class Signal(HeadraceError):
    """Base of what a task raises to decide its own fate."""


class Retry(Signal):
    """Run me again: spends an attempt, whatever the policy says about exceptions.

    `delay` (seconds, a timedelta or a duration) or `at` (a datetime) override the task's back-off;
    `data` is what the next attempt finds in `current().data`.
    """

    def __init__(
        self,
        message: str = "",
        *,
        delay: float | timedelta | str | None = None,
        at: datetime | str | None = None,
        data: Any = ...,
    ) -> None:
        super().__init__(message or "retry requested")
        self.delay = delay
        self.at = at
        self.data = data


class Fail(Signal):
    """I have failed for good: no further attempt. `group` is what `headrace failures` counts by."""

    def __init__(self, group: str, message: str = "", *, data: Any = ...) -> None:
        super().__init__(message or group)
        self.group = group
        self.message = message
        self.data = data


class Snooze(Signal):
    """Run me again later, without spending an attempt."""

    def __init__(
        self, delay: float | timedelta | str | None = None, *, at: datetime | str | None = None, data: Any = ...
    ) -> None:
        super().__init__("snoozed")
        self.delay = delay
        self.at = at
        self.data = data


class MoveTo(Signal):
    """Go on in another queue: the next stage of a pipeline, with its attempts counted afresh.

    `call` (from `task.call(...)`) replaces the task and its arguments; `data` is what the next
    stage finds in `current().data`.
    """

    def __init__(
        self,
        queue: str,
        *,
        call: Call[Any] | None = None,
        data: Any = ...,
        delay: float | timedelta | str | None = None,
    ) -> None:
        super().__init__(f"moved to {queue}")
        self.queue = queue
        self.call = call
        self.data = data
        self.delay = delay


class WaitFor(Signal):
    """Run me again when these jobs have come to an end, however; until then my slot is free for others.

    Spends no attempt. The next run finds them in `current().after`, what they returned in `current().results()`, and
    `data` in `current().data`.
    """

    def __init__(self, *jobs: Job[Any] | str, data: Any = ...) -> None:
        super().__init__("waits for its children")
        self.jobs = jobs
        self.data = data


class Cancelled(Signal):
    """Raised inside a run that has been cancelled, has timed out, or has lost its lease."""


# -- stores ------------------------------------------------------------------------------------------


class StoreError(HeadraceError):
    """Something is wrong with the place where the jobs live."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, opened or written to at present. Trying again may help."""


class StoreBusy(StoreUnavailable):
    """Somebody else held the store's write lock for longer than we were willing to wait."""


class StoreFull(StoreUnavailable):
    """No space left. Nothing was written; the store works again as soon as there is space."""


class StoreReplaced(StoreUnavailable):
    """The file was deleted or replaced while in use. Nothing was done; the next request uses what is there now."""


class StoreReadOnly(StoreError):
    """The store cannot be written to by this process."""


class StoreCorrupt(StoreError):
    """The store's data is damaged or is not ours."""


class SchemaTooNew(StoreError):
    """The store was written by a newer headrace than this one."""


class MaybeApplied(StoreError):
    """The connection broke before the answer came: the store may or may not have done it."""


class SessionGone(StoreError):
    """The session is unknown, closed or expired: its leases belong to others now."""


class StaleRequest(StoreError):
    """A request with a lower number than one the store has already answered. It changed nothing."""
