"""`headrace workers`: who works here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli import exits
from headrace.cli.jobs import show_jobs
from headrace.cli.options import existing_store, json_option, store_options
from headrace.cli.output import job_document, show_fields, show_json, show_table
from headrace.records import Filter, State
from headrace.store.paging import PAGE, pages
from headrace.values.text import ago, iso, length, local, now_ms

if TYPE_CHECKING:
    from headrace.records import SessionSnapshot, Snapshot
    from headrace.store import Store


@click.command("workers")
@click.argument("name", required=False)
@store_options
@json_option
def workers_command(name: str | None, store: str | None, app_path: str | None, as_json: bool) -> None:
    """List the worker processes.

    One that has died is shown until a live one has given its jobs to others. PID is the process that runs the jobs.
    With NAME: all there is to know about that one, and the jobs that it runs.

    \b
    Examples:
      headrace workers --json
      headrace workers web-1:4711
    """
    with existing_store(store, app_path) as opened:
        sessions = opened.run(opened.sessions())
        if name is not None:
            sessions = [session for session in sessions if session.info.name == name]
            running = _running(opened, name) if sessions else []
    if name is not None and not sessions:
        click.echo(f"There is no worker {name!r} now.", err=True)
        click.get_current_context().exit(exits.NOT_DONE)
    if as_json:
        documents = [_document(session) for session in sessions]
        show_json({"workers": documents, **({} if name is None else {"jobs": [job_document(job) for job in running]})})
    elif name is not None:
        for session in sessions:
            _show_worker(session)
        if running:
            click.echo()
            show_jobs(running)
    elif not sessions:
        click.echo("No workers. Start one: headrace worker APP")
    else:
        _show_workers(sessions)


def _running(store: Store, name: str) -> list[Snapshot]:
    """What a worker runs, newest first; a store that cannot look for that has all running jobs looked at."""
    wanted = Filter(states=(State.RUNNING,), worker=name, limit=PAGE)
    return [job for page in pages(store, wanted) for job in page if job.worker == name]


def _document(session: SessionSnapshot) -> dict[str, Any]:
    return {
        "id": session.info.id,
        "name": session.info.name,
        "pid": _pid(session),
        "supervisor": session.info.pid if session.info.process else None,
        "host": session.info.node or session.info.host,
        "queues": list(session.info.queues),
        "tasks": list(session.info.tasks),
        "running": session.running,
        "alive": session.alive,
        "opened": iso(session.opened),
        "seen": iso(session.seen),
        "timeout": session.info.timeout / 1000,
    }


def _pid(session: SessionSnapshot) -> int:
    """The process that runs its jobs."""
    return session.info.process or session.info.pid


def _state(session: SessionSnapshot) -> str:
    return "alive" if session.alive else "dead"


def _show_workers(sessions: list[SessionSnapshot]) -> None:
    now = now_ms()
    rows = [
        (
            session.info.name,
            str(_pid(session) or ""),
            _state(session),
            str(session.running),
            ago(session.opened, now),
            # One that holds no job has nothing to renew, and need not be seen.
            ago(session.seen, now) if session.running or not session.alive else "idle",
            ", ".join(session.info.queues),
        )
        for session in sessions
    ]
    headings = ("name", "pid", "state", "running", "started", "seen", "queues")
    show_table(headings, rows, whole="pid state running started seen", numbers="pid running")


def _show_worker(session: SessionSnapshot) -> None:
    now = now_ms()
    show_fields(
        [
            ("name", session.info.name),
            ("state", _state(session)),
            ("pid", str(_pid(session))),
            ("supervisor", str(session.info.pid) if session.info.process else ""),
            ("host", session.info.node or session.info.host),
            ("queues", ", ".join(session.info.queues)),
            ("tasks", ", ".join(session.info.tasks)),
            ("started", local(session.opened, now)),
            ("last seen", local(session.seen, now)),
            ("time-out", f"silent for {length(session.info.timeout)}, it counts as dead"),
            ("running", str(session.running)),
        ]
    )
