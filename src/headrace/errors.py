"""What can go wrong, as a user meets it. All derive from `HeadraceError`."""

from __future__ import annotations


class HeadraceError(Exception):
    """The base of every error that headrace raises."""


# -- using the API -----------------------------------------------------------------------------------


class ConfigurationError(HeadraceError, ValueError):
    """An option, a URL or a task definition that cannot work. Says which, and what to write instead."""


class ScheduleError(HeadraceError, ValueError):
    """A time, duration or schedule that could not be understood; the message says which word and why.

    >>> from headrace.schedule import parse
    >>> parse("every blue moon")
    Traceback (most recent call last):
        ...
    headrace.errors.ScheduleError: 'blue' could not be placed in 'every blue moon': \
after 'every' comes a unit, a weekday or a date, as in 'every 5 minutes' or 'every Monday at 9am'
    """


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


class Veto(HeadraceError):
    """Raised by a hook (`@app.on_enqueue`) to refuse a call, with a sentence for the caller; nothing was written.

    >>> raise Veto("Mail is frozen until Monday.")
    Traceback (most recent call last):
    headrace.errors.Veto: Mail is frozen until Monday.
    """

    def __init__(self, sentence: str = "A hook of the app refuses this call.") -> None:
        super().__init__(sentence)


class Unsupported(HeadraceError):
    """This store cannot do that; nothing was written."""


class DependencyCycle(HeadraceError):
    """A job would, directly or indirectly, depend on itself; nothing was written."""


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

    def __init__(self, job_id: str, retention: str = "") -> None:
        text = f"There is no job {job_id}: it was purged or deleted, or never existed."
        super().__init__(f"{text} {retention}".rstrip())
        self.job_id = job_id


class NotCommitted(JobNotFound):
    """A job was enqueued through a connection of the caller, and is not there: not yet committed, or rolled back."""

    def __init__(self, job_id: str) -> None:
        HeadraceError.__init__(
            self,
            f"Job {job_id} was enqueued in a transaction that is not committed, or was rolled back: no worker can see "
            "it. Commit first, then ask for its state or result.",
        )
        self.job_id = job_id


class JobExists(HeadraceError):
    """`on_clash="error"`, and there is a job with the same id or unique key already."""

    def __init__(self, job_id: str, others: int = 0) -> None:
        rest = f"The other {others:,} jobs of the batch were enqueued." if others else "Nothing was enqueued."
        super().__init__(f"Job {job_id} is there already. {rest}")
        self.job_id = job_id


class UniqueBusy(HeadraceError):
    """Another transaction, not committed yet, has enqueued a job with the same unique key; nothing was enqueued."""


class LeaseGone(HeadraceError):
    """A run can't be completed: its job was taken from it, or it was completed before; nothing was done."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"This run of job {job_id} can't be completed: its lease is gone, or it was completed before. Nothing was "
            "done. Roll back what this transaction has changed."
        )
        self.job_id = job_id


class UnclearId(HeadraceError, LookupError):
    """Part of an id was given, and no job or more than one has it in its id."""


class UnknownJob(HeadraceError, LookupError):
    """A job was to come after one whose id, given as text, is not known; nothing was written."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"There is no job {job_id!r} to come after: it never existed, was deleted, or was purged. Nothing was "
            "written. If it may be done and gone, name it by its handle: after=[app.job(...)] counts it as done then."
        )
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

    @classmethod
    def in_database(cls, where: str, version: int, known: int) -> SchemaTooNew:
        return cls(
            f"{where} has schema version {version}; this headrace knows {known}. Upgrade headrace on this machine."
        )


class SchemaTooOld(StoreError):
    """The store was written by an older headrace, in a shape that this one does not work with."""

    REMEDY = "Use another file, schema or namespace, and let the version that wrote this one finish its jobs."

    @classmethod
    def in_database(cls, where: str, version: int, known: int) -> SchemaTooOld:
        return cls(f"{where} has schema version {version}; this headrace works with {known}. {cls.REMEDY}")


class MaybeApplied(StoreError):
    """The connection broke before the answer came: the store may or may not have done it."""


class SessionGone(StoreError):
    """The session is unknown, closed or expired: its leases belong to others now."""


class StaleRequest(StoreError):
    """A request with a lower number than one the store has already answered. It changed nothing."""
