"""`headrace cancel`, `delete` and `revive`: act on jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import exits
from headrace.cli.options import existing_store, json_option, store_options
from headrace.cli.output import progress, show_json
from headrace.job import Filter, State
from headrace.store.facets import SEARCH, Tags, facet
from headrace.store.paging import PAGE, PASSES, pages

if TYPE_CHECKING:
    from headrace.store import Store


@click.command("cancel")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@store_options
@json_option
def cancel_command(ids: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool) -> None:
    """Cancel jobs.

    One that waits is cancelled at once; one that runs is told to stop. A cancelled job can be revived.

    \b
    Example:
      headrace cancel 01a1dd94962e700582fd831738a1847e
    """
    with existing_store(store, app_path) as opened:
        done = opened.run(opened.cancel(ids))
        after = opened.run(opened.get(ids))
    outcomes: list[str] = []
    for success, job in zip(done, after, strict=True):
        if not success:
            outcomes.append("not found" if job is None else "done already")
        else:  # some dialects keep nothing of a cancelled job
            outcomes.append("told to stop" if job is not None and job.state is State.RUNNING else "cancelled")
    report(ids, outcomes, ("cancelled", "told to stop"), as_json)


@click.command("delete")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@store_options
@json_option
def delete_command(ids: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool) -> None:
    """Delete jobs and all trace of them.

    One that runs goes on in vain: what it returns is refused.

    \b
    Example:
      headrace delete 01a1dd94962e700582fd831738a1847e
    """
    with existing_store(store, app_path) as opened:
        done = opened.run(opened.delete(ids))
    report(ids, ["deleted" if success else "not found" for success in done], ("deleted",), as_json)


@click.command("revive")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@store_options
@json_option
@click.option("--group", help="All failed in this group (see 'headrace failures').")
@click.option("--task", help="All failed ones of this task, by its full name.")
@click.option("--task-like", metavar="GLOB", help="All failed ones of tasks whose names fit.")
@click.option("--queue", help="All failed ones of this queue.")
@click.option("--tag", help="All failed ones with this tag.")
def revive_command(
    ids: tuple[str, ...],
    store: str | None,
    app_path: str | None,
    as_json: bool,
    group: str | None,
    task: str | None,
    task_like: str | None,
    queue: str | None,
    tag: str | None,
) -> None:
    """Put failed or cancelled jobs back in line.

    They start anew, with their attempts and crashes at zero. With --group, --task, --task-like, --queue or --tag: all
    failed jobs that fit all of these.

    \b
    Examples:
      headrace revive 01a1dd94962e700582fd831738a1847e
      headrace revive --group ConnectionError --queue mail
    """
    by_filter = any(value is not None for value in (group, task, task_like, queue, tag))
    if bool(ids) == by_filter:
        raise click.UsageError("Which jobs? Give their ids, or --group, --task, --task-like, --queue or --tag.")
    with existing_store(store, app_path) as opened:
        if by_filter:
            if task_like is not None or tag is not None:
                facet(opened, Tags, SEARCH)
            wanted = Filter(
                states=(State.FAILED,), group=group, task=task, task_like=task_like, queue=queue, tag=tag, limit=PAGE
            )
            revived, refused = _revive_all(opened, wanted)
            _report_many(revived, refused, as_json)
            return
        done = opened.run(opened.revive(ids))
        found = opened.run(opened.get(ids))
    outcomes = [
        "revived" if success else "not found" if job is None else _why_not_revived(job.state)
        for success, job in zip(done, found, strict=True)
    ]
    report(ids, outcomes, ("revived",), as_json)


def _why_not_revived(state: State) -> str:
    if state in (State.FAILED, State.CANCELLED):
        return "refused: another job has its unique key"
    return f"refused: it is {state}"


def _revive_all(store: Store, wanted: Filter) -> tuple[int, int]:
    counts = store.run(store.counts())
    most = sum(c.by_state.get(State.FAILED, 0) for c in counts if wanted.queue in (None, c.queue))
    revived = refused = 0
    with progress("reviving", most) as bar:
        # Where a page is found by counting, those that are revived make others move up past it: it begins again until
        # there is none that was not met. (Each time half of them go, at least; others may fail meanwhile, without end.)
        # One that fails again is not met twice.
        met: set[str] = set()
        for _ in range(PASSES):
            before = len(met)
            for jobs in pages(store, wanted):
                ids = [job.id for job in jobs if job.id not in met]
                done = store.run(store.revive(ids)) if ids else []
                met.update(ids)
                revived += sum(done)
                refused += len(done) - sum(done)
                bar.advance(bar.task_ids[0], len(ids))
            if len(met) == before:
                break
    return revived, refused


def _report_many(revived: int, refused: int, as_json: bool) -> None:
    if as_json:
        show_json({"revived": revived, "refused": refused})
    else:
        text = "No failed jobs fit." if not revived + refused else f"{revived:,} revived."
        click.echo(text + (f" {refused:,} refused: other jobs have their unique keys." if refused else ""))
    if not revived:
        click.get_current_context().exit(exits.NOT_DONE)


def report(ids: tuple[str, ...], outcomes: list[str], good: tuple[str, ...], as_json: bool) -> None:
    """What became of each; exit code 1 if that is not what was asked for."""
    from headrace.cli import visible

    if as_json:
        pairs = zip(ids, outcomes, strict=True)
        show_json({"jobs": [{"id": i, "ok": outcome in good, "outcome": outcome} for i, outcome in pairs]})
    else:
        for job_id, outcome in zip(ids, outcomes, strict=True):
            click.echo(f"{visible(job_id)}  {outcome}", err=outcome not in good)
    if not all(outcome in good for outcome in outcomes):
        click.get_current_context().exit(exits.NOT_DONE)


def tell_of_strangers(store: Store, parents: tuple[str, ...]) -> None:
    """Say which of the jobs that others are to come after are not there: they may be long done, or misspelt."""
    from headrace.cli import visible

    found = store.run(store.get(parents)) if parents else []
    for job_id, job in zip(parents, found, strict=True):
        if job is None:
            click.echo(f"{visible(job_id)} is not known here: nothing waits for it.", err=True)
