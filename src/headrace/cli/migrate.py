"""`headrace migrate`: create a store, or print the SQL that does."""

from __future__ import annotations

import click

from headrace.cli.options import Asked, app_at, common_options
from headrace.cli.output import show_json
from headrace.ops.act import create_store, schema_text
from headrace.store.urls import shown_url


@click.command("migrate")
@common_options
@click.option(
    "--sql", "as_sql", is_flag=True, help="Print the SQL that creates a PostgreSQL schema, and change nothing."
)
def migrate_command(asked: Asked, as_sql: bool) -> None:
    """Create a store, or print the SQL that does.

    A store that is there is checked and left as it is. One of another version is refused: there is no way from one
    version's format to the next before headrace 1.0. A Redis namespace needs no preparation.

    \b
    Examples:
      headrace migrate --store 'postgresql://localhost/db?schema=shop'
      headrace migrate --sql --store 'postgresql://localhost/db?schema=shop' | psql db
    """
    from headrace.app import Headrace

    named = None if asked.store else asked.named_app()
    url = Headrace(asked.store).url if named is None else named.url
    if as_sql:
        click.echo(f"BEGIN;\n{schema_text(url)}\nCOMMIT;")
        return
    with app_at(url) as app:
        create_store(app)
        shown = shown_url(app.url)
    if asked.as_json:
        show_json({"store": shown})
    else:
        click.echo(f"{shown} is ready: its format is that of this version.")
