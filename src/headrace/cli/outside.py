"""`headrace log` and `headrace update`: add to jobs, in whatever state they are."""

from __future__ import annotations

import json
from typing import Any

import click

from headrace.cli.acts import report
from headrace.cli.options import Asked, common_options, each_once
from headrace.ops import act
from headrace.ops.selection import whole_ids


@click.command("log")
@click.argument("job", metavar="ID")
@click.argument("line", metavar="TEXT")
@common_options
def log_command(job: str, line: str, asked: Asked) -> None:
    """Add a line to the history of a job.

    In whatever state it is. 'headrace job ID' shows it, 'headrace events' tells it.

    \b
    Example:
      headrace log 01a1dd94962e700582fd831738a1847e 'the customer has called'
    """
    with asked.app() as app:
        acted = act.log(app, whole_ids(app, (job,)), line)
    report(acted, asked.as_json)


@click.command("update")
@click.argument("job", metavar="ID")
@click.argument("changes", metavar="[KEY=VALUE...]", nargs=-1)
@click.option("--remove", multiple=True, metavar="KEY", help="Remove this key. May be repeated.")
@common_options
def update_command(job: str, changes: tuple[str, ...], remove: tuple[str, ...], asked: Asked) -> None:
    """Change the data of a job.

    In whatever state it is; a run sees it from its next renewal on. A value is JSON if it can be read as such, else
    text. Other keys stay as they are, also if they change at the same time.

    \b
    Examples:
      headrace update 01a1dd94962e700582fd831738a1847e approved=true by=ada
      headrace update 01a1dd94962e700582fd831738a1847e --remove approved
    """
    if not changes and not remove:
        raise click.UsageError("What is to change? Say KEY=VALUE or --remove KEY.")
    with asked.app() as app:
        acted = act.update(app, whole_ids(app, (job,)), each_once(map(_pair, changes)), remove)
    report(acted, asked.as_json)


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="'KEY=VALUE'")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
