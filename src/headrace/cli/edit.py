"""`headrace edit` and `headrace time-out`: change jobs that wait, take away jobs that run."""

from __future__ import annotations

import json

import click

from headrace.cli.acts import report
from headrace.cli.options import existing_store, json_option, store_options
from headrace.job import State
from headrace.store.facets import Editing, Relations, facet

WAITING = (State.SCHEDULED, State.READY, State.BLOCKED)


@click.command("edit")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--queue", help="Move it to this queue.")
@click.option("--priority", type=int, help="Higher runs first.")
@click.option("--run-after", metavar="WHEN", help="'in 5 minutes', '7pm tomorrow', an ISO time.")
@click.option("--tz", default="UTC", show_default=True, help="The zone of --run-after.")
@click.option("--data", metavar="JSON", help="What its next run finds in current().data.")
@click.option("--after", "add", metavar="ID", multiple=True, help="Run it after this job, too. May be repeated.")
@click.option("--not-after", "remove", metavar="ID", multiple=True, help="Wait for this job no more. May be repeated.")
@store_options
@json_option
def edit_command(
    ids: tuple[str, ...],
    queue: str | None,
    priority: int | None,
    run_after: str | None,
    tz: str,
    data: str | None,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    store: str | None,
    app_path: str | None,
    as_json: bool,
) -> None:
    """Change jobs that wait.

    Where, when and after what they run.

    \b
    Examples:
      headrace edit 01a1dd94962e700582fd831738a1847e --priority 10
      headrace edit 01a1dd94962e700582fd831738a1847e --run-after 'in 5 minutes' --queue slow
    """
    from headrace.app import Headrace

    values = {"queue": queue, "priority": priority, "run_after": run_after}
    changes = {name: value for name, value in values.items() if value is not None}
    if data is not None:
        try:
            changes["data"] = json.loads(data)
        except ValueError as error:
            raise click.BadParameter(f"{data!r} is no JSON: {error}", param_hint="'--data'") from error
    if not changes and not add and not remove:
        raise click.UsageError("What is to change? See headrace edit --help.")
    with existing_store(store, app_path) as opened:
        app = Headrace(opened.url, tz=tz)
        app.use_store(opened)
        if changes:
            facet(opened, Editing)
        if add or remove:
            facet(opened, Relations)
        done = []
        for job_id in ids:
            job = app.job(job_id)
            good = not changes or job.edit(**changes)  # type: ignore[arg-type]
            done.append(good and (not (add or remove) or job.depend(add=add, remove=remove)))
        found = opened.run(opened.get(ids))
    outcomes = [
        "edited" if good else "not found" if job is None else f"refused: it is {job.state}"
        for good, job in zip(done, found, strict=True)
    ]
    report(ids, outcomes, ("edited",), as_json)


@click.command("time-out")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@store_options
@json_option
def time_out_command(ids: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool) -> None:
    """Take running jobs away from their workers.

    They go back in line. No attempt is spent. The worker is told; what its run still does is in vain.

    \b
    Example:
      headrace time-out 01a1dd94962e700582fd831738a1847e
    """
    with existing_store(store, app_path) as opened:
        done = opened.run(facet(opened, Editing).time_out(ids))
        found = opened.run(opened.get(ids))
    outcomes = [
        "back in line" if good else "not found" if job is None else f"refused: it is {job.state}"
        for good, job in zip(done, found, strict=True)
    ]
    report(ids, outcomes, ("back in line",), as_json)
