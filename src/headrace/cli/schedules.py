"""`headrace schedules`: look at recurring jobs, pause, change and delete them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from headrace.cli.acts import report
from headrace.cli.enqueue import arguments_of, find_task
from headrace.cli.options import DURATION, Asked, arguments_option, common_options, given_options, job_options
from headrace.cli.output import console, say, show_fields, show_json, show_table, text_of
from headrace.errors import ConfigurationError
from headrace.ops import schedules as ops
from headrace.ops.documents import epoch_ms
from headrace.options import editable
from headrace.schedules import MOST
from headrace.values.text import length, local

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.ops.schedules import ScheduleActed, ScheduleDetails
    from headrace.records import Definition
    from headrace.schedules import ScheduleEdits

OF_JOBS = editable("schedule")
_OF_SCHEDULES = ("every", "cron", "repeat", "tz", "overlap", "misfire", "runs")


@click.group("schedules", invoke_without_command=True)
@common_options
@click.pass_context
def schedules_command(ctx: click.Context, asked: Asked) -> None:
    """List recurring jobs, pause, change and delete them.

    Without a command: all schedules, by name.

    \b
    Examples:
      headrace schedules
      headrace schedules pause nightly
      headrace schedules edit nightly --every 'every day at 5am' --tz Europe/Zurich
    """
    if ctx.invoked_subcommand is not None:
        return
    with asked.app(with_tasks=True) as app:
        found = ops.schedules(app)
    if asked.as_json:
        show_json({"schedules": [schedule.document() for schedule in found]})
    elif not found:
        click.echo("No schedules.")
    else:
        headings = ["name", "rule", "next", "runs", "task"]
        if any(schedule.record.definition.declared_by for schedule in found):
            headings.append("declared by")
        rows = [_row(schedule)[: len(headings)] for schedule in found]
        show_table(headings, _fitting(headings, rows), whole="name next runs", numbers="runs")


def _row(schedule: ScheduleDetails) -> tuple[str, ...]:
    definition = schedule.record.definition
    runs = str(schedule.record.runs)
    return schedule.name, definition.rule, schedule.when, runs, definition.task, definition.declared_by or ""


def _fitting(headings: list[str], rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows whose rules, which may be long, leave room for when they come next."""
    widths = [max(len(heading), *(len(row[place]) for row in rows)) for place, heading in enumerate(headings)]
    rule = headings.index("rule")
    others = sum(min(width, 20) for place, width in enumerate(widths) if place != rule) + 2 * len(headings)
    room = max(console().width - others, 12)
    return [
        tuple(text if place != rule or len(text) <= room else f"{text[: room - 1]}…" for place, text in enumerate(row))
        for row in rows
    ]


@schedules_command.command("show")
@click.argument("name")
@common_options
def show_command(name: str, asked: Asked) -> None:
    """Show all there is to know about a schedule.

    \b
    Example:
      headrace schedules show nightly
    """
    with asked.app(with_tasks=True) as app:
        schedule = ops.schedule(app, name)
    if asked.as_json:
        show_json(schedule.document())
        return
    record, definition = schedule.record, schedule.record.definition
    show_fields(
        [
            ("schedule", record.name),
            ("rule", definition.rule),
            ("task", definition.task),
            ("arguments", text_of(definition.body)),
            ("queue", definition.queue),
            ("priority", str(definition.priority) if definition.priority else ""),
            ("options", text_of(definition.options)),
            ("tags", ", ".join(definition.tags)),
            ("state", schedule.state),
            ("next", "\n".join(local(epoch_ms(run)) for run in schedule.upcoming)),
            ("runs", f"{record.runs}" + (f" of {definition.max_runs}" if definition.max_runs else "")),
            ("last tick", local(record.last_tick)),
            ("last job", record.last_job or ""),
            ("overlap", definition.overlap.value),
            ("misfire", misfire(definition)),
            ("jitter", length(definition.jitter) if definition.jitter else ""),
            ("offset", length(definition.offset) if definition.offset else ""),
            ("start", local(definition.start)),
            ("end", local(definition.end)),
            ("data", text_of(record.data)),
            ("declared by", definition.declared_by or ""),
            ("created", local(record.created or None)),
        ]
    )


def _act(act: Callable[[Headrace, Sequence[str]], list[ScheduleActed]], names: Sequence[str], asked: Asked) -> None:
    with asked.app(with_tasks=True) as app:
        acted = act(app, names)
    report(acted, asked.as_json, "schedules")


@schedules_command.command("pause")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@common_options
def pause_command(names: tuple[str, ...], asked: Asked) -> None:
    """Stop schedules from ticking.

    Jobs that they have put already run.

    \b
    Example:
      headrace schedules pause nightly hourly
    """
    _act(ops.pause, names, asked)


@schedules_command.command("resume")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@common_options
def resume_command(names: tuple[str, ...], asked: Asked) -> None:
    """Let paused schedules go on.

    From now on: what came meanwhile is passed over.

    \b
    Example:
      headrace schedules resume nightly
    """
    _act(ops.resume, names, asked)


@schedules_command.command("run")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@common_options
def run_command(names: tuple[str, ...], asked: Asked) -> None:
    """Run schedules once now.

    Each puts a job like those of its ticks, paused or not, and whatever of it runs. Its next tick stays as it is.

    \b
    Example:
      headrace schedules run nightly
    """
    _act(ops.run_now, names, asked)


@schedules_command.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@common_options
def delete_command(names: tuple[str, ...], asked: Asked) -> None:
    """Delete schedules.

    Jobs that they have put stay. One that is declared in code comes back when a worker of that app starts.

    \b
    Example:
      headrace schedules delete nightly
    """
    _act(ops.delete, names, asked)


@schedules_command.command("edit")
@click.argument("name")
@common_options
@click.option("--every", metavar="PHRASE", help="Another rule, in words: 'every day at 5am'.")
@click.option("--cron", metavar="FIELDS", help="Another rule, as cron.")
@click.option("--repeat", metavar="RULE", help="Another rule, counted from the run before: 'FINISHED, +1 HOUR'.")
@click.option("--tz", metavar="ZONE", help="The zone of the rule.  [default: that of --app, else UTC]")
@click.option("--task", metavar="TASK", help="Another task, by its name or the end of it.")
@arguments_option
@job_options(OF_JOBS)
@click.option("--overlap", type=click.Choice(["allow", "skip", "queue", "replace"]), help="While the last job runs.")
@click.option("--misfire", type=click.Choice(["all", "once", "skip"]), help="What becomes of missed ticks.")
@click.option("--jitter", type=DURATION, help="Run up to so much later.")
@click.option("--runs", type=click.IntRange(1), help="How many jobs in all.")
def edit_command(
    name: str, asked: Asked, task: str | None, arguments: tuple[str, ...], jitter: int | None, **written: Any
) -> None:
    """Change a schedule that is in use.

    What is not given stays. One that is declared in code gets what the code says when a worker of that app starts. To
    change the task or the arguments, say which app checks them.

    \b
    Examples:
      headrace schedules edit nightly --every 'every day at 5am' --tz Europe/Zurich
      headrace schedules edit nightly --queue slow --priority -5
      headrace schedules edit nightly --argument stock --argument copies=3 --app shop.tasks:app
    """
    changes = {name: value for name in _OF_SCHEDULES if (value := written[name]) is not None}
    changes |= given_options(OF_JOBS, written)
    if jitter is not None:
        changes["jitter"] = jitter / 1000
    with asked.app(with_tasks=True) as app:
        if task is not None:
            changes["task"] = find_task(app, task).name
        if arguments:
            before = ops.schedule(app, name).record.definition.task
            changes["args"], changes["kwargs"] = arguments_of(app, changes.get("task", before), arguments)
        if not changes:
            raise click.UsageError("What should change? Say for example --every 'every day at 5am' or --queue slow.")
        try:
            schedule = ops.edit(app, name, cast("ScheduleEdits", changes))
        except (ConfigurationError, ValueError, TypeError) as error:
            raise click.UsageError(str(error)) from None
    say(schedule.document(), f"{schedule.record.definition.rule}; next: {schedule.when}", asked.as_json)


def misfire(definition: Definition) -> str:
    """What becomes of missed ticks, in words."""
    bounded = definition.misfire == "all" and definition.limit <= MOST
    most = f", {definition.limit} at most" if bounded else ""
    return f"{definition.misfire.value}{most} (after {length(definition.grace)})"
