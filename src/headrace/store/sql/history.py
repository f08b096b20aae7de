"""What is written down of a job that had more of a life than put, run, done (see `headrace.store.history`)."""

from __future__ import annotations

from headrace.store.sql.codes import FAILED, STATES
from headrace.store.sql.working_set import Job, WorkingSet


def remember_end(work: WorkingSet, job: Job) -> None:
    """Write down the run that ended and how, before its place in the job's head is used again."""
    ended = STATES[job.state].value
    if work.last_line(job) != ended:
        worker = job.worker or ""
        if job.started is not None:
            work.remember(job, job.started, "started", worker=worker)
        detail = (job.failure or "") if job.state == FAILED else ""
        work.remember(job, job.finished, ended, detail, worker)


def remember_sudden_end(work: WorkingSet, job: Job, ended: str, detail: str = "") -> None:
    """A job has ended while it waited. If it has run before, that run must not be taken for the one that ended so."""
    if job.started is not None:
        work.remember(job, work.now, ended, detail)


def edited(work: WorkingSet, job: Job, what: str) -> None:
    """A job that waits has been changed."""
    work.remember(job, work.now, "edited", what)
    work.happened(job, "edited", what)
