"""From headrace's jobs to Django's task results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import timezone

from headrace.django import registry
from headrace.django.arguments import split
from headrace.django.library import TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus
from headrace.django.task import changed
from headrace.errors import ArgumentsError, JobCancelled, JobFailed
from headrace.ops.attempts import Attempt, attempts_in
from headrace.records import HistoryRecord, Snapshot, State
from headrace.store import Store
from headrace.store.contract import Facet
from headrace.store.courses import Course
from headrace.values.codec import ErrorText, decode_error, decode_value, describe_error
from headrace.values.durations import as_datetime
from headrace.worker.identity import worker_name

if TYPE_CHECKING:
    from headrace.django.backend import HeadraceBackend
    from headrace.worker.run import Run

STATUSES = {
    State.SCHEDULED: TaskResultStatus.READY,
    State.BLOCKED: TaskResultStatus.READY,
    State.READY: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.DONE: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
NOT_RUNS = ("released", "deferred")
"""Ends of runs that Django does not count as attempts: the job was given back as it was."""


def moment(at: int | None) -> datetime | None:
    """A store's time as the project has times: aware, unless `USE_TZ` is off."""
    found = as_datetime(at)
    return found if found is None or settings.USE_TZ else timezone.make_naive(found)


# -- a job that is looked at --


def look_course(store: Store, job_id: object) -> Course[tuple[Snapshot, list[HistoryRecord]]]:
    """A job, and its history if it ran more than once: with one run the job itself says all."""
    job: Snapshot | None = None
    if isinstance(job_id, str):
        (job,) = yield store.get([job_id])
    if job is None:
        raise TaskResultDoesNotExist(f"There is no job {job_id!r}: it was never there, or is no longer kept.")
    history: list[HistoryRecord] = []
    if job.attempts + job.crashes + (job.state is State.RUNNING) > 1 and Facet.HISTORY in store.facets:
        history = yield store.history(job.id)
    return job, history


def result_of(backend: HeadraceBackend, job: Snapshot, history: Sequence[HistoryRecord]) -> Any:
    """The result of a job. `TaskResultDoesNotExist` if it is not of a task of Django that is declared here."""
    task = backend.declared(job.task)
    if task is None:
        raise TaskResultDoesNotExist(
            f"Job {job.id} is of the task {job.task!r}, which no tasks module of an installed app declares."
        )
    try:
        arguments = split(job.body)
    except ArgumentsError as error:
        raise TaskResultDoesNotExist(f"Job {job.id} was not enqueued through Django: {error}") from None
    runs = [run for run in attempts_in(job, history) if run.outcome not in NOT_RUNS]
    due = moment(job.due) if job.due > job.created else None
    made = TaskResult(
        task=changed(task, priority=job.priority, queue_name=job.queue, run_after=due, backend=backend.alias),
        id=job.id,
        status=STATUSES[job.state],
        enqueued_at=moment(job.created),
        started_at=moment(job.started) if not runs else _local(runs[0].started),
        finished_at=moment(job.finished) if job.state.final else None,
        last_attempted_at=moment(job.started),
        args=arguments.args,
        kwargs=arguments.kwargs,
        backend=backend.alias,
        errors=_errors(job, runs),
        worker_ids=_workers(job, runs),
    )
    if job.state is State.DONE:
        object.__setattr__(made, "_return_value", decode_value(job.result))
    return made


def _local(at: datetime) -> datetime:
    return at if settings.USE_TZ else timezone.make_naive(at)


def _workers(job: Snapshot, runs: Sequence[Attempt]) -> list[str]:
    """Who ran it, a name per attempt. Of attempts that the history no longer tells of the name is not known."""
    count = job.attempts + job.crashes + (job.state is State.RUNNING)
    known = [run.worker or "" for run in runs] or ([job.worker] if count else [])
    return [""] * (count - len(known)) + known


def _errors(job: Snapshot, runs: Sequence[Attempt]) -> list[Any]:
    """What went wrong in each attempt, the oldest first; at last why the job failed or was cancelled."""
    found = [run.error for run in runs if run.error is not None]
    if job.error is not None and job.state is not State.DONE:
        last = decode_error(job.error)
        if found and found[-1].type == last.type:
            found.pop()  # the same, as the history has it: clipped
        found.append(last)
    if job.state is State.CANCELLED:
        found.append(ErrorText(_path(JobCancelled), "the job was cancelled"))
    if job.state is State.FAILED and not found:
        found.append(ErrorText("", job.group or "the job failed"))
    return list(map(_error, found))


def _error(text: ErrorText) -> Any:
    """An error as Django has it. What is not an exception's (a crash, arguments that do not fit) is a `JobFailed`."""
    path = text.type if "." in text.type else f"builtins.{text.type}"
    if not text.type or text.type == "Crashed":
        path = _path(JobFailed)
    return TaskError(exception_class_path=path, traceback=text.traceback or f"{path}: {text.message}\n")


def _path(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


# -- a job that is run, or put --


def failure(error: BaseException) -> Any:
    """An exception as results carry it."""
    return _error(describe_error(error))


def first_result(backend: HeadraceBackend, task: Any, job: Run, args: Any, kwargs: Any) -> Any:
    """The result of a job whose first attempt begins now."""
    lease, now = job.lease, moment(job.task.app.clock.now())
    base = registry.task_named(lease.task) or task
    due = moment(lease.due) if lease.due > lease.created else None
    return TaskResult(
        task=changed(base, priority=lease.priority, queue_name=lease.queue, run_after=due, backend=backend.alias),
        id=lease.id,
        status=TaskResultStatus.RUNNING,
        enqueued_at=moment(lease.created),
        started_at=now,
        finished_at=None,
        last_attempted_at=now,
        args=list(args),
        kwargs=kwargs,
        backend=backend.alias,
        errors=[],
        worker_ids=[""] * (lease.attempts + lease.crashes) + [worker_name()],
    )


def new_result(backend: HeadraceBackend, task: Any, job_id: str, args: Any, kwargs: Any) -> Any:
    """The result of a job that is about to be put."""
    return TaskResult(
        task=task,
        id=job_id,
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=kwargs,
        backend=backend.alias,
        errors=[],
        worker_ids=[],
    )
