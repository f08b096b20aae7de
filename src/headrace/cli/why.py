"""`headrace why`: one sentence on why a job is not running, or what became of it."""

from __future__ import annotations

import click

from headrace.cli.options import Asked, common_options
from headrace.cli.output import say
from headrace.ops.selection import find_job
from headrace.ops.why import why


@click.command("why")
@click.argument("job_id", metavar="ID")
@common_options
def why_command(job_id: str, asked: Asked) -> None:
    """Say why a job is not running, or what became of it.

    \b
    Example:
      headrace why 01a1dd94962e700582fd831738a1847e
      ready: no live worker listens to the queue 'mail'. Start one: headrace worker APP --queues mail
    """
    with asked.app() as app:
        job = find_job(app, job_id)
        found = why(app, job)
    state = "" if found.sentence.startswith(job.state.value) else f"{job.state.value}: "
    document = {"id": job.id, "state": job.state.value, "reason": found.reason, "sentence": found.sentence}
    say(document, f"{state}{found.sentence}", asked.as_json)
