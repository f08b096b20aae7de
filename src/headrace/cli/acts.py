"""`headrace cancel`, `delete`, `revive`, `requeue` and `take-back`: act on jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import to_builtins

from headrace.cli import exits, visible
from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json
from headrace.cli.selecting import Bounds, act_on_many, check_choice, many_options
from headrace.ops import act
from headrace.ops.selection import Selection, whole_ids

if TYPE_CHECKING:
    from headrace.ops.act import Acted, Verb
    from headrace.ops.schedules import ScheduleActed

F = TypeVar("F", bound=Callable[..., Any])


def acting_command(name: str) -> Callable[[F], click.Command]:
    """A command on jobs that are named by their ids, or by filters."""

    def decorate(function: F) -> click.Command:
        command = common_options(many_options(function))
        return click.command(name)(click.argument("ids", metavar="[ID...]", nargs=-1)(command))

    return decorate


@acting_command("cancel")
def cancel_command(**given: Any) -> None:
    """Cancel jobs.

    A job that waits is cancelled at once; one that runs is asked to stop. A cancelled job can be revived. With filters:
    all unfinished jobs that fit, after a question.

    \b
    Examples:
      headrace cancel 01a1dd94962e700582fd831738a1847e
      headrace cancel --queue mail --before '1 hour ago' --dry-run
    """
    _act(act.CANCEL, **given)


@acting_command("delete")
def delete_command(**given: Any) -> None:
    """Delete jobs and all trace of them.

    The run of a deleted job goes on, and its outcome is refused. With filters: all jobs that fit and do not run, after
    a question; running ones, too, with --state running.

    \b
    Examples:
      headrace delete 01a1dd94962e700582fd831738a1847e
      headrace delete --queue mail --yes
    """
    _act(act.DELETE if given["ids"] else act.DELETE_UNNEEDED, **given)


to_option = click.option("--to", metavar="QUEUE", help="Put them into the line of this queue.")


@acting_command("revive")
@to_option
def revive_command(to: str | None, **given: Any) -> None:
    """Put failed or cancelled jobs back in line.

    They start anew, with their attempts and crashes at zero. They run now, also those that were cancelled before the
    time that they were scheduled for. With filters: all failed jobs that fit (cancelled ones with --state cancelled),
    after a question. Jobs that failed because of another job come back with that one; to revive them without it:
    --group dependency. A job is refused if another one has its unique key. --limit takes the oldest.

    \b
    Examples:
      headrace revive 01a1dd94962e700582fd831738a1847e
      headrace revive --group ConnectionError --queue mail --yes
      headrace revive --group ConnectionError --limit 100 --to mail-slow
    """
    _act(act.REVIVE if to is None else act.revive_to(to), **given)


@acting_command("requeue")
@to_option
def requeue_command(to: str | None, **given: Any) -> None:
    """Run jobs again that are done.

    They start anew, and what they returned is forgotten. Jobs that came after them have run, and stay as they are. With
    filters: all done jobs that fit, after a question. A job is refused if another one has its unique key. --limit takes
    the oldest.

    \b
    Examples:
      headrace requeue 01a1dd94962e700582fd831738a1847e
      headrace requeue --task reports:nightly --after yesterday --yes
    """
    _act(act.requeue(to), **given)


def _act(verb: Verb, ids: tuple[str, ...], asked: Asked, selection: Selection, bounds: Bounds) -> None:
    check_choice(ids, selection)
    with asked.app() as app:
        if not ids:
            act_on_many(app, verb, selection, bounds, asked.as_json)
            return
        acted = act.to_jobs(app, verb, whole_ids(app, ids))
    report(acted, asked.as_json)


@click.command("take-back")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@to_option
@common_options
def take_back_command(ids: tuple[str, ...], to: str | None, asked: Asked) -> None:
    """Take running jobs away from their workers.

    They go back in line. No attempt is spent. The worker stops its run, and the outcome of that does not count.

    \b
    Examples:
      headrace take-back 01a1dd94962e700582fd831738a1847e
      headrace take-back 01a1dd94962e700582fd831738a1847e --to slow
    """
    with asked.app() as app:
        acted = act.to_jobs(app, act.take_back(to), whole_ids(app, ids))
    report(acted, asked.as_json)


def report(acted: Sequence[Acted | ScheduleActed], as_json: bool, key: str = "jobs") -> None:
    """What became of each; exit code 1 if that is not what was asked for."""
    if as_json:
        show_json({key: to_builtins(acted)})
    else:
        for one in acted:
            name = one.id if isinstance(one, act.Acted) else one.name
            click.echo(visible(f"{name}  {one.outcome}"), err=not one.ok)
    if not all(one.ok for one in acted):
        click.get_current_context().exit(exits.NOT_DONE)
