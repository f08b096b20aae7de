"""`headrace tag`, `tags`, `track` and `untrack`: words on jobs, and jobs to keep an eye on."""

from __future__ import annotations

import click
from msgspec import to_builtins

from headrace.cli.acts import report
from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json, show_table
from headrace.ops import act, look
from headrace.ops.selection import whole_ids


@click.command("tag")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@common_options
@click.option("--add", multiple=True, metavar="TAG", help="Put this word on them. May be repeated.")
@click.option("--remove", multiple=True, metavar="TAG", help="Take this word off them. May be repeated.")
def tag_command(ids: tuple[str, ...], asked: Asked, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
    """Add or remove tags.

    In whatever state a job is. 'headrace jobs --tag TAG' finds it.

    \b
    Example:
      headrace tag 01a1dd94962e700582fd831738a1847e --add urgent --remove later
    """
    if not add and not remove:
        raise click.UsageError("Which words? Say --add TAG or --remove TAG.")
    with asked.app() as app:
        acted = act.tag(app, whole_ids(app, ids), add, remove)
    report(acted, asked.as_json)


@click.command("tags")
@common_options
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
def tags_command(asked: Asked, limit: int) -> None:
    """List the most used tags.

    \b
    Example:
      headrace tags --limit 10
    """
    with asked.app() as app:
        found = look.tags(app, limit)
    if asked.as_json:
        show_json({"tags": to_builtins(found)})
    elif not found:
        click.echo("No tags.")
    else:
        show_table(("tag", "jobs"), [(one.tag, f"{one.jobs:,}") for one in found], whole="jobs", numbers="jobs")


@click.command("track")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@common_options
def track_command(ids: tuple[str, ...], asked: Asked) -> None:
    """Track jobs.

    'headrace jobs --tracked' lists them.

    \b
    Example:
      headrace track 01a1dd94962e700582fd831738a1847e
    """
    _track(ids, asked, True)


@click.command("untrack")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@common_options
def untrack_command(ids: tuple[str, ...], asked: Asked) -> None:
    """Stop tracking jobs.

    \b
    Example:
      headrace untrack 01a1dd94962e700582fd831738a1847e
    """
    _track(ids, asked, False)


def _track(ids: tuple[str, ...], asked: Asked, on: bool) -> None:
    with asked.app() as app:
        acted = act.track(app, whole_ids(app, ids), on)
    report(acted, asked.as_json)
