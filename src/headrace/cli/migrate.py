"""`headrace migrate`: bring a store that an older version has written to the format of this one."""

from __future__ import annotations

import click

from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json
from headrace.ops.act import is_migrated_on_opening, migrate, schema_text
from headrace.store.urls import shown_url


@click.command("migrate")
@common_options
@click.option(
    "--sql", "as_sql", is_flag=True, help="Print the SQL that creates a PostgreSQL schema, and change nothing."
)
def migrate_command(asked: Asked, as_sql: bool) -> None:
    """Bring a store to the format of this version.

    On Redis, stop all workers first. Nothing else can use the namespace meanwhile; if this is killed, run it again. A
    SQLite file and a PostgreSQL schema are brought up to date when they are opened. The formats of dialects are not
    headrace's to change.

    \b
    Example:
      headrace migrate --store 'redis://localhost:6379/0?ns=shop'
    """
    if as_sql:
        from headrace.app import Headrace
        from headrace.loading import load_app

        url = load_app(asked.app_path).url if asked.app_path and not asked.store else Headrace(asked.store).url
        click.echo(f"BEGIN;\n{schema_text(url)}\nCOMMIT;")
        return
    with asked.app() as app:
        migrated = migrate(app)
        shown, by_opening = shown_url(app.url), is_migrated_on_opening(app.store)
    if asked.as_json:
        show_json({"migrated": migrated})
    elif migrated:
        click.echo(f"{shown} has been migrated.")
    elif by_opening:
        click.echo(f"{shown} has the format of this version: opening it brings it up to date.")
    else:
        click.echo(f"There is nothing to migrate in {shown}.")
