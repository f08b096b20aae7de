"""`headrace cancel`, `delete` and `revive`: act on jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from headrace.cli import exits
from headrace.cli.options import STATES, existing_store, json_option, store_options
from headrace.cli.output import show_json
from headrace.cli.selecting import Bounds, Filters, act_on_many, check_choice, many_options
from headrace.ops.selection import delete_unneeded, whole_ids
from headrace.records import Snapshot, State
from headrace.store import damaged
from headrace.store.limits import DEPENDENCY

if TYPE_CHECKING:
    pass


UNFINISHED = ("scheduled", "ready", "running", "blocked")


@click.command("cancel")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@store_options
@json_option
@many_options
def cancel_command(
    ids: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool, filters: Filters, bounds: Bounds
) -> None:
    """Cancel jobs.

    A job that waits is cancelled at once; one that runs is asked to stop. A cancelled job can be revived. With filters:
    all unfinished jobs that fit, after a question.

    \b
    Examples:
      headrace cancel 01a1dd94962e700582fd831738a1847e
      headrace cancel --queue mail --before '1 hour ago' --dry-run
    """
    check_choice(ids, filters)
    with existing_store(store, app_path) as opened:
        if filters.given:
            act_on_many(
                *(opened, filters.selection(opened, UNFINISHED), lambda many: opened.run(opened.cancel(many)), bounds),
                verb="cancel", done="cancelled", as_json=as_json,
            )  # fmt: skip
            return
        whole = whole_ids(opened, ids)
        done = opened.run(opened.cancel(whole))
        after = opened.run(opened.get(whole))
    outcomes: list[str] = []
    for success, job in zip(done, after, strict=True):
        if not success:
            outcomes.append("not found" if job is None else "done already")
        else:  # some dialects keep nothing of a cancelled job
            outcomes.append("told to stop" if job is not None and job.state is State.RUNNING else "cancelled")
    report(whole, outcomes, ("cancelled", "told to stop"), as_json)


@click.command("delete")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@store_options
@json_option
@many_options
def delete_command(
    ids: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool, filters: Filters, bounds: Bounds
) -> None:
    """Delete jobs and all trace of them.

    The run of a deleted job goes on, and its outcome is refused. With filters: all jobs that fit and do not run, after
    a question; running ones, too, with --state running.

    \b
    Examples:
      headrace delete 01a1dd94962e700582fd831738a1847e
      headrace delete --queue mail --yes
    """
    check_choice(ids, filters)
    with existing_store(store, app_path) as opened:
        if filters.given:
            at_rest = tuple(state for state in STATES if state != "running")
            act_on_many(
                *(opened, filters.selection(opened, at_rest), lambda many: delete_unneeded(opened, many), bounds),
                verb="delete", done="deleted", as_json=as_json,
            )  # fmt: skip
            return
        whole = whole_ids(opened, ids)
        done = opened.run(opened.delete(whole))
    report(whole, ["deleted" if success else "not found" for success in done], ("deleted",), as_json)


@click.command("revive")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@store_options
@json_option
@many_options
def revive_command(
    ids: tuple[str, ...], store: str | None, app_path: str | None, as_json: bool, filters: Filters, bounds: Bounds
) -> None:
    """Put failed or cancelled jobs back in line.

    They start anew, with their attempts and crashes at zero. With filters: all failed jobs that fit (cancelled ones
    with --state cancelled), after a question. Jobs that failed because of another job come back with that one; to
    revive them without it: --group dependency. A job is refused if another one has its unique key.

    \b
    Examples:
      headrace revive 01a1dd94962e700582fd831738a1847e
      headrace revive --group ConnectionError --queue mail --yes
    """
    check_choice(ids, filters)
    with existing_store(store, app_path) as opened:
        if filters.given:
            selection = filters.selection(opened, ("failed",))
            if filters.group is None:  # a job that failed because of another one comes back with that one
                selection = replace(selection, not_group=DEPENDENCY)
            act_on_many(
                *(opened, selection, lambda many: opened.run(opened.revive(many)), bounds),
                verb="revive", done="revived", as_json=as_json,
            )  # fmt: skip
            return
        whole = whole_ids(opened, ids)
        done = opened.run(opened.revive(whole))
        found = opened.run(opened.get(whole))
    outcomes = [
        "revived" if success else "not found" if job is None else _why_not_revived(job)
        for success, job in zip(done, found, strict=True)
    ]
    report(whole, outcomes, ("revived",), as_json)


def _why_not_revived(job: Snapshot) -> str:
    if job.state is State.FAILED and job.group == damaged.GROUP and not job.task:
        return "refused: it is damaged, and cannot be run"
    if job.state in (State.FAILED, State.CANCELLED):
        return "refused: another job has its unique key"
    return f"refused: it is {job.state}"


def report(ids: Sequence[str], outcomes: list[str], good: tuple[str, ...], as_json: bool) -> None:
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
