"""`headrace queues` and `headrace workers`: the whole at a glance."""

from __future__ import annotations

import click

from headrace.cli.options import STATES, existing_store, json_option, store_options
from headrace.cli.output import show_json, show_table
from headrace.spoken import ago, iso, now_ms


@click.command("queues")
@store_options
@json_option
def queues_command(store: str | None, app_path: str | None, as_json: bool) -> None:
    """Count the jobs of each queue.

    WORKERS is the number of live worker processes that listen to it.

    \b
    Example:
      headrace queues --store sqlite:///jobs.db
    """
    from headrace.job import State

    with existing_store(store, app_path) as opened:
        counts = {count.queue: count.by_state for count in opened.run(opened.counts())}
        sessions = [session for session in opened.run(opened.sessions()) if session.alive]
    listeners = {name: sum(name in session.info.queues for session in sessions) for name in counts}
    for session in sessions:
        for name in session.info.queues:
            listeners.setdefault(name, sum(name in other.info.queues for other in sessions))
    rows = [
        (name, listeners[name], *(counts.get(name, {}).get(State(state), 0) for state in STATES))
        for name in sorted(listeners)
    ]
    headings = ("queue", "workers", *STATES)
    if as_json:
        show_json({"queues": [dict(zip(headings, row, strict=True)) for row in rows]})
    elif not rows:
        click.echo("No queues: there are no jobs and no workers.")
    else:
        # Nobody needs a column of zeros, and eighty columns are soon full.
        used = [i for i, name in enumerate(headings) if i < 4 or any(row[i] for row in rows) or name == "failed"]
        texts = [[f"{row[i]:,}" if isinstance(row[i], int) else str(row[i]) for i in used] for row in rows]
        numbers = " ".join(headings[1:])
        show_table([headings[i] for i in used], texts, whole=numbers, numbers=numbers)


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
