"""`headrace sql`: look at a SQLite or PostgreSQL store with SQL, safely beside everything that uses it."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json, show_table
from headrace.ops import look
from headrace.ops.documents import as_base64


@click.command("sql")
@click.argument("query")
@common_options
def sql_command(query: str, asked: Asked) -> None:
    """Look at a SQLite or PostgreSQL store with SQL.

    The views 'jobs' and 'schedules' are for people, and are kept stable. Nothing can be changed.

    \b
    Example:
      headrace sql "SELECT task, count(*) FROM jobs WHERE state = 'failed' GROUP BY task"
    """
    with asked.app() as app:
        found = look.sql(app, query)
    if asked.as_json:
        show_json({"rows": [dict(zip(found.columns, map(_json, row), strict=True)) for row in found.rows]})
    elif not found.rows:
        click.echo("No rows.")
    else:
        show_table(found.columns, [tuple(map(_text, row)) for row in found.rows])


def _json(value: Any) -> Any:
    return as_base64(value) if isinstance(value, bytes) else value


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return "" if value is None else str(value)
