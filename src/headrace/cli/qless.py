"""`headrace qless`: the script for a Qless installation, and workers for its jobs."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import click

from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from headrace.dialects.qless import Client
    from headrace.dialects.qless.workers import ForkingWorker, ForkPerJobWorker

log = logging.getLogger("headrace.qless.worker")


def _checked_name(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    if name == "":
        raise click.BadParameter("a worker needs a name; leave the option out for <hostname>-<pid>.")
    return name


@click.group("qless")
def qless_command() -> None:
    """Run on, and as, a Qless installation.

    \b
    Examples:
      headrace qless script > qless.lua
      headrace qless worker -q mail --allow shop.jobs
    """


@qless_command.command("script")
@click.option("--lib", is_flag=True, help="Only the classes, to be put before a script of your own.")
def script_command(lib: bool) -> None:
    """Print the server-side script, for clients in other languages to load in place of theirs.

    \b
    Examples:
      headrace qless script > qless.lua
      cat <(headrace qless script --lib) my-own.lua | redis-cli -x SCRIPT LOAD
    """
    from headrace.dialects.qless import library, script

    click.echo(library() if lib else script(), nl=False)


@qless_command.command("worker")
@click.option("--host", default="redis://localhost:6379", show_default=True, help="Redis URL.")
@click.option("--name", "-n", callback=_checked_name, help="Worker name.  [default: <hostname>-<pid>]")
@click.option("--queue", "-q", "queues", multiple=True, required=True, help="A queue; repeat it for more, in order.")
@click.option(
    "--allow", "-a", "allowed", multiple=True, help="A module from which classes may be imported; repeat it for more."
)
@click.option("--workers", "-w", type=click.IntRange(0), default=0, help="Processes.  [default: number of cores]")
@click.option(
    "--coroutines",
    "--greenlets",
    "-g",
    type=click.IntRange(0),
    default=0,
    help="Coroutines per process.  [default: none]",
)
@click.option("--fork-per-job", is_flag=True, help="Start a process for every job.")
@click.option(
    "--ordered", is_flag=True, help="Empty the first queue before the next.  [default: one from each in turn]"
)
@click.option(
    "--interval", "-i", type=float, default=60.0, show_default=True, help="Seconds between looks at empty queues."
)
@click.option("--resume", "-r", is_flag=True, help="Go on with jobs that this name still holds.")
@click.option(
    "--complete/--no-complete",
    default=True,
    help="Complete jobs that return without ending themselves.  [default: yes]",
)
@click.option("--path", "-p", "paths", multiple=True, help="Put in front of the module search path.")
@click.option("--import", "-m", "imports", multiple=True, help="Modules to import before forking.")
@click.option("--workdir", "-d", type=click.Path(path_type=Path), default=Path(), help="Base directory.  [default: .]")
@click.option("--logger", "-l", "log_file", help="Also log to this file.")
@click.option("--verbose", "-v", is_flag=True, help="Log more.")
def worker_command(
    host: str,
    name: str | None,
    allowed: tuple[str, ...],
    paths: tuple[str, ...],
    imports: tuple[str, ...],
    workdir: Path,
    log_file: str | None,
    verbose: bool,
    **given: Any,
) -> None:
    """Run jobs by the names of their classes.

    Classes are imported from modules that --allow names, and from what is inside them; any other job fails without
    anything being imported. TERM, INT and QUIT: finish the present jobs and stop. USR1: print what every thread does.

    \b
    Example:
      headrace qless worker -q mail -q default --allow shop.jobs -w 4
    """
    from headrace.dialects.qless import Client
    from headrace.dialects.qless.workers import ForkPerJobWorker
    from headrace.dialects.qless.workers.base import BASE

    client = Client(host, hostname=name)
    try:
        worker = _worker(client, workdir, allowed=allowed, **given)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error
    _try_directory(workdir / BASE)
    _set_up_logging(log_file, verbose)
    client.config["application"]  # where no server is at the start, the URL may be wrong: waiting would help nobody
    sys.path[:0] = [os.path.abspath(path) for path in paths]
    for module in imports:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001, RUF100  (said in the help: it is only logged)
            log.warning("could not import %s: %s", module, error)
    if not allowed:
        log.warning("no module is allowed: every job will fail. Name some with --allow.")
    if isinstance(worker, ForkPerJobWorker):
        worker.handle_signals()
    worker.run()


def _worker(
    client: Client, workdir: Path, *, queues: tuple[str, ...], coroutines: int, fork_per_job: bool, **common: Any
) -> ForkPerJobWorker | ForkingWorker:
    from headrace.dialects.qless.workers import CoroutineWorker, ForkingWorker, ForkPerJobWorker
    from headrace.dialects.qless.workers.base import BASE

    if coroutines and fork_per_job:
        raise click.UsageError("--coroutines share a process, --fork-per-job gives each job its own: choose one.")
    if fork_per_job:
        return ForkPerJobWorker(queues, client, sandbox=workdir / BASE, **common)
    if coroutines:
        return ForkingWorker(queues, client, klass=CoroutineWorker, greenlets=coroutines, workdir=workdir, **common)
    return ForkingWorker(queues, client, workdir=workdir, **common)


def _try_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be used: {error.strerror}.", param_hint="'--workdir'") from error


def _set_up_logging(log_file: str | None, verbose: bool) -> None:
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if log_file:
        try:
            handlers.append(logging.FileHandler(log_file, encoding="utf-8", errors="backslashreplace"))
        except OSError as error:
            raise click.BadParameter(
                f"{log_file} cannot be written: {error.strerror}.", param_hint="'--logger'"
            ) from error
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, handlers=handlers, format="%(asctime)s %(process)d %(levelname)s %(message)s")
