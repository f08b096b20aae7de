"""`headrace failures`: what goes wrong, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.jobs import show_jobs
from headrace.cli.options import existing_store, json_option, store_options
from headrace.cli.output import job_document, show_json, show_table
from headrace.job import Filter, Snapshot, State
from headrace.spoken import ago, iso, now_ms

if TYPE_CHECKING:
    from headrace.store import Store

PAGE = 500


def pages(store: Store, wanted: Filter) -> Iterator[list[Snapshot]]:
    """All jobs that a filter finds, page by page. Jobs of a page may be changed before the next is asked for."""
    cursor = None
    while True:
        page = store.run(
            store.find(
                Filter(
                    states=wanted.states,
                    queue=wanted.queue,
                    task=wanted.task,
                    group=wanted.group,
                    limit=PAGE,
                    after=cursor,
                )
            )
        )
        if page.jobs:
            yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


@click.command("failures")
@click.argument("group", required=False)
@store_options
@json_option
@click.option("--queue", help="Only of this queue.")
@click.option("--task", help="Only of this task, by its full name.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="With GROUP: at most so many."
)
def failures_command(
    group: str | None,
    store: str | None,
    app_path: str | None,
    as_json: bool,
    queue: str | None,
    task: str | None,
    limit: int,
) -> None:
    """Count failed jobs by what went wrong.

    A group is the kind of exception, or what the task said with Fail(group). With GROUP: list its jobs, newest first.

    \b
    Examples:
      headrace failures
      headrace failures ValueError
      headrace revive --group ValueError
    """
    wanted = Filter(states=(State.FAILED,), queue=queue, task=task, group=group, limit=limit)
    with existing_store(store, app_path) as opened:
        if group is None:
            _show_groups(_count(opened, wanted), as_json)
            return
        jobs = opened.run(opened.find(wanted)).jobs
    if as_json:
        show_json({"group": group, "jobs": [job_document(job) for job in jobs]})
    elif jobs:
        show_jobs(jobs)
    else:
        click.echo(f"No failed jobs in the group {group!r}.", err=True)
    if not jobs:
        click.get_current_context().exit(1)


def _count(store: Store, wanted: Filter) -> list[dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for jobs in pages(store, wanted):
        for job in jobs:
            found = groups.setdefault(
                job.group or "", {"group": job.group or "", "count": 0, "tasks": set(), "last": 0}
            )
            found["count"] += 1
            found["tasks"].add(job.task)
            found["last"] = max(found["last"], job.finished or 0)
    return sorted(groups.values(), key=lambda found: -found["count"])


def _show_groups(groups: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        show_json({"failures": [{**g, "tasks": sorted(g["tasks"]), "last": iso(g["last"])} for g in groups]})
    elif not groups:
        click.echo("No failed jobs.")
    else:
        now = now_ms()
        rows = [(g["group"], f"{g['count']:,}", ago(g["last"], now), ", ".join(sorted(g["tasks"]))) for g in groups]
        show_table(("group", "count", "last", "tasks"), rows, whole="count last", numbers="count")
