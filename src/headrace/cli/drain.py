"""`headrace drain`: move the jobs that wait to another store."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from headrace.cli import exits
from headrace.cli.options import Asked, app_at, app_option, confirm, json_option, yes_option
from headrace.cli.output import progress, show_json, show_table
from headrace.ops import drain as ops
from headrace.ops.carrier import Names
from headrace.values.text import count_of, iso

if TYPE_CHECKING:
    from rich.progress import Progress


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
    Jobs that run stay, with all that are related to them so: --follow waits for them. Jobs of paused queues and of
    blocked tasks wait at TO too: these are paused and blocked there first. Where TO can't, such jobs stay. GearMonkey,
    hworker and WorkKit have arguments without names: name the app whose tasks say them with --app.

    Ctrl-C ends it after the step that it is at; Ctrl-Z pauses it there, and fg goes on. Interrupted or killed, start it
    again with the same URLs: it goes on where it was. Exit code 1: something stays at FROM.

    \b
    Examples:
      headrace drain qless+redis://localhost:6379/0 sqlite:///jobs.db --dry-run
      headrace drain sqlite:///jobs.db redis://localhost:6379/0 --map mail:send=shop:send_mail --yes
    """
    names = Names(_pairs("--map", tasks), _pairs("--map-queue", queues))
    with Asked(source, app_path).app(with_tasks=True) as from_app, app_at(target) as to_app:
        _share_tasks(from_app.tasks, to_app.tasks, names.tasks)
        plan = ops.plan(from_app, to_app, names)
        if dry_run or not yes:
            _show_plan(plan, as_json=as_json and dry_run)
        if dry_run:
            sys.exit(_exit_code(plan))
        confirm("Go on?", yes)
        with progress("moving", plan.jobs) as bar, _heeding_signals(bar) as is_interrupted:
            advance = partial(bar.advance, bar.task_ids[0])
            drained = ops.drain(
                from_app, to_app, names, rate=rate, follow=follow, advance=advance, stopped=is_interrupted
            )
    if as_json:
        show_json(to_builtins(drained))
    else:
        click.echo(f"{count_of(drained.jobs, 'job')} and {count_of(drained.schedules, 'schedule')} moved.")
        _show_held(drained)
        _show_rest(drained)
    sys.exit(exits.INTERRUPTED if is_interrupted() and not follow else _exit_code(drained))


def _share_tasks(here: dict[str, Any], there: dict[str, Any], names: Mapping[str, str]) -> None:
    """Tell both stores of the app's tasks, by the names that each has for them: wires without names of arguments learn
    these from tasks."""
    there.update({names.get(name, name): task for name, task in here.items()})
    here.update({old: here[new] for old, new in names.items() if new in here and old not in here})


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
    _show_held(plan)
    _show_rest(plan)


def _show_held(found: ops.Drained) -> None:
    """What waits at the target, as it did at the source."""
    if found.held:
        click.echo("Held back at the target, as at the source:")
        rows = [
            (f"{one.what} {one.name}", f"{one.how} by {one.by}" if one.by else one.how, one.reason, one.until)
            for one in found.held
        ]
        show_table(["what", "how", "why", "until"], rows, folds="why")


def _show_rest(found: ops.Drained) -> None:
    """What stays at the source."""
    if found.left:
        click.echo("Not carried:")
        rows = [(f"{one.number:,}", one.example, one.why) for one in found.left]
        show_table(["number", "for example", "why"], rows, numbers="number", folds="why")
    if found.running.number:
        since = "" if found.running.since is None else f", since {iso(found.running.since)}"
        until = "" if found.running.until is None else f", with leases until {iso(found.running.until)}"
        click.echo(
            f"Running at the source{since}{until}: {count_of(found.running.number, 'job')}. What runs stays. A job "
            "whose worker has died, or whose drain was killed, comes back when its lease runs out: start the drain "
            "again then, or use --follow, which waits."
        )


def _exit_code(found: ops.Drained) -> int:
    return exits.NOT_DONE if found.left or found.running.number else exits.OK


@contextmanager
def _heeding_signals(bar: Progress) -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C and Ctrl-Z. What is yielded is called between steps: it pauses there, and says whether to end.

    A second Ctrl-C, or Ctrl-Z, acts at once, as usual.
    """
    noted: set[int] = set()
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTSTP)}
    words = {
        signal.SIGINT: "Ending after this step. Ctrl-C again: now.",
        signal.SIGTSTP: "Pausing after this step. Ctrl-Z again: now.",
    }

    def note(number: int, frame: FrameType | None) -> None:
        noted.add(number)
        signal.signal(number, usual[signal.Signals(number)])
        click.echo(f"\n{words[signal.Signals(number)]}", err=True)

    def is_interrupted() -> bool:
        if signal.SIGTSTP in noted:
            noted.remove(signal.SIGTSTP)
            bar.stop()
            os.kill(os.getpid(), signal.SIGSTOP)  # goes on with SIGCONT
            bar.start()
            signal.signal(signal.SIGTSTP, note)
        return signal.SIGINT in noted

    for number in usual:
        signal.signal(number, note)
    try:
        yield is_interrupted
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
