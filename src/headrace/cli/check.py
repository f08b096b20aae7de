"""`headrace check`: can this code run the jobs that wait?"""

from __future__ import annotations

from functools import partial

import click

from headrace.cli import exits, visible
from headrace.cli.options import Asked, json_option, only_store_option, required_path
from headrace.cli.output import progress, show_json, show_table
from headrace.editing import WAITING
from headrace.ops import act
from headrace.ops import check as ops
from headrace.ops.documents import document
from headrace.records import Filter
from headrace.values.text import count_of


@click.command("check")
@click.argument("app_path", metavar="[APP]", envvar="HEADRACE_APP", required=False)
@only_store_option
@click.option("--all", "everything", is_flag=True, help="Also jobs that run, and failed or cancelled ones.")
@json_option
def check_command(app_path: str | None, store: str | None, everything: bool, as_json: bool) -> None:
    """Check that the code to be deployed can run the jobs that wait.

    It imports APP (module:app; without it, $HEADRACE_APP says it, else [tool.headrace] in pyproject.toml), decodes the
    arguments of all jobs that wait, and of schedules, as a worker with this code would, and lists by task what would
    fail, why, and an example. Tasks that the app does not have are listed, too. Nothing is
    changed. Schedules that the code declares are left out: its workers store them anew.

    Exit code 0 if all would run, 1 if something would fail, 78 if the app cannot be imported, 3 if the store cannot be
    asked.

    \b
    Examples:
      headrace check shop.tasks:app
      headrace check shop.tasks:app --store postgresql://db/shop --all --json
    """
    app_path = required_path(app_path, "Write headrace check module:app")
    states = (*WAITING, *ops.AGAIN) if everything else WAITING
    with (
        Asked(store, app_path).app(with_tasks=True) as app,
        progress("checking", act.count_at_most(app, Filter(states=states))) as bar,
    ):
        found = ops.check(app, states=states, advance=partial(bar.advance, bar.task_ids[0]))
    if as_json:
        show_json(document(found))
    else:
        _show(found)
    if not found.ok:
        click.get_current_context().exit(exits.NOT_DONE)


def _show(found: ops.Checked) -> None:
    if found.misfits:
        headings = ("what", "task", "count", "example", "why")
        rows = [(each.what, each.task, f"{each.count:,}", each.example, each.why) for each in found.misfits]
        show_table(headings, rows, whole="what count example", numbers="count", folds="why")
        click.echo()
    for sentence in found.left_out:
        click.echo(f"Not checked: {visible(sentence)}", err=True)
    checked = f"{count_of(found.jobs, 'job')} and {count_of(found.schedules, 'schedule')}"
    wrong = sum(each.count for each in found.misfits)
    if wrong:
        click.secho(f"{wrong:,} of {checked} would fail with this code.", fg="red")
    else:
        click.secho(f"{checked} checked: this code can run all of them.", fg="green")
