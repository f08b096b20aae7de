"""`headrace worker`: run the jobs of an app."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import DURATION, NAMES, SIZE, only_store_option, required_path
from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.logs import LogChoice
    from headrace.worker.process import Settings

log = logging.getLogger("headrace.worker")

LEVELS = ("debug", "info", "warning", "error")

RELOAD_GRACE = 2_000
"""With --reload, milliseconds that jobs have to finish: who has just saved a file does not want to wait."""
GRACE = 30_000


@click.command("worker")
@click.argument("app_path", metavar="[APP]", envvar="HEADRACE_APP", required=False)
@only_store_option
@click.option(
    "--queues", "-q", type=NAMES, help="Listen to these, and empty them in this order.  [default: all, in turn]"
)
@click.option("--test", is_flag=True, help="Run the test traffic of these queues, and nothing else.")
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
@click.option(
    "--session-grace",
    type=DURATION,
    default="0s",
    help="How much later others may take its jobs, so that these can wind up first.  [default: at once]",
)
@click.option("--no-monitor", is_flag=True, help="Don't look after jobs of workers that have died.")
@click.option("--max-jobs", type=click.IntRange(1), help="Replace a process that has started so many jobs.")
@click.option("--max-memory", type=SIZE, help="Replace a process that uses more, as in 500MB.")
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Serve /metrics for Prometheus, /healthz and /readyz there, as in 127.0.0.1:9464.",
)
@click.option("--reload", is_flag=True, help="For development: start again when a Python file of yours changes.")
@click.option("--log-json", is_flag=True, help="Log lines as JSON.")
@click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="info", show_default=True)
@click.option(
    "--log-jobs/--no-log-jobs",
    default=None,
    help="A line for each job that is done. Default: if standard error is a terminal.",
)
def worker_command(app_path: str | None, store: str | None, reload: bool, **given: Any) -> None:
    """Run the jobs of an app until told to stop.

    APP is module:app, module:make_app (a function without parameters that returns the app) or path/to/file.py:app;
    without it, $HEADRACE_APP says it, else [tool.headrace] in pyproject.toml.

    SIGTERM or Ctrl-C once: take no more jobs and let those that run finish; twice: give them back at once. SIGHUP
    replaces the processes, SIGUSR1 prints what every thread is doing.

    \b
    Examples:
      headrace worker
      headrace worker shop.tasks:app
      headrace worker shop.tasks:app --queues urgent,default --processes 4
      headrace worker shop.tasks:app --reload
    """
    if given["burst"] and reload:
        raise click.UsageError("--burst stops when all is done, --reload goes on: choose one.")
    if given["metrics"] and reload:
        raise click.UsageError("--reload is for development, and starts anew what --metrics counts: choose one.")
    if given["session_timeout"] is not None and given["session_timeout"] < 1000:
        raise click.BadParameter("at least a second.", param_hint="'--session-timeout'")

    from headrace.worker.logs import LogChoice, finish_logging, prepare_logging

    log_jobs = sys.stderr.isatty() if given["log_jobs"] is None else given["log_jobs"]
    choice = LogChoice(given["log_level"].upper(), given["log_json"], log_jobs)
    prepare_logging(choice)
    app_path = required_path(app_path, "Write headrace worker module:app")
    app = _load(app_path, reload)
    finish_logging()
    _settle_store(app, store)
    grace = (RELOAD_GRACE if reload else GRACE) if given["grace"] is None else given["grace"]
    settings = _settings(app, app_path, choice, grace, given)
    code = (
        _supervise_and_count(app, settings, given["metrics"]) if given["metrics"] else _supervise(app, settings, reload)
    )
    app.close()
    click.get_current_context().exit(code)


def _load(app_path: str, reload: bool) -> Headrace:
    if reload:
        from headrace.cli.reload import load_or_wait

        return load_or_wait(app_path)
    from headrace.loading import load_app

    return load_app(app_path)


def _settings(app: Headrace, app_path: str, logging: LogChoice, grace: int, given: dict[str, Any]) -> Settings:
    from headrace.traffic import as_test
    from headrace.worker.embedded import default_queues, default_slots
    from headrace.worker.process import Settings

    queues = given["queues"] or default_queues(app)
    return Settings(
        app_path=app_path,
        store=app.url,
        queues=tuple(map(as_test, queues)) if given["test"] else queues,
        slots=given["slots"] or default_slots(app),
        round_robin=given["round_robin"] or given["queues"] is None,
        processes=given["processes"],
        burst=given["burst"],
        monitor=not given["no_monitor"],
        timeout=given["session_timeout"],
        session_grace=given["session_grace"],
        grace=grace / 1000,
        max_jobs=given["max_jobs"],
        max_memory=given["max_memory"],
        logging=logging,
    )


def _supervise(app: Headrace, settings: Settings, reload: bool) -> int:
    _announce(app, settings)
    if reload:
        from headrace.cli.reload import supervise_and_reload

        return supervise_and_reload(app, settings)
    from headrace.worker.supervisor import Supervisor

    return Supervisor(app, settings).run()


def _supervise_and_count(app: Headrace, settings: Settings, address: str) -> int:
    from headrace.metrics import routes
    from headrace.metrics.server import MetricsServer, bind
    from headrace.worker.meter import Board
    from headrace.worker.supervisor import Supervisor

    board = Board()
    supervisor = Supervisor(app, settings, board)
    server = MetricsServer(bind(address), routes.of_worker(app, supervisor, board))
    _announce(app, settings)
    log.info("metrics at %s/metrics, probes at /healthz and /readyz", server.where)
    server.start()
    try:
        return supervisor.run()
    finally:
        server.close()


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
        log.warning(
            "%s has no tasks: name the modules that define them with app.include(...) where the app is defined",
            settings.app_path,
        )
