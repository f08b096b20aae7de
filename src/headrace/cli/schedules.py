"""`headrace schedules`: look at recurring jobs, pause, change and delete them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from headrace.cli import exits, visible
from headrace.cli.options import DURATION, existing_app, given_options, job_options, json_option, store_options
from headrace.cli.output import console, show_fields, show_json, show_table, text_of
from headrace.errors import ConfigurationError, ScheduleNotFound
from headrace.ops.documents import value_of
from headrace.options import editable
from headrace.values.text import ago, iso, length, local, now_ms

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.schedules import StoredSchedule

OF_JOBS = editable("schedule")
_OF_SCHEDULES = ("every", "cron", "repeat", "tz", "overlap", "misfire", "runs")
RUNS = 5
"""How many of the next runs are shown."""


@contextmanager
def schedules_of(store: str | None, app_path: str | None) -> Iterator[Headrace]:
    """An app at the store that was asked for, on this command or on the group."""
    from headrace.app import Headrace
    from headrace.loading import load_app

    parent = click.get_current_context().parent
    above = parent.params if parent is not None else {}
    store, app_path = store or above.get("store"), app_path or above.get("app_path")
    with existing_app(store, app_path) as found_app:
        opened = found_app.store
        app = load_app(app_path) if app_path else Headrace(opened.url)
        before = app.use_store(opened)
        try:
            yield app
        finally:
            app.use_store(before)


def wants_json(as_json: bool) -> bool:
    parent = click.get_current_context().parent
    return as_json or bool(parent is not None and parent.params.get("as_json"))


def find(app: Headrace, name: str) -> StoredSchedule:
    found = app.schedules(name)
    if not found:
        raise ScheduleNotFound(name)
    return found[0]


@click.group("schedules", invoke_without_command=True)
@store_options
@json_option
@click.pass_context
def schedules_command(ctx: click.Context, store: str | None, app_path: str | None, as_json: bool) -> None:
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
    with schedules_of(store, app_path) as app:
        found = app.schedules()
    if as_json:
        show_json({"schedules": [document(schedule) for schedule in found]})
    elif not found:
        click.echo("No schedules.")
    else:
        headings = ["name", "rule", "next", "runs", "task"]
        if any(schedule.declared_by for schedule in found):
            headings.append("declared by")
        rows = [(s.name, s.rule, when(s), str(s.runs), s.task, s.declared_by or "")[: len(headings)] for s in found]
        show_table(headings, _fitting(headings, rows), whole="name next runs", numbers="runs")


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
@store_options
@json_option
def show_command(name: str, store: str | None, app_path: str | None, as_json: bool) -> None:
    """Show all there is to know about a schedule.

    \b
    Example:
      headrace schedules show nightly
    """
    with schedules_of(store, app_path) as app:
        schedule = find(app, name)
    if wants_json(as_json):
        show_json(document(schedule))
        return
    definition, record = schedule.record.definition, schedule.record
    show_fields(
        [
            ("schedule", schedule.name),
            ("rule", schedule.rule),
            ("task", schedule.task),
            ("arguments", text_of(definition.body)),
            ("queue", schedule.queue),
            ("priority", str(definition.priority) if definition.priority else ""),
            ("options", text_of(definition.options)),
            ("tags", ", ".join(definition.tags)),
            ("state", state(schedule)),
            ("next", "\n".join(local(as_ms(run)) for run in schedule.upcoming(RUNS))),
            ("runs", f"{record.runs}" + (f" of {definition.max_runs}" if definition.max_runs else "")),
            ("last tick", local(record.last_tick)),
            ("last job", record.last_job or ""),
            ("overlap", definition.overlap.value),
            ("misfire", misfire(schedule)),
            ("jitter", length(definition.jitter) if definition.jitter else ""),
            ("offset", length(definition.offset) if definition.offset else ""),
            ("start", local(definition.start)),
            ("end", local(definition.end)),
            ("data", text_of(record.data)),
            ("declared by", schedule.declared_by or ""),
            ("created", local(record.created or None)),
        ]
    )


def _act(
    names: Sequence[str], store: str | None, app_path: str | None, as_json: bool, act: Callable[[StoredSchedule], str]
) -> None:
    """Do something to several; exit code 1 if one of them is not there."""
    outcomes: list[tuple[str, str, bool]] = []
    with schedules_of(store, app_path) as app:
        for name in names:
            try:
                outcomes.append((name, act(find(app, name)), True))
            except ScheduleNotFound:
                outcomes.append((name, "not found", False))
    if wants_json(as_json):
        show_json({"schedules": [{"name": name, "ok": ok, "outcome": outcome} for name, outcome, ok in outcomes]})
    else:
        for name, outcome, ok in outcomes:
            click.echo(f"{visible(name)}  {outcome}", err=not ok)
    if not all(ok for _, _, ok in outcomes):
        click.get_current_context().exit(exits.NOT_DONE)


def _pause(schedule: StoredSchedule) -> str:
    schedule.pause()
    return "paused"


def _resume(schedule: StoredSchedule) -> str:
    schedule.resume()
    return f"goes on: {when(schedule)}"


@schedules_command.command("pause")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_options
@json_option
def pause_command(names: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool) -> None:
    """Stop schedules from ticking.

    Jobs that they have put already run.

    \b
    Example:
      headrace schedules pause nightly hourly
    """
    _act(names, store, app_path, as_json, _pause)


@schedules_command.command("resume")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_options
@json_option
def resume_command(names: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool) -> None:
    """Let paused schedules go on.

    From now on: what came meanwhile is passed over.

    \b
    Example:
      headrace schedules resume nightly
    """
    _act(names, store, app_path, as_json, _resume)


@schedules_command.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@store_options
@json_option
def delete_command(names: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool) -> None:
    """Delete schedules.

    Jobs that they have put stay. One that is declared in code comes back when a worker of that app starts.

    \b
    Example:
      headrace schedules delete nightly
    """

    def delete(schedule: StoredSchedule) -> str:
        if not schedule.delete():
            raise ScheduleNotFound(schedule.name)
        by = schedule.declared_by
        return "deleted" if by is None else f"deleted, until a worker of {visible(by)} starts: it is declared there"

    _act(names, store, app_path, as_json, delete)


@schedules_command.command("edit")
@click.argument("name")
@store_options
@json_option
@click.option("--every", metavar="PHRASE", help="Another rule, in words: 'every day at 5am'.")
@click.option("--cron", metavar="FIELDS", help="Another rule, as cron.")
@click.option("--repeat", metavar="RULE", help="Another rule, counted from the run before: 'FINISHED, +1 HOUR'.")
@click.option("--tz", metavar="ZONE", help="The zone of the rule.")
@click.option(
    "--argument", "arguments", multiple=True, metavar="ARGUMENT", help="All arguments anew, as for 'enqueue'."
)
@job_options(OF_JOBS)
@click.option("--overlap", type=click.Choice(["allow", "skip", "queue", "replace"]), help="While the last job runs.")
@click.option("--misfire", type=click.Choice(["all", "once", "skip"]), help="What becomes of missed ticks.")
@click.option("--jitter", type=DURATION, help="Run up to so much later.")
@click.option("--runs", type=click.IntRange(1), help="How many jobs in all.")
def edit_command(
    name: str,
    store: str | None,
    app_path: str | None,
    as_json: bool,
    arguments: tuple[str, ...],
    jitter: int | None,
    **written: Any,
) -> None:
    """Change a schedule that is in use.

    What is not given stays. One that is declared in code gets what the code says when a worker of that app starts. To
    change the arguments, say which app checks them.

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
    with schedules_of(store, app_path) as app:
        schedule = find(app, name)
        if arguments:
            changes["args"], changes["kwargs"] = _arguments(app, schedule, arguments)
        if not changes:
            raise click.UsageError("What should change? Say for example --every 'every day at 5am' or --queue slow.")
        try:
            schedule.edit(**changes)
        except (ConfigurationError, ValueError, TypeError) as error:
            raise click.UsageError(str(error)) from None
    if wants_json(as_json):
        show_json(document(schedule))
    else:
        click.echo(f"{visible(schedule.rule)}; next: {when(schedule)}")


def _arguments(
    app: Headrace, schedule: StoredSchedule, texts: tuple[str, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    from headrace.cli.enqueue import read_arguments

    task = app.tasks.get(schedule.task)
    if task is None:
        raise click.UsageError(f"Which app has the task {schedule.task!r}? Say --app module:app.")
    return read_arguments(task, texts)


# -- words and documents --


def as_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def state(schedule: StoredSchedule) -> str:
    """In a word."""
    record = schedule.record
    if record.paused:
        return "paused"
    if record.next is not None:
        return "ticking"
    runs = record.definition.max_runs
    waits = record.definition.follows and record.last_job is not None and (runs is None or record.runs < runs)
    return "after its job" if waits else "over"


def when(schedule: StoredSchedule) -> str:
    """When it runs next, or why it does not."""
    if state(schedule) != "ticking" or schedule.record.next is None:
        return state(schedule)
    return ago(schedule.record.next, now_ms())


def misfire(schedule: StoredSchedule) -> str:
    from headrace.schedules import MOST

    definition = schedule.record.definition
    bounded = definition.misfire == "all" and definition.limit <= MOST
    most = f", {definition.limit} at most" if bounded else ""
    return f"{definition.misfire.value}{most} (after {length(definition.grace)})"


def document(schedule: StoredSchedule) -> dict[str, Any]:
    """A schedule as `--json` shows it. Names and meanings are stable; more may be added."""
    record = schedule.record
    definition = record.definition
    options = None if definition.options is None else json.loads(definition.options)
    return {
        "name": schedule.name,
        "rule": schedule.rule,
        "task": schedule.task,
        "arguments": value_of(definition.body),
        "queue": definition.queue,
        "priority": definition.priority,
        "max_crashes": definition.max_crashes,
        "options": options,
        "tags": list(definition.tags),
        "state": state(schedule),
        "paused": record.paused,
        "next": iso(record.next),
        "upcoming": [iso(as_ms(run)) for run in schedule.upcoming(RUNS)],
        "runs": record.runs,
        "max_runs": definition.max_runs,
        "last_tick": iso(record.last_tick),
        "last_job": record.last_job,
        "overlap": definition.overlap.value,
        "misfire": definition.misfire.value,
        "limit": definition.limit,
        "grace": definition.grace,
        "jitter": definition.jitter,
        "offset": definition.offset,
        "start": iso(definition.start),
        "end": iso(definition.end),
        "carry_data": definition.carry_data,
        "data": value_of(record.data),
        "declared_by": definition.declared_by,
        "created": iso(record.created or None),
        "version": record.version,
    }
