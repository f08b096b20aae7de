"""`headrace copy`: a store as a file, and back."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import click
from msgspec import to_builtins

from headrace.cli.options import Asked, app_at, json_option
from headrace.cli.output import progress, say, show_json
from headrace.ops import act
from headrace.ops import copy as ops
from headrace.records import Filter, State
from headrace.values.text import count_of


@click.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--overwrite", is_flag=True, help="Replace the file TO if there is one.")
@json_option
def copy_command(source: str, target: str, overwrite: bool, as_json: bool) -> None:
    """Copy a store into a file, a file into a store, or one store into another.

    FROM and TO are URLs of native stores, names of files, or - for standard input and output. A copy has jobs of all
    states, schedules, limits and pauses of queues, and settings. Jobs that run come in as jobs that wait. Ids are kept:
    what is there already is left as it is, so that a copy that was interrupted can be started again.

    Stop the workers of FROM first, or jobs that they run meanwhile run again at TO.

    \b
    Examples:
      headrace copy sqlite:///jobs.db backup.jsonl
      headrace copy backup.jsonl postgresql://localhost/shop
      headrace copy sqlite:///jobs.db redis://localhost:6379/0
    """
    if not (_is_store(source) or _is_store(target)):
        raise click.UsageError("Neither of the two is the URL of a store.")
    with _file_from(source) as file:
        if _is_store(target):
            _load(file, target, as_json)
        else:
            _save(file, target, overwrite=overwrite, as_json=as_json)


def _is_store(place: str) -> bool:
    return ":" in place and not Path(place).exists()


@contextmanager
def _file_from(source: str) -> Iterator[IO[bytes]]:
    """What a store or a pipe has, in a file for as long as it is needed; or the file itself."""
    if source != "-" and not _is_store(source):
        try:
            file = Path(source).open("rb")  # noqa: SIM115
        except OSError as error:
            raise click.UsageError(f"{source} can't be read: {error.strerror}.") from None
        with file:
            yield file
        return
    with tempfile.TemporaryFile() as spooled:
        if source == "-":
            shutil.copyfileobj(sys.stdin.buffer, spooled)
        else:
            with (
                Asked(source).app() as app,
                progress("reading", act.count_at_most(app, Filter(states=tuple(State)))) as bar,
            ):
                ops.save(app, spooled, partial(bar.advance, bar.task_ids[0]))
        spooled.seek(0)
        yield spooled


def _save(file: IO[bytes], target: str, *, overwrite: bool, as_json: bool) -> None:
    """The file gets its name when all of it is there."""
    if target == "-":
        shutil.copyfileobj(file, sys.stdout.buffer)
        return
    path = Path(target)
    if path.exists() and not overwrite:
        raise click.UsageError(f"{target} is there already: add --overwrite to replace it.")
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as copied:
        shutil.copyfileobj(file, copied)
        copied.flush()
        os.fsync(copied.fileno())
    part.replace(path)
    size = path.stat().st_size
    say({"file": target, "bytes": size}, f"{target} has been written: {size:,} bytes.", as_json)


def _load(file: IO[bytes], target: str, as_json: bool) -> None:
    with app_at(target) as app, progress("writing", None) as bar:
        loaded = ops.load(app, file, partial(bar.advance, bar.task_ids[0]))
    if as_json:
        show_json(to_builtins(loaded))
        return
    copied = f"{count_of(loaded.jobs, 'job')} and {count_of(loaded.schedules, 'schedule')}"
    click.echo(f"{copied} copied; {loaded.there:,} were there already.")
    for what, why in loaded.refused:
        click.echo(f"not carried: {what}: {why}", err=True)
