"""`headrace edit`: change jobs that wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.acts import report
from headrace.cli.enqueue import arguments_of
from headrace.cli.options import Asked, arguments_option, common_options, given_options, job_options
from headrace.cli.selecting import Bounds, act_on_many, check_choice, many_options
from headrace.errors import ArgumentsError, ConfigurationError
from headrace.ops.edit import JobEdit, edit, verb
from headrace.ops.selection import Selection, find_job, whole_ids
from headrace.options import editable

if TYPE_CHECKING:
    from headrace.app import Headrace

OF_JOBS = editable("job")


@click.command("edit")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@job_options(OF_JOBS, {"queue": "--to-queue"})
@click.option("--tz", metavar="ZONE", help="The zone of --run-after.  [default: that of --app, else UTC]")
@click.option("--data", metavar="JSON", help="What the next run finds in current().data.")
@arguments_option
@click.option("--add-after", "add", metavar="ID", multiple=True, help="Run them after this job, too. May be repeated.")
@click.option(
    "--remove-after", "remove", metavar="ID", multiple=True, help="No longer wait for this job. May be repeated."
)
@click.option("--add-tag", "tags", metavar="TAG", multiple=True, help="Add this tag. May be repeated.")
@click.option("--remove-tag", "untags", metavar="TAG", multiple=True, help="Remove this tag. May be repeated.")
@common_options
@many_options
def edit_command(
    ids: tuple[str, ...],
    tz: str | None,
    data: str | None,
    arguments: tuple[str, ...],
    add: tuple[str, ...],
    remove: tuple[str, ...],
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    asked: Asked,
    selection: Selection,
    bounds: Bounds,
    **written: Any,
) -> None:
    """Change jobs that wait.

    Where, when, with what and after what they run. To change the arguments, say which app checks them. A mistake in the
    command is reported before anything is changed; then each job is a case of its own, and the report says what became
    of it. With filters (--queue, --task, --state ...): all waiting jobs that fit, after a question.

    \b
    Examples:
      headrace edit 01a1dd94962e700582fd831738a1847e --priority 10
      headrace edit 01a1dd94962e700582fd831738a1847e --run-after 'in 5 minutes' --to-queue slow
      headrace edit --queue mail --tag bulk --to-queue slow --yes
      headrace edit 01a1dd94962e700582fd831738a1847e --argument ada@example.org --app shop.tasks:app
    """
    changes = given_options(OF_JOBS, written)
    if data is not None:
        changes["data"] = _json(data)
    if not (changes or arguments or add or remove or tags or untags):
        raise click.UsageError("What is to change? See headrace edit --help.")
    check_choice(ids, selection)
    with asked.app(with_tasks=True) as named:
        app = named if tz is None else _in_zone(named, tz)
        wanted = JobEdit(
            changes=changes,
            arguments=(lambda task: arguments_of(app, task, arguments)) if arguments else None,
            add_after=[find_job(app, part).id for part in add], remove_after=whole_ids(app, remove),
            add_tags=tags, remove_tags=untags,
        )  # fmt: skip
        try:
            if not ids:
                act_on_many(app, verb(app, wanted), selection, bounds, asked.as_json)
                return
            acted = edit(app, whole_ids(app, ids), wanted)
        except (ArgumentsError, ConfigurationError) as error:
            raise click.UsageError(str(error)) from None
    report(acted, asked.as_json)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no JSON: {error}", param_hint="'--data'") from error


def _in_zone(named: Headrace, tz: str) -> Headrace:
    """An app that reads times in this zone, with the store and the tasks of the one that was named."""
    from headrace.app import Headrace

    app = Headrace(named.url, tz=tz)
    app.known_tasks, app.payload_limit = named.tasks, named.payload_limit
    app.use_store(named.store)
    return app
