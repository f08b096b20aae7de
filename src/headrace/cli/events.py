"""`headrace events`: what happens to jobs, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import visible
from headrace.cli.options import DURATION, Asked, common_options
from headrace.cli.output import STYLES, show_json
from headrace.errors import ConfigurationError
from headrace.ops.documents import epoch_ms
from headrace.ops.selection import whole_ids
from headrace.values.text import iso

if TYPE_CHECKING:
    from headrace.events import Events


@click.command("events")
@common_options
@click.option("--job", metavar="ID", help="Only of this job.")
@click.option("--queue", metavar="GLOB", help="Only of these queues.")
@click.option("--task", metavar="GLOB", help="Only of these tasks, as in 'shop.mail:*'.")
@click.option("--what", metavar="WORD,...", help="Only these, as in failed,retried.")
@click.option("--tracked", is_flag=True, help="Only of tracked jobs.")
@click.option("--timeout", type=DURATION, help="End after so long without an event, as in 10s.")
def events_command(
    asked: Asked,
    job: str | None,
    queue: str | None,
    task: str | None,
    what: str | None,
    tracked: bool,
    timeout: int | None,
) -> None:
    """Tell what happens to jobs, as it happens.

    One line per event, until Ctrl-C: time, what, job, task, queue, worker, and a few words more. With --json each line
    is a JSON document. A line "missed" says that some were lost, because the reader was slow or the store was away.

    \b
    Examples:
      headrace events --what failed,retried --queue 'mail*'
      headrace events --json | jq .job
    """
    kinds, seconds = None if what is None else what.split(","), None if timeout is None else timeout / 1000
    with asked.app() as app:
        try:
            job = None if job is None else whole_ids(app, [job])[0]
            following = app.events(job=job, queue=queue, task=task, what=kinds, tracked=tracked, timeout=seconds)
        except ConfigurationError as error:
            raise click.BadParameter(str(error), param_hint="--what") from None
        with following as events:
            _show(events, asked.as_json)


def _show(events: Events, as_json: bool) -> None:
    for event in events:
        if as_json:
            show_json({**event._asdict(), "at": iso(epoch_ms(event.at))}, indent=None)
            continue
        shown = click.style(f"{event.what:<10}", fg=_COLOURS.get(event.what))
        words = (event.job, event.task, event.queue, event.worker, event.detail)
        rest = "  ".join(visible(word).replace("\n", "↵") for word in words if word)
        at = event.at.astimezone()
        click.echo(f"{at:%H:%M:%S.%f}"[:12] + f" {at:%Z}  {shown}  {rest}")


_COLOURS = {name: style.split()[-1] for name, style in STYLES.items() if style != "dim"}
