"""`headrace metrics`: the figures of a store, for Prometheus."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING

import click

from headrace.cli.options import Asked, common_options
from headrace.cli.output import show_json

if TYPE_CHECKING:
    from headrace.app import Headrace


@click.command("metrics")
@common_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Serve them until told to stop, as in 127.0.0.1:9465, with /healthz and /readyz.",
)
def metrics_command(asked: Asked, listen: str | None) -> None:
    """Print the figures of a store for Prometheus, or serve them.

    Of each queue: how many jobs are in which state, how long ago the oldest ready one was due, how many came and ended
    per second, how many workers listen to it. Run one per store. What the jobs of a worker do is counted by the worker
    itself: headrace worker --metrics.

    \b
    Examples:
      headrace metrics --store sqlite:///jobs.db
      headrace metrics --store redis://localhost/0 --listen 127.0.0.1:9465
    """
    if listen and asked.as_json:
        raise click.UsageError("What is served is not JSON: leave --json or --listen out.")
    from headrace.metrics import families
    from headrace.metrics.store import StoreLook
    from headrace.ops.documents import document

    with asked.app() as app:
        if listen:
            _serve(app, listen)
            return
        figures = StoreLook(app)()
    if asked.as_json:
        show_json(document(figures))
    else:
        click.echo(families.rendered(families.of_store(figures), "")[0], nl=False)


def _serve(app: Headrace, address: str) -> None:
    from headrace.metrics import routes
    from headrace.metrics.server import MetricsServer, bind

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads, which would get them
    server = MetricsServer(bind(address), routes.of_store(app))
    server.start()
    click.echo(f"metrics at {server.where}/metrics, probes at /healthz and /readyz", err=True)
    signal.sigwait(ends)
    server.close()
