"""`headrace doctor` and `headrace health`: is all well?"""

from __future__ import annotations

from typing import Any

import click

from headrace.cli import exits, visible
from headrace.cli.options import DURATION, NAMES, Asked, common_options
from headrace.cli.output import show_fields, show_json
from headrace.ops.doctor import diagnose, health
from headrace.ops.documents import document


@click.command("doctor")
@common_options
@click.option("--repair", is_flag=True, help="First put right what can be put right without harm, and say what.")
@click.option(
    "--orphan-after",
    type=DURATION,
    metavar="DURATION",
    help="With --repair: also put back jobs that other implementations took this long ago and never finished.",
)
@click.option("--alone", is_flag=True, help="With --repair: no other implementation runs; its marks are left-overs.")
def doctor_command(asked: Asked, repair: bool, orphan_after: int | None, alone: bool) -> None:
    """Examine the store and say what is wrong.

    What it promises, how big it is, who works on it. Exit code 1 when something needs attention: workers that are dead
    or silent, queues that no worker listens to, tasks that no worker knows, jobs that wait for failed ones or for more
    than a minute, schedules that are behind, a disk or server that is nearly full, clocks that differ, damaged jobs,
    and what a server's settings put at risk.

    \b
    Examples:
      headrace doctor --store sqlite:////var/lib/shop/jobs.db
      headrace doctor --store gearmonkey+redis://localhost/0 --repair --orphan-after 1h
    """
    with asked.app() as app:
        seconds = None if orphan_after is None else orphan_after / 1000
        found = diagnose(app, repair=repair, orphan_after=seconds, alone=alone)
    facts = document(found)
    if asked.as_json:
        show_json(facts)
    else:
        _show(facts)
    if not found.ok:
        click.get_current_context().exit(exits.NOT_DONE)


def _show(facts: dict[str, Any]) -> None:
    repaired, problems = facts.pop("repaired", ()), facts.pop("problems")
    facts.pop("ok")
    show_fields([(name.replace("_", " "), _words(value)) for name, value in facts.items()])
    click.echo()
    for sentence in repaired:
        click.secho(f"+ {visible(sentence)}", fg="green")
    for problem in problems:
        click.secho(f"! {visible(problem)}", fg="red")
    if not problems:
        click.secho("All is well.", fg="green")


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{number:,} {name}" for name, number in value.items() if number) or "none"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


@click.command("health")
@common_options
@click.option("--queues", type=NAMES, help="Only a worker that listens to all of these counts.")
def health_command(asked: Asked, queues: tuple[str, ...] | None) -> None:
    """For container health checks: is a worker of this host alive?

    Exit code 0 if one is, 1 if not, 3 if the store cannot be asked.

    \b
    Example (Dockerfile):
      HEALTHCHECK CMD headrace health --store sqlite:////data/jobs.db
    """
    with asked.app() as app:
        found = health(app, queues or ())
    if asked.as_json:
        show_json(document(found))
    elif found.healthy:
        click.echo(f"healthy: {', '.join(sorted({worker.name for worker in found.workers}))}")
    else:
        click.echo("unhealthy: no live worker of this host" + (f" listens to {', '.join(queues)}" if queues else ""))
    if not found.healthy:
        click.get_current_context().exit(exits.NOT_DONE)
