"""`headrace failures`: what goes wrong, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import exits
from headrace.cli.jobs import show_jobs
from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json, show_table
from headrace.ops import look
from headrace.ops.documents import document, epoch_ms, job_document
from headrace.ops.selection import Selection
from headrace.records import Filter, State
from headrace.values.text import ago, now_ms

if TYPE_CHECKING:
    from headrace.ops.look import FailureGroup


@click.command("failures")
@click.argument("group", required=False)
@common_options
@click.option("--queue", help="Only of this queue.")
@click.option("--task", help="Only of this task, by its full name.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many.")
def failures_command(group: str | None, asked: Asked, queue: str | None, task: str | None, limit: int) -> None:
    """Count failed jobs by what went wrong.

    A group is the kind of exception, or what the task said with Fail(group). FIRST and LAST are when a job failed so,
    HOUR and 48H are how many did in this hour and in the last 48, with those that are no longer kept. TASKS are those
    of its newest 500 jobs; … stands for older ones. With GROUP: list its jobs, newest first.

    \b
    Examples:
      headrace failures
      headrace failures ValueError
      headrace revive --group ValueError
    """
    wanted = Filter(states=(State.FAILED,), queue=queue, task=task, group=group, limit=limit)
    with asked.app() as app:
        if group is None:
            _show_groups(look.failures(app, queue=queue, task=task, limit=limit), asked.as_json)
            return
        jobs = look.jobs(app, Selection(wanted=wanted)).jobs
    if asked.as_json:
        show_json({"group": group, "jobs": [job_document(job) for job in jobs]})
    elif jobs:
        show_jobs(jobs)
    else:
        click.echo(f"No failed jobs in the group {group!r}.", err=True)
    if not jobs:
        click.get_current_context().exit(exits.NOT_DONE)


def _show_groups(groups: list[FailureGroup], as_json: bool) -> None:
    if as_json:
        show_json({"failures": [document(group) for group in groups]})
    elif not groups:
        click.echo("No failed jobs.")
    else:
        headings = ("group", "count", "first", "last", "hour", "48h", "tasks")
        show_table(headings, [*map(_row, groups)], whole="count first last hour 48h", numbers="count hour 48h")


def _row(group: FailureGroup) -> tuple[str, ...]:
    now = now_ms()
    first, last = (
        "" if at is None else ago(epoch_ms(at), now) for at in (group.first_seen, group.last_seen or group.newest)
    )
    hours = group.by_hour
    lately = ("", "") if hours is None else (f"{hours[-1]:,}", f"{sum(hours):,}")
    older = ["…"] if group.tasks and group.looked_at < group.count else []
    return group.group, f"{group.count:,}", first, last, *lately, ", ".join([*group.tasks, *older])
