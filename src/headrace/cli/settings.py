"""`headrace settings`: numbers that all workers of a store go by."""

from __future__ import annotations

import click
from msgspec import to_builtins

from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json, show_table
from headrace.ops.settings import change, setting, settings
from headrace.store.settings import CONCURRENCY


@click.command("settings")
@click.argument("name", required=False)
@click.argument("value", required=False)
@common_options
@click.option("--queue", help="For this queue alone.")
@click.option("--unset", is_flag=True, help="Go back to the default.")
def settings_command(name: str | None, value: str | None, asked: Asked, queue: str | None, unset: bool) -> None:
    """Show and change what all workers of the store go by.

    They are kept in the store, and hold for all who use it, from now on. Workers read session-timeout when they start.

    \b
    Examples:
      headrace settings
      headrace settings jobs-history '3 days'
      headrace settings session-timeout 60s --queue reports
      headrace settings max-concurrency 4 --queue mail
      headrace settings jobs-history --unset
    """
    if name is None and queue is not None:
        raise click.UsageError("Which setting of this queue? There is session-timeout, and max-concurrency.")
    if unset and (name is None or value is not None):
        raise click.UsageError("Say which one to unset, without a value: headrace settings NAME --unset")
    wanted = name if name is None or queue is None else f"{name}:{queue}"
    if wanted == CONCURRENCY and (value is not None or unset):
        raise click.UsageError(f"{CONCURRENCY} is for one queue: add --queue.")
    with asked.app() as app:
        if wanted is not None and (value is not None or unset):
            change(app, wanted, value)
        entries = settings(app) if wanted is None else [setting(app, wanted)]
    if asked.as_json:
        show_json({"settings": to_builtins(entries)})
        return
    rows = [(entry.name, entry.text, "" if entry.set else "default", entry.meaning) for entry in entries]
    show_table(("name", "value", "", "meaning"), rows, whole="name value", folds="meaning")
