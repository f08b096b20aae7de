"""`headrace workers`: who works here."""

from __future__ import annotations

import click

from headrace.cli.options import existing_store, json_option, store_options
from headrace.cli.output import show_json, show_table
from headrace.spoken import ago, iso, now_ms


@click.command("workers")
@store_options
@json_option
def workers_command(store: str | None, app_path: str | None, as_json: bool) -> None:
    """List the worker processes.

    One that has died is shown until a live one has given its jobs to others.

    \b
    Example:
      headrace workers --json
    """
    with existing_store(store, app_path) as opened:
        sessions = opened.run(opened.sessions())
    if as_json:
        documents = [
            {
                "id": session.info.id,
                "name": session.info.name,
                "pid": session.info.pid,
                "host": session.info.host,
                "queues": list(session.info.queues),
                "tasks": list(session.info.tasks),
                "running": session.running,
                "alive": session.alive,
                "opened": iso(session.opened),
                "seen": iso(session.seen),
                "timeout": session.info.timeout / 1000,
            }
            for session in sessions
        ]
        show_json({"workers": documents})
        return
    if not sessions:
        click.echo("No workers. Start one: headrace worker APP")
        return
    now = now_ms()
    rows = [
        (
            session.info.name,
            "alive" if session.alive else "dead",
            str(session.running),
            ago(session.opened, now),
            # One that holds no job has nothing to renew, and need not be seen.
            ago(session.seen, now) if session.running or not session.alive else "idle",
            ", ".join(session.info.queues),
        )
        for session in sessions
    ]
    headings = ("name", "state", "running", "started", "seen", "queues")
    show_table(headings, rows, whole="state running started seen", numbers="running")
