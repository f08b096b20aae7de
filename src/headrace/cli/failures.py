"""`headrace failures`: what goes wrong, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from headrace.cli.jobs import show_jobs
from headrace.cli.options import existing_store, json_option, store_options
from headrace.cli.output import job_document, show_json, show_table
from headrace.records import Filter, Snapshot, State
from headrace.store.contract import Facet
from headrace.store.facets import Statistics, facet
from headrace.store.paging import PAGE, pages, whole_page
from headrace.values.text import ago, iso, now_ms

if TYPE_CHECKING:
    from headrace.store import Store


@click.command("failures")
@click.argument("group", required=False)
@store_options
@json_option
@click.option("--queue", help="Only of this queue.")
@click.option("--task", help="Only of this task, by its full name.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many.")
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

    A group is the kind of exception, or what the task said with Fail(group). NEWEST and TASK tell of its job that was
    put last. With GROUP: list its jobs, newest first.

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
        jobs = whole_page(opened, wanted).jobs
    if as_json:
        show_json({"group": group, "jobs": [job_document(job) for job in jobs]})
    elif jobs:
        show_jobs(jobs)
    else:
        click.echo(f"No failed jobs in the group {group!r}.", err=True)
    if not jobs:
        click.get_current_context().exit(1)


def _count(store: Store, wanted: Filter) -> list[dict[str, Any]]:
    """The groups, most first. A store that counts them is asked; else, or for one queue or task, one looks at all."""
    if Facet.STATISTICS in store.facets and wanted.queue is None and wanted.task is None:
        groups = []
        for name, count in store.run(facet(store, Statistics).failures(wanted.limit)):
            newest = store.run(store.find(replace(wanted, group=name, limit=1))).jobs if name else []
            groups.append(_group(name, count, newest[0] if newest else None))
        return groups
    found: dict[str, dict[str, Any]] = {}
    for jobs in pages(store, replace(wanted, limit=PAGE)):
        for job in jobs:
            name = job.group or ""
            found.setdefault(name, _group(name, 0, job))["count"] += 1
    return sorted(found.values(), key=lambda group: -group["count"])[: wanted.limit]


def _group(name: str, count: int, newest: Snapshot | None) -> dict[str, Any]:
    return {
        "group": name,
        "count": count,
        "task": newest.task if newest else None,
        "newest": newest.finished if newest else None,
    }


def _show_groups(groups: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        show_json({"failures": [{**group, "newest": iso(group["newest"])} for group in groups]})
    elif not groups:
        click.echo("No failed jobs.")
    else:
        now = now_ms()
        rows = [
            (g["group"], f"{g['count']:,}", "" if g["newest"] is None else ago(g["newest"], now), g["task"] or "")
            for g in groups
        ]
        show_table(("group", "count", "newest", "task"), rows, whole="count newest", numbers="count")
