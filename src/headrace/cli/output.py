"""What commands print: tables for people, JSON for programs. Nothing a job says reaches the terminal as it is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli import visible

if TYPE_CHECKING:
    from rich.progress import Progress

STYLES = {
    "scheduled": "cyan",
    "ready": "blue",
    "running": "yellow",
    "blocked": "magenta",
    "done": "green",
    "failed": "bold red",
    "cancelled": "dim",
    "alive": "green",
    "dead": "bold red",
}

UNLIMITED = 10_000
"""Columns of something that is no terminal: `headrace jobs | grep` must see whole names."""


class _Console(Console):
    """Leaves a closed pipe to `headrace.cli.main`, which takes it for the end of the reader's interest."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  (it is called where the exception is handled)


def is_piped(stream: TextIO | None = None) -> bool:
    """Whether a program reads it rather than a person. `$COLUMNS` asks for what a person would see."""
    return not (stream or sys.stdout).isatty() and "COLUMNS" not in os.environ


def console(*, error: bool = False) -> Console:
    """A console as wide as the terminal, or as `$COLUMNS` says."""
    stream = sys.stderr if error else sys.stdout
    width = UNLIMITED if is_piped(stream) else None
    return _Console(file=stream, width=width, highlight=False, soft_wrap=False, legacy_windows=False)


def show_json(document: Any, *, indent: int | None = 2) -> None:
    """One JSON document. Characters that a terminal would obey, or that are no text, are escaped."""
    click.echo(json_text(document, indent))


def say(document: Any, text: str, as_json: bool) -> None:
    """What a command has to say: in words, or as JSON for programs."""
    if as_json:
        show_json(document)
    else:
        click.echo(visible(text))


def json_text(document: Any, indent: int | None = None) -> str:
    """A JSON document in which everything can be seen.

    >>> print(json_text({"name": "café" + chr(0x9B) + chr(0x202E)}))
    {"name": "café\\u009b\\u202e"}
    """
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def show_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, whole: str = "", numbers: str = "", folds: str = ""
) -> None:
    """A table that fits: columns in `whole` are never cut, `numbers` stand to the right, those in `folds` wrap.

    Into a pipe go the same cells, separated by tabs.
    """
    if is_piped():
        for row in ([heading.upper() for heading in headings], *rows):
            click.echo("\t".join(cell(text).plain for text in row))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(
            Text(heading.upper(), overflow="ellipsis"),
            no_wrap=heading in whole.split(),  # rich makes the widest of the other columns narrower, and cuts none
            overflow="fold" if heading in folds.split() else "ellipsis",
            min_width=max((len(row[headings.index(heading)]) for row in rows), default=0)
            if heading in whole.split()
            else 1,
            justify="right" if heading in numbers.split() else "left",
        )
    for row in rows:
        cells = [cell(text) for text in row]
        for heading, shown in zip(headings, cells, strict=True):
            shown.no_wrap = heading not in folds.split()
        table.add_row(*cells)
    console().print(table)


def cell(text: str) -> Text:
    """Text for a table: no markup, no control characters, one line."""
    shown = visible(text).replace("\n", "↵")
    return Text(shown, style=STYLES.get(text, ""))


def show_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Names and values below each other; empty values are left out, long ones wrapped."""
    wide = max((len(name) for name, value in fields if value), default=0)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold", min_width=wide)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value:
            table.add_row(Text(name), Text(visible(value), style=STYLES.get(value, "")))
    shown = console()
    if not is_piped():
        shown.print(table)
        return
    with shown.capture() as captured:
        shown.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def progress(what: str, total: int | None) -> Progress:
    """A bar on standard error for long work; silent when nobody looks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    err = console(error=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    bar.add_task(what, total=total)
    return bar


def text_of(encoded: bytes | None) -> str:
    """What a job carries, for people."""
    return "" if encoded is None else encoded.decode(errors="backslashreplace")
