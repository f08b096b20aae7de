"""`headrace jobs` and `headrace job`: look at jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from headrace.cli.options import Asked, common_options
from headrace.cli.output import console, show_fields, show_json, show_table, text_of
from headrace.cli.selecting import filter_options
from headrace.errors import ConfigurationError
from headrace.ops import look
from headrace.ops.documents import document, epoch_ms, job_document
from headrace.ops.selection import Found, Selection
from headrace.records import Filter
from headrace.values.codec import decode_error
from headrace.values.text import ago, count_of, iso, length, local, now_ms, percent

if TYPE_CHECKING:
    from headrace.ops.attempts import Attempt
    from headrace.records import Expiry, HistoryRecord, Lane, Snapshot
    from headrace.values.codec import ErrorText


@click.command("jobs")
@common_options
@filter_options
@click.option("--tracked", is_flag=True, default=None, help="Only tracked ones.")
@click.option("--worker", help="Only running under this worker, by its name.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="CURSOR", help="Go on where a page before ended.")
def jobs_command(
    asked: Asked, selection: Selection, tracked: bool | None, worker: str | None, limit: int, cursor: str | None
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      headrace jobs --state failed --queue mail --error 'connection refused'
      headrace jobs --state ready --before '1 hour ago' --json
      headrace jobs --tag urgent --task-like 'shop.mail:*'
      headrace jobs --task shop.mail:send --arg to=ada@example.org --after yesterday
    """
    wanted = replace(selection.wanted, tracked=tracked, worker=worker, limit=limit, after=cursor)
    selection = replace(selection, wanted=wanted)
    with asked.app() as app:
        try:
            page = look.jobs(app, selection)
        except ConfigurationError as error:
            if cursor is None:
                raise
            raise click.BadParameter(str(error), param_hint="'--cursor'") from None
    if asked.as_json:
        jobs = [job_document(job) for job in page.jobs]
        show_json({"jobs": jobs, "cursor": page.cursor, "looked_at": page.looked, "back_to": iso(page.reached)})
        return
    cut_short = page.cursor is not None and len(page.jobs) < limit
    if page.jobs:
        show_jobs(page.jobs)
    elif not cut_short:
        click.echo("No jobs." if selection == Selection(wanted=Filter(limit=limit)) else "No such jobs.")
    if page.cursor is not None:
        more = f"The search was cut short {_how_far(page)}. To look further" if cut_short else "There are more"
        console(error=True).print(f"{more}: add --cursor {page.cursor}", style="dim", markup=False)


def _how_far(page: Found) -> str:
    if page.looked is None or page.reached is None:
        return "among the newest jobs"
    return f"after {count_of(page.looked, 'job')}, put {ago(page.reached, now_ms())} or later"


def show_jobs(jobs: list[Snapshot]) -> None:
    """A table of jobs."""
    now = now_ms()
    rows = [(job.id, job.state.value, job.queue, job.task, ago(_moment(job), now)) for job in jobs]
    show_table(("id", "state", "queue", "task", "when"), rows, whole="id state when")


def _moment(job: Snapshot) -> int:
    """The time that says most about a job in its state."""
    if job.state.value == "scheduled":
        return job.due
    return job.finished or (job.started if job.state.value == "running" else None) or job.created


@click.command("job")
@click.argument("job_id", metavar="ID")
@common_options
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only this attempt, with its error and its data.")
def job_command(job_id: str, asked: Asked, attempt: int | None) -> None:
    """Show all there is to know about a job.

    Its arguments, what became of it, the error with its traceback, its history, and its attempts.

    \b
    Example:
      headrace job 01a1dd94962e700582fd831738a1847e
      headrace job 1847e
      headrace job 1847e --attempt 2
    """
    with asked.app() as app:
        found = look.job(app, job_id)
    if attempt is not None:
        _show_attempt(found.attempts, attempt, asked.as_json)
        return
    if asked.as_json:
        show_json(found.document())
        return
    show_job(found.job)
    if found.history is not None:
        show_history(found.history)
        show_attempts(found.attempts)


def show_job(job: Snapshot) -> None:
    """Everything the job's head says."""
    now = now_ms()
    error = decode_error(job.error)
    took = length(job.finished - job.started) if job.finished is not None and job.started is not None else ""
    show_fields(
        [
            ("id", job.id),
            ("task", job.task),
            ("queue", job.queue),
            ("state", job.state.value),
            ("", "has been asked to stop" if job.cancelling else ""),
            ("priority", str(job.priority) if job.priority else ""),
            ("arguments", text_of(job.body)),
            ("options", text_of(job.options)),
            ("created", local(job.created, now)),
            (
                "due",
                local(job.due, now) if job.due != job.created and job.state.value in ("scheduled", "ready") else "",
            ),
            ("expires", "" if job.expires is None else _expiry(job.expires, now)),
            ("started", local(job.started, now)),
            ("finished", local(job.finished, now)),
            ("took", took),
            ("worker", job.worker),
            ("attempts", str(job.attempts) if job.attempts else ""),
            ("crashes", f"{job.crashes} of at most {job.max_crashes}" if job.crashes else ""),
            ("progress", "" if job.progress is None else percent(job.progress)),
            ("after", ", ".join(job.after)),
            ("lane", "" if job.lane is None else _lane(job.lane)),
            ("tags", ", ".join(job.tags)),
            ("tracked", "yes" if job.tracked else ""),
            ("schedule", job.schedule or ""),
            ("tick", local(job.tick)),
            ("data", text_of(job.data)),
            ("result", text_of(job.result)),
            ("group", job.group or ""),
            ("error", _in_short(error)),
            ("traceback", error.traceback.rstrip()),
        ]
    )


def show_history(history: list[HistoryRecord]) -> None:
    """What happened, oldest first."""
    now = now_ms()
    click.echo()
    rows = [(local(e.at, now), e.what, e.detail, e.worker) for e in history]
    show_table(("when", "what", "detail", "worker"), rows, whole="when what worker", folds="detail")


def show_attempts(attempts: list[Attempt]) -> None:
    """How each run ended, oldest first."""
    if not attempts:
        return
    click.echo()
    rows = [(str(run.number), run.outcome, _took(run), run.worker or "", _in_short(run.error)) for run in attempts]
    headings = ("attempt", "outcome", "took", "worker", "error")
    show_table(headings, rows, whole="attempt outcome took worker", numbers="attempt took", folds="error")


def _show_attempt(attempts: list[Attempt], number: int, as_json: bool) -> None:
    if number > len(attempts):
        raise click.BadParameter(f"The history tells of {len(attempts)} attempts.", param_hint="'--attempt'")
    run = attempts[number - 1]
    if as_json:
        show_json(document(run))
        return
    show_fields(
        [
            ("attempt", str(run.number)),
            ("outcome", run.outcome),
            ("note", run.note),
            ("worker", run.worker or ""),
            ("started", local(epoch_ms(run.started))),
            ("took", _took(run)),
            ("data before", _data(run.data_before)),
            ("data after", _data(run.data_after)),
            ("error", _in_short(run.error)),
            ("traceback", "" if run.error is None else run.error.traceback.rstrip()),
        ]
    )


def _took(run: Attempt) -> str:
    return "" if run.seconds is None else length(round(run.seconds * 1000))


def _data(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _in_short(error: ErrorText | None) -> str:
    return "" if error is None else ": ".join(filter(None, (error.type, error.message)))


def _expiry(expires: Expiry, now: int) -> str:
    return local(expires.at, now) if expires.after is None else f"{length(expires.after)} after it is due"


def _lane(lane: Lane) -> str:
    if lane.sequence:
        return f"{lane.key}, in sequence"
    return ", ".join((lane.key, *lane_rules(lane.limit, lane.rate, lane.per, lane.weight)))


def lane_rules(limit: int | None, rate: int | None, per: int, weight: int | None) -> list[str]:
    """The rules of a lane, or what a call says of them, in words.

    >>> lane_rules(2, 0, 1_000, 1)
    ['at most 2 at once', 'no rate']
    """
    words = [] if limit is None else [f"at most {limit:,} at once" if limit else "no limit"]
    words += [] if rate is None else [f"{rate:,} per {length(per)}" if rate else "no rate"]
    return words + ([] if weight in (None, 1) else [f"weight {weight}"])
