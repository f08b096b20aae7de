"""The attempts of a job: who ran it, for how long, what went wrong, what it did to the job's data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.ops.documents import moment
from headrace.ops.forms import forms
from headrace.ops.selection import find_job_course
from headrace.records import HistoryRecord, Snapshot, State
from headrace.store.contract import Facet
from headrace.store.courses import Course
from headrace.store.facets import refusal
from headrace.store.history import attempts_of, decode_account
from headrace.values.codec import ErrorText, decode_error

if TYPE_CHECKING:
    from headrace.app import Headrace


class Attempt(Struct, frozen=True, kw_only=True):
    """One run of a job."""

    number: int
    """From 1 for the oldest that the history keeps."""
    worker: str | None
    started: datetime
    finished: datetime | None
    """None: it still runs."""
    seconds: float | None
    outcome: str
    """How it ended, in the word of the history, or `running`."""
    note: str
    error: ErrorText | None
    """Clipped, as the data is: see docs/limits.md."""
    data_before: Any
    """The job's data when the run began. Not kept of a run that was done and left the data as it was, or whose worker
    died. What was clipped is text."""
    data_after: Any


def attempts_course(app: Headrace, part: str) -> Course[list[Attempt]]:
    """The attempts of a job, oldest first; the job by its id or a part of it that no other job has."""
    if Facet.HISTORY not in app.store.facets:
        raise refusal(app.store, Facet.HISTORY)
    found = yield from find_job_course(app, part)
    history: list[HistoryRecord] = yield app.store.history(found.id)
    return attempts_in(found, history)


attempts, aattempts = forms(attempts_course)


def attempts_in(job: Snapshot, history: Sequence[HistoryRecord]) -> list[Attempt]:
    """The attempts that a job's history tells of."""
    found = []
    for number, (began, ended) in enumerate(attempts_of(history), 1):
        account = decode_account(None if ended is None else ended.account)
        error = account.error
        if error is None and job.error is not None and ended is history[-1] and job.state is State.FAILED:
            error = decode_error(job.error)
        found.append(
            Attempt(
                number=number,
                worker=began.worker or None,
                started=moment(began.at),
                finished=None if ended is None else moment(ended.at),
                seconds=None if ended is None else (ended.at - began.at) / 1000,
                outcome="running" if ended is None else ended.what,
                note="" if ended is None else ended.detail,
                error=error,
                data_before=_value(account.before),
                data_after=_value(account.after),
            )
        )
    return found


def _value(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
