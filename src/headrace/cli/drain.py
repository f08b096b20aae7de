"""`headrace drain`: move the jobs that wait to another store."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType

import click
from msgspec import to_builtins

from headrace.cli.options import app_at, app_option, existing_app, json_option, yes_option
from headrace.cli.output import count_of, progress, show_json, show_table
from headrace.ops import drain as ops
from headrace.ops.carrier import Left, Names


@click.command("drain")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--map", "tasks", multiple=True, metavar="TASK=NAME", help="Another name for a task at TO. Repeatable.")
@click.option("--map-queue", "queues", multiple=True, metavar="QUEUE=NAME", help="The same for a queue.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="At most so many jobs per second.")
@click.option("--follow", is_flag=True, help="Go on with what comes in, until Ctrl-C.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@app_option
@yes_option
@json_option
def drain_command(
    source: str,
    target: str,
    tasks: tuple[str, ...],
    queues: tuple[str, ...],
    rate: float | None,
    follow: bool,
    dry_run: bool,
    app_path: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Move the jobs that wait to another store.

    FROM and TO are URLs of stores or dialects. Jobs for now and for later move, and schedules. First comes a look at
    all jobs: what would be moved, and what can't be and why; then it asks. Jobs that come after others move with them.
    Jobs that run stay, with all that are related to them so: --follow waits for them.

    Ctrl-C ends it after the step that it is at; Ctrl-Z pauses it. Interrupted or killed, start it again: it goes on
    where it was.

    \b
    Examples:
      headrace drain qless+redis://localhost:6379/0 sqlite:///jobs.db --dry-run
      headrace drain sqlite:///jobs.db redis://localhost:6379/0 --map mail:send=shop:send_mail --yes
    """
    names = Names(_pairs("--map", tasks), _pairs("--map-queue", queues))
    with existing_app(source, app_path, with_tasks=True) as from_app, app_at(target) as to_app:
        to_app.tasks.update(from_app.tasks)  # wires that send arguments by position learn their names from tasks
        plan = ops.plan(from_app, to_app, names)
        if dry_run or not yes:
            _show_plan(plan, as_json=as_json and dry_run)
        if dry_run:
            return
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError("Nobody is there to be asked: add --yes.")
            click.confirm("Go on?", abort=True, err=True)
        with _until_interrupted() as stopped, progress("moving", plan.jobs) as bar:
            advance = partial(bar.advance, bar.task_ids[0])
            drained = ops.drain(
                from_app, to_app, names, rate=rate, follow=follow, advance=advance, stopped=lambda: bool(stopped)
            )
    if as_json:
        show_json(to_builtins(drained))
        return
    click.echo(f"{count_of(drained.jobs, 'job')} and {count_of(drained.schedules, 'schedule')} moved.")
    _show_left(drained.left)


def _pairs(flag: str, given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise click.UsageError(f"{flag} {text}: write it as OLD=NEW.")
        pairs[old] = new
    return pairs


def _show_plan(plan: ops.Plan, *, as_json: bool) -> None:
    if as_json:
        show_json(to_builtins(plan))
        return
    click.echo(f"{count_of(plan.jobs, 'job')} and {count_of(plan.schedules, 'schedule')} would be moved.")
    for warning in plan.warnings:
        click.echo(f"Note: {warning}", err=True)
    _show_left(plan.left)


def _show_left(left: Sequence[Left]) -> None:
    if left:
        click.echo("Not carried:")
        rows = [(f"{one.number:,}", one.example, one.why) for one in left]
        show_table(["number", "for example", "why"], rows, numbers="number", folds="why")


@contextmanager
def _until_interrupted() -> Iterator[list[bool]]:
    """Ctrl-C once: it is noted, and the step that is at work is finished. Twice: as usual."""
    noted: list[bool] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(True)
        signal.signal(signal.SIGINT, before)
        click.echo("\nEnding after this step. Ctrl-C again: now.", err=True)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
