"""`headrace workers`: who works here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import exits
from headrace.cli.jobs import show_jobs
from headrace.cli.options import existing_app, json_option, store_options
from headrace.cli.output import show_fields, show_json, show_table
from headrace.ops import look
from headrace.ops.documents import document, epoch_ms, job_document
from headrace.values.text import ago, length, local, now_ms

if TYPE_CHECKING:
    from headrace.ops.look import WorkerFigures


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
    with existing_app(store, app_path) as app:
        workers = look.workers(app, name)
        running = look.running(app, name) if workers and name is not None else []
    if name is not None and not workers:
        click.echo(f"There is no worker {name!r} now.", err=True)
        click.get_current_context().exit(exits.NOT_DONE)
    if as_json:
        documents = [document(worker) for worker in workers]
        show_json({"workers": documents, **({} if name is None else {"jobs": [job_document(job) for job in running]})})
    elif name is not None:
        for worker in workers:
            _show_worker(worker)
        if running:
            click.echo()
            show_jobs(running)
    elif not workers:
        click.echo("No workers. Start one: headrace worker APP")
    else:
        _show_workers(workers)


def _state(worker: WorkerFigures) -> str:
    return "alive" if worker.alive else "dead"


def _show_workers(workers: list[WorkerFigures]) -> None:
    now = now_ms()
    rows = [
        (
            worker.name,
            str(worker.pid or ""),
            _state(worker),
            str(worker.running),
            ago(epoch_ms(worker.opened), now),
            # One that holds no job has nothing to renew, and need not be seen.
            ago(epoch_ms(worker.seen), now) if worker.running or not worker.alive else "idle",
            ", ".join(worker.queues),
        )
        for worker in workers
    ]
    headings = ("name", "pid", "state", "running", "started", "seen", "queues")
    show_table(headings, rows, whole="pid state running started seen", numbers="pid running")


def _show_worker(worker: WorkerFigures) -> None:
    now = now_ms()
    show_fields(
        [
            ("name", worker.name),
            ("state", _state(worker)),
            ("pid", str(worker.pid)),
            ("supervisor", "" if worker.supervisor is None else str(worker.supervisor)),
            ("host", worker.host),
            ("queues", ", ".join(worker.queues)),
            ("tasks", ", ".join(worker.tasks)),
            ("started", local(epoch_ms(worker.opened), now)),
            ("last seen", local(epoch_ms(worker.seen), now)),
            ("time-out", f"silent for {length(round(worker.timeout_seconds * 1000))}, it counts as dead"),
            ("running", str(worker.running)),
        ]
    )
