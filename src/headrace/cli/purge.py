"""`headrace purge`: delete finished jobs before their time."""

from __future__ import annotations

from functools import partial

import click
from msgspec import to_builtins

from headrace.cli.options import DURATION, Asked, common_options, confirm, yes_option
from headrace.cli.output import progress, say
from headrace.ops import act
from headrace.records import Filter, State
from headrace.values.text import length, now_ms


@click.command("purge")
@common_options
@yes_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([str(state) for state in State if state.final]),
    help="Only these. May be repeated.  [default: done]",
)
@click.option("--older-than", type=DURATION, default=0, help="Finished at least so long ago, as in '7 days'.")
@click.option("--queue", help="Only of this queue.")
@click.option("--task", help="Only of this task, by its full name.")
def purge_command(
    asked: Asked, yes: bool, states: tuple[str, ...], older_than: int, queue: str | None, task: str | None
) -> None:
    """Delete finished jobs.

    Asks first. Nothing that still has to run is ever deleted. A store gives up finished jobs by itself after some
    time; this command does it now.

    \b
    Examples:
      headrace purge --older-than '1 day'
      headrace purge --state failed --state cancelled --queue mail --yes
    """
    wanted = Filter(states=tuple(State(state) for state in states or ("done",)), queue=queue, task=task)
    with asked.app() as app:
        most = act.count_at_most(app, wanted)
        purged = act.Purged(0, 0)
        if most != 0:
            confirm(_question(wanted, most, older_than), yes)
            with progress("deleting", most) as bar:
                advance = partial(bar.advance, bar.task_ids[0])
                purged = act.purge(app, wanted, now_ms() - older_than, advance=advance)
    kept = f" {purged.kept:,} kept: other jobs wait for them." if purged.kept else ""
    say(to_builtins(purged), f"{purged.deleted:,} deleted.{kept}", asked.as_json)


def _question(wanted: Filter, most: int | None, older_than: int) -> str:
    which = f"{'all' if most is None else f'{most:,}'} {' and '.join(wanted.states)} jobs"
    if older_than:
        which = f"those of {which} that ended more than {length(older_than)} ago"
    if wanted.task is not None:
        which += f" (task {wanted.task} only)"
    return f"Delete {which}?"
