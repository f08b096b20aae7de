"""`headrace purge`: delete finished jobs before their time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.options import DURATION, FINISHED, existing_store, json_option, store_options, yes_option
from headrace.cli.output import progress, show_json
from headrace.ops.selection import delete_unneeded
from headrace.records import Filter, State
from headrace.store.paging import PAGE, PASSES, pages, whole_page
from headrace.values.text import length, now_ms

if TYPE_CHECKING:
    from headrace.store import Store


@click.command("purge")
@store_options
@json_option
@yes_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(FINISHED),
    help="Only these. May be repeated.  [default: done]",
)
@click.option("--older-than", type=DURATION, default=0, help="Finished at least so long ago, as in '7 days'.")
@click.option("--queue", help="Only of this queue.")
@click.option("--task", help="Only of this task, by its full name.")
def purge_command(
    store: str | None,
    app_path: str | None,
    as_json: bool,
    yes: bool,
    states: tuple[str, ...],
    older_than: int,
    queue: str | None,
    task: str | None,
) -> None:
    """Delete finished jobs.

    Asks first. Nothing that still has to run is ever deleted. A store gives up finished jobs by itself after some
    time; this is for those who cannot wait.

    \b
    Examples:
      headrace purge --older-than '1 day'
      headrace purge --state failed --state cancelled --queue mail --yes
    """
    wanted = Filter(states=tuple(State(state) for state in states or ("done",)), queue=queue, task=task, limit=PAGE)
    with existing_store(store, app_path) as opened:
        most = _at_most(opened, wanted)
        if not yes and most != 0:
            _ask(wanted, most, older_than)
        deleted, kept = _purge(opened, wanted, now_ms() - older_than, most) if most != 0 else (0, 0)
    if as_json:
        show_json({"deleted": deleted, "kept": kept})
    else:
        click.echo(f"{deleted:,} deleted." + (f" {kept:,} kept: other jobs wait for them." if kept else ""))


def _at_most(store: Store, wanted: Filter) -> int | None:
    """How many there are in these states; None if there are such as the store does not count."""
    counts = store.run(store.counts())
    most = 0
    for state in wanted.states:
        counted = sum(c.by_state.get(state, 0) for c in counts if wanted.queue in (None, c.queue))
        if not counted and whole_page(store, Filter(states=(state,), queue=wanted.queue, limit=1)).jobs:
            return None
        most += counted
    return most


def _ask(wanted: Filter, most: int | None, older_than: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody is there to be asked: add --yes.")
    which = f"{'all' if most is None else f'{most:,}'} {' and '.join(wanted.states)} jobs"
    if older_than:
        which = f"those of {which} that ended more than {length(older_than)} ago"
    if wanted.task is not None:
        which += f" (task {wanted.task} only)"
    click.confirm(f"Delete {which}?", abort=True, err=True)


def _purge(store: Store, wanted: Filter, before: int, most: int | None) -> tuple[int, int]:
    """How many are deleted, and how many kept because they are needed.

    Where a page is found by counting, those that go make others move up past it: it begins again until none go.
    """
    deleted = kept = 0
    with progress("deleting", most) as bar:
        for _ in range(PASSES):
            gone = kept = 0
            for jobs in pages(store, wanted):
                ids = [job.id for job in jobs if job.finished is not None and job.finished <= before]
                done = delete_unneeded(store, ids)
                gone += sum(done)
                kept += len(done) - sum(done)
                bar.advance(bar.task_ids[0], len(jobs))
            deleted += gone
            if not gone:
                break
    return deleted, kept
