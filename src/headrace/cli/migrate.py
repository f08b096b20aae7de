"""`headrace migrate`: bring a store that an older version has written to the format of this one."""

from __future__ import annotations

import click

from headrace.cli.options import existing_app, json_option, store_options
from headrace.cli.output import show_json
from headrace.ops.act import migrate
from headrace.store.urls import file_of, shown_url


@click.command("migrate")
@store_options
@json_option
def migrate_command(store: str | None, app_path: str | None, as_json: bool) -> None:
    """Bring a store to the format of this version.

    On Redis, stop all workers first. Nothing else can use the namespace meanwhile; if this is killed, run it again. A
    SQLite file is brought up to date when it is opened. The formats of dialects are not headrace's to change.

    \b
    Example:
      headrace migrate --store 'redis://localhost:6379/0?ns=shop'
    """
    with existing_app(store, app_path) as app:
        migrated = migrate(app)
        shown, in_file = shown_url(app.url), file_of(app.url) is not None
    if as_json:
        show_json({"migrated": migrated})
    elif migrated:
        click.echo(f"{shown} has been migrated.")
    elif in_file:
        click.echo(f"{shown} has the format of this version: opening a file brings it up to date.")
    else:
        click.echo(f"There is nothing to migrate in {shown}.")
