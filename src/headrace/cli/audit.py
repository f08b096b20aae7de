"""`headrace audit`: what operators have done."""

from __future__ import annotations

import click
from msgspec import to_builtins

from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json, show_table
from headrace.ops.audit import trail


@click.command("audit")
@common_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many acts.")
@click.option("--before", metavar="NUMBER", help="Acts before the one with this number.")
def audit_command(asked: Asked, limit: int, before: str | None) -> None:
    """Show what operators have done, the newest first.

    Every command that acts leaves a line: who, what, about which jobs, queue, schedule or setting, and what changed
    from what to what. The last 10,000 are kept. Who it was is --by, $HEADRACE_OPERATOR, or the user and the machine.

    \b
    Example:
      headrace audit --limit 10
    """
    with asked.app() as app:
        lines = trail(app, limit, before)
    if asked.as_json:
        show_json({"acts": to_builtins(lines)})
        return
    if not lines:
        click.echo("No acts.")
        return
    rows = [(line.number, line.at, line.who, line.what, line.about) for line in lines]
    show_table(("number", "when", "who", "what", "about"), rows, whole="when what", folds="about")
