"""`headrace why`: one sentence on why a job is not running, or what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from headrace.cli import visible
from headrace.cli.jobs import find_job, percent
from headrace.cli.options import existing_store, json_option, store_options
from headrace.cli.output import length, local, now_ms, show_json
from headrace.codec import decode_error
from headrace.job import Counts, SessionSnapshot, Snapshot, State

if TYPE_CHECKING:
    from collections.abc import Sequence


class Why(NamedTuple):
    """A reason: a word for programs, a sentence for people."""

    reason: str
    sentence: str


@click.command("why")
@click.argument("job_id", metavar="ID")
@store_options
@json_option
def why_command(job_id: str, store: str | None, app_path: str | None, as_json: bool) -> None:
    """Say why a job is not running, or what became of it.

    \b
    Example:
      headrace why 01a1dd94962e700582fd831738a1847e
      ready: no live worker listens to the queue 'mail'. Start one: headrace worker APP --queues mail
    """
    with existing_store(store, app_path) as opened:
        job = find_job(opened, job_id)
        sessions = opened.run(opened.sessions())
        counts = opened.run(opened.counts())
    why = explain(job, sessions, counts, now_ms())
    if as_json:
        show_json({"id": job.id, "state": job.state.value, "reason": why.reason, "sentence": why.sentence})
    else:
        click.echo(visible(f"{job.state.value}: {why.sentence}"))


def explain(job: Snapshot, sessions: Sequence[SessionSnapshot], counts: Sequence[Counts], now: int) -> Why:
    """Why a job is where it is."""
    if job.state is State.SCHEDULED and job.due > now:
        return _scheduled(job, now)
    if job.state in (State.SCHEDULED, State.READY):
        return _ready(job, sessions, counts)
    if job.state is State.RUNNING:
        return _running(job, sessions, now)
    if job.state is State.BLOCKED:
        return Why("blocked", "it waits for other jobs.")
    return _finished(job, now)


def _scheduled(job: Snapshot, now: int) -> Why:
    when = local(job.due, now)
    if job.deferred_since is not None:
        return Why(
            "task unknown",
            f"put off until {when}: no worker that took it since {local(job.deferred_since, now)} "
            f"knows the task {job.task!r}. Is a deploy under way?",
        )
    if job.error is not None:
        return Why("retry", f"attempt {job.attempts} ended with {_error(job)}; attempt {job.attempts + 1} at {when}.")
    return Why("scheduled", f"it is to run at {when}.")


def _ready(job: Snapshot, sessions: Sequence[SessionSnapshot], counts: Sequence[Counts]) -> Why:
    listeners = [session for session in sessions if session.alive and job.queue in session.info.queues]
    if not listeners:
        return Why(
            "no worker",
            f"no live worker listens to the queue {job.queue!r}. Start one: headrace worker APP --queues {job.queue}",
        )
    able = [session for session in listeners if job.task in session.info.tasks]
    if not able:
        return Why(
            "task unknown",
            f"{_number(len(listeners), 'live worker')} {'listens' if len(listeners) == 1 else 'listen'} to the queue "
            f"{job.queue!r}, but none knows the task {job.task!r}.",
        )
    here = next((count.by_state for count in counts if count.queue == job.queue), {})
    others = max(here.get(State.READY, 0) - 1, 0)
    busy = sum(session.running for session in able)
    crash = f" Its process died {_times(job.crashes)} before." if job.crashes else ""
    return Why(
        "in line",
        f"it is in line with {_number(others, 'other ready job')} of the queue {job.queue!r}; "
        f"{_number(len(able), 'live worker')} can run it, busy with {_number(busy, 'job')} at present.{crash}",
    )


def _running(job: Snapshot, sessions: Sequence[SessionSnapshot], now: int) -> Why:
    since = local(job.started, now)
    alive = any(session.alive and session.info.name == job.worker for session in sessions)
    if not alive:
        return Why("worker dead", f"its worker {job.worker} has died; it goes to another within seconds of a sweep.")
    if job.cancelling:
        return Why("stopping", f"it runs on {job.worker} since {since}, and has been asked to stop.")
    far = "" if job.progress is None else f", {percent(job.progress)}"
    return Why("running", f"it runs on {job.worker} since {since}{far}.")


def _finished(job: Snapshot, now: int) -> Why:
    when = local(job.finished, now)
    if job.state is State.CANCELLED:
        return Why("cancelled", f"it was cancelled at {when}. To run it after all: headrace revive {job.id}")
    if job.state is State.FAILED:
        return Why(
            "failed",
            f"it failed at {when} in the group {job.group!r}: {_error(job)}. To run it again: headrace revive {job.id}",
        )
    took = "" if job.started is None or job.finished is None else f" after {length(job.finished - job.started)}"
    return Why("done", f"it was done at {when}{took}{f' on {job.worker}' if job.worker else ''}.")


def _error(job: Snapshot) -> str:
    error = decode_error(job.error)
    return ": ".join(filter(None, (error.type, error.message.strip().rstrip(".")))) or "no reason given"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}" if count else f"no {what}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
