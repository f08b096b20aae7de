"""`headrace worker`: run the jobs of an app."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from headrace.cli.options import DURATION, NAMES, SIZE, only_store_option
from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.supervisor import Settings

log = logging.getLogger("headrace.worker")

LEVELS = ("debug", "info", "warning", "error")

RELOAD_GRACE = 2_000
"""With --reload, milliseconds that jobs have to finish: who has just saved a file does not want to wait."""
GRACE = 30_000


@click.command("worker")
@click.argument("app_path", metavar="APP", envvar="HEADRACE_APP")
@only_store_option
@click.option(
    "--queues", "-q", type=NAMES, help="Listen to these, and empty them in this order.  [default: all, in turn]"
)
@click.option("--round-robin", is_flag=True, help="Take one job from each queue in turn.")
@click.option("--processes", "-p", type=click.IntRange(1, 1024), default=1, show_default=True, help="Worker processes.")
@click.option(
    "--slots",
    "-s",
    type=click.IntRange(1, 1000),
    help="Jobs at once per process.  [default: 8; 100 if all tasks are async]",
)
@click.option("--burst", is_flag=True, help="Stop when nothing is left to do now.")
@click.option("--grace", type=DURATION, help="How long jobs may finish after a signal to stop.  [default: 30s]")
@click.option(
    "--session-timeout",
    type=DURATION,
    help="After how long a silent worker counts as dead.  [default: as 'headrace settings session-timeout' says: 15s]",
)
@click.option("--no-monitor", is_flag=True, help="Don't look after jobs of workers that have died.")
@click.option("--max-jobs", type=click.IntRange(1), help="Replace a process that has started so many jobs.")
@click.option("--max-memory", type=SIZE, help="Replace a process that uses more, as in 500MB.")
@click.option("--reload", is_flag=True, help="For development: start again when a Python file of yours changes.")
@click.option("--log-json", is_flag=True, help="Log lines as JSON.")
@click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="info", show_default=True)
@click.option(
    "--log-jobs/--no-log-jobs",
    default=None,
    help="A line for each job that is done. Default: if standard error is a terminal.",
)
def worker_command(
    app_path: str,
    store: str | None,
    queues: tuple[str, ...] | None,
    round_robin: bool,
    processes: int,
    slots: int | None,
    burst: bool,
    grace: int | None,
    session_timeout: int | None,
    no_monitor: bool,
    max_jobs: int | None,
    max_memory: int | None,
    reload: bool,
    log_json: bool,
    log_level: str,
    log_jobs: bool | None,
) -> None:
    """Run the jobs of an app until told to stop.

    APP is module:app, or path/to/file.py:app. SIGTERM or Ctrl-C once: take no more jobs and let those that run finish;
    twice: give them back at once. SIGHUP replaces the processes, SIGUSR1 prints what every thread is doing.

    \b
    Examples:
      headrace worker shop.tasks:app
      headrace worker shop.tasks:app --queues urgent,default --processes 4
      headrace worker shop.tasks:app --reload
    """
    if burst and reload:
        raise click.UsageError("--burst stops when all is done, --reload goes on: choose one.")
    if session_timeout is not None and session_timeout < 1000:
        raise click.BadParameter("at least a second.", param_hint="'--session-timeout'")

    from headrace.worker.logs import LogChoice, finish_logging, prepare_logging
    from headrace.worker.supervisor import Settings, Supervisor

    logging_choice = LogChoice(log_level.upper(), log_json, sys.stderr.isatty() if log_jobs is None else log_jobs)
    prepare_logging(logging_choice)
    if reload:
        from headrace.cli.reload import load_or_wait

        app = load_or_wait(app_path)
    else:
        from headrace.loading import load_app

        app = load_app(app_path)
    finish_logging()
    _settle_store(app, store)

    from headrace.worker.embedded import default_queues, default_slots

    settings = Settings(
        app_path=app_path,
        store=app.url,
        queues=queues or default_queues(app),
        slots=slots or default_slots(app),
        round_robin=round_robin or queues is None,
        processes=processes,
        burst=burst,
        monitor=not no_monitor,
        timeout=session_timeout,
        grace=((RELOAD_GRACE if reload else GRACE) if grace is None else grace) / 1000,
        max_jobs=max_jobs,
        max_memory=max_memory,
        logging=logging_choice,
    )
    _announce(app, settings)
    if reload:
        from headrace.cli.reload import supervise_and_reload

        code = supervise_and_reload(app, settings)
    else:
        code = Supervisor(app, settings).run()
    app.close()
    click.get_current_context().exit(code)


def _settle_store(app: Headrace, store: str | None) -> None:
    from headrace.store import open_store

    if store:
        app.url = store
    if app.url.partition("?")[0].endswith("/:memory:"):
        raise ConfigurationError(
            f"{app.url} lives in the memory of one process, which worker processes cannot share. "
            "Use a file, as in --store sqlite:///jobs.db, or app.worker() inside your program."
        )
    before = app.use_store(open_store(app.url))
    if before is not None:
        before.close()  # the app's module has used it while it was imported


def _announce(app: Headrace, settings: Settings) -> None:
    from headrace.store.urls import shown_url

    names = sorted(app.tasks)
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    order = "in turn" if settings.round_robin else "in this order"
    log.info("store %s, durability %s", shown_url(app.url), app.store.durability)
    log.info("queues %s%s", ", ".join(settings.queues), f" ({order})" if len(settings.queues) > 1 else "")
    log.info("processes %d, jobs at once in each %d", settings.processes, settings.slots)
    if names:
        log.info("tasks %s", shown)
    else:
        log.warning("%s has no tasks: import the modules that define them where the app is defined", settings.app_path)
