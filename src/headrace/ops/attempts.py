"""The attempts of a job: who ran it, for how long, what went wrong, what it did to the job's data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.ops.documents import moment, value_of
from headrace.ops.forms import forms
from headrace.ops.selection import find_job_course
from headrace.records import HistoryRecord, Snapshot, State
from headrace.store.contract import Facet
from headrace.store.courses import Course
from headrace.store.facets import refusal
from headrace.store.history import Account, AttemptRecord, attempts_of, decode_account
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
    """The job's data when the run began, and when it ended; None if it had none. What was clipped is text. Of a run
    whose worker died, or that was done and left the data as it was, they are what it told when it first changed the
    data, and what the runs before and after it tell."""
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
    runs = attempts_of(history)
    for number, ((began, ended, _), (before, after)) in enumerate(zip(runs, _data(job, runs), strict=True), 1):
        error = decode_account(None if ended is None else ended.account).error
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
                data_before=before,
                data_after=after,
            )
        )
    return found


def _data(job: Snapshot, runs: Sequence[AttemptRecord]) -> list[tuple[Any, Any]]:
    """What the data was before each run and after it."""
    found: list[tuple[Any, Any]] = []
    told = [_told(run) for run in runs]
    for number, run in enumerate(runs):
        if run.ended is not None and run.ended.account is not None:
            account = decode_account(run.ended.account)
            found.append((_value(account.before), _value(account.after)))
            continue
        # A run that tells nothing has left the data as it was. Between two runs others may have changed it.
        later = [account for account in told[number + 1 :] if account is not None]
        after = _value(later[0].before) if later else value_of(job.data)
        if found and number + 1 < len(runs) and told[number + 1] is None:
            after = found[-1][1]
        is_done = run.ended is not None and run.ended.what == State.DONE.value
        own = told[number]
        before = _value(own.before) if own is not None else found[-1][1] if found and not is_done else after
        found.append((before, None if run.ended is None else after))
    return found


def _told(run: AttemptRecord) -> Account | None:
    """What a run has told of the data that it began with: at its end, or when it first changed it."""
    lines = (line for line in (run.ended, run.changed) if line is not None and line.account is not None)
    return next((decode_account(line.account) for line in lines), None)


def _value(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
