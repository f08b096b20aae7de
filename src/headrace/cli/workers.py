"""`headrace workers`: who works here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli import exits, visible
from headrace.cli.jobs import show_jobs
from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_fields, show_json, show_table
from headrace.ops import act, look
from headrace.ops.documents import document, epoch_ms, job_document
from headrace.values.text import ago, length, local, now_ms

if TYPE_CHECKING:
    from headrace.ops.look import WorkerFigures


@click.command("workers")
@click.argument("name", required=False)
@click.option("--stop", is_flag=True, help="Ask it to stop, as SIGTERM does.")
@common_options
def workers_command(name: str | None, stop: bool, asked: Asked) -> None:
    """List the worker processes.

    One that has died is shown until a live one has given its jobs to others. PID is the process that runs the jobs.
    With NAME: all there is to know about that one, and the jobs that it runs.

    With --stop that worker stops at its next renewal, within 15 seconds as a rule. It takes no more jobs and lets those
    that run finish, as by SIGTERM. The whole worker stops: the supervisor and all of its processes. What
    has started it, such as systemd, may start it again.

    \b
    Examples:
      headrace workers --json
      headrace workers web-1-4711-1
      headrace workers web-1-4711-1 --stop
    """
    if stop:
        _stop(name, asked)
        return
    with asked.app() as app:
        workers = look.workers(app, name)
        running = look.running(app, name) if workers and name is not None else []
    if name is not None and not workers:
        click.echo(f"There is no worker {name!r} now.", err=True)
        click.get_current_context().exit(exits.NOT_DONE)
    if asked.as_json:
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


def _stop(name: str | None, asked: Asked) -> None:
    if name is None:
        raise click.UsageError("Which worker is to stop? Write: headrace workers NAME --stop")
    with asked.app() as app:
        told = act.stop_worker(app, name)
    if asked.as_json:
        show_json({"asked": told})
    elif told:
        click.echo(visible(f"{name} stops when its session is next renewed, with all processes of its supervisor."))
    else:
        click.echo(visible(f"There is no worker {name!r} now."), err=True)
    if not told:
        click.get_current_context().exit(exits.NOT_DONE)


def _state(worker: WorkerFigures) -> str:
    return "dead" if not worker.alive else "stopping" if worker.stopping else "alive"


def _memory(worker: WorkerFigures) -> str:
    return "" if worker.memory is None else f"{worker.memory / 1_000_000:,.0f} MB"


def _show_workers(workers: list[WorkerFigures]) -> None:
    now = now_ms()
    rows = [
        (
            worker.name,
            worker.version or "",
            str(worker.pid or ""),
            _state(worker),
            str(worker.running),
            _memory(worker),
            ago(epoch_ms(worker.opened), now),
            # One that holds no job has nothing to renew, and need not be seen.
            ago(epoch_ms(worker.seen), now) if worker.running or not worker.alive else "idle",
            ", ".join(worker.queues),
        )
        for worker in workers
    ]
    headings = ("name", "version", "pid", "state", "running", "memory", "started", "seen", "queues")
    show_table(headings, rows, whole="pid state running memory started seen", numbers="pid running memory")


def _show_worker(worker: WorkerFigures) -> None:
    now = now_ms()
    show_fields(
        [
            ("name", worker.name),
            ("state", _state(worker)),
            ("pid", str(worker.pid)),
            ("supervisor", "" if worker.supervisor is None else str(worker.supervisor)),
            ("host", worker.host),
            ("version", worker.version or ""),
            ("queues", ", ".join(worker.queues)),
            ("tasks", ", ".join(worker.tasks)),
            ("started", local(epoch_ms(worker.opened), now)),
            ("last seen", local(epoch_ms(worker.seen), now)),
            ("time-out", f"silent for {length(round(worker.timeout_seconds * 1000))}, it counts as dead"),
            ("running", str(worker.running)),
            ("memory", _memory(worker)),
        ]
    )
