"""`headrace bedrock serve`: a Bedrock::Jobs server on an SQLite file."""

from __future__ import annotations

import logging
import sys

import click

from headrace.cli.options import DURATION, SIZE

FILE = click.Path(exists=True, dir_okay=False)


@click.group("bedrock")
def bedrock_command() -> None:
    """Run a Bedrock::Jobs-compatible server.

    Clients and workers in any language can use it; it keeps its jobs in an SQLite file of its own.

    \b
    Example:
      headrace bedrock serve --listen 127.0.0.1:8888 --db jobs.db
    """


@bedrock_command.command("serve")
@click.option("--listen", default="127.0.0.1:8888", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--db", "path", default="jobs.db", show_default=True, metavar="FILE", help="The SQLite file.")
@click.option(
    "--durability",
    type=click.Choice(["process", "host"]),
    default="process",
    show_default=True,
    help="What an answered command survives: any process' death, or power loss too.",
)
@click.option("--node-name", metavar="NAME", help="What answers say in nodeName.  [default: the host's name]")
@click.option("--secret-file", type=FILE, help="Serve only clients that know the secret in this file.")
@click.option("--tls-cert", type=FILE, help="Speak TLS, with this certificate.")
@click.option("--tls-key", type=FILE, help="Its key, if it is in another file.")
@click.option("--no-query", is_flag=True, help="Refuse Query.")
@click.option("--allow-write-query", is_flag=True, help="Let Query write, as Bedrock does.")
@click.option("--query-time", type=DURATION, default="2s", show_default=True, help="The longest that a Query may take.")
@click.option(
    "--query-rows", type=click.IntRange(1), default=100_000, show_default=True, help="The most rows it returns."
)
@click.option(
    "--max-request", type=SIZE, default="16MiB", show_default=True, help="The largest head, and the largest body."
)
@click.option("--max-connections", type=click.IntRange(1), default=50_000, show_default=True, help="The most clients.")
def serve_command(
    listen: str,
    path: str,
    durability: str,
    node_name: str | None,
    secret_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    no_query: bool,
    allow_write_query: bool,
    query_time: int,
    query_rows: int,
    max_request: int,
    max_connections: int,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    The protocol has no authentication and no encryption: listen on addresses that only friends can reach, or use
    headrace's own client with --secret-file and --tls-cert.

    \b
    Example:
      headrace bedrock serve --listen 127.0.0.1:8888 --db jobs.db
    """
    import socket

    from headrace.dialects.bedrock.server.process import read_secret, serve, tls_context
    from headrace.dialects.bedrock.server.requests import Limits
    from headrace.dialects.bedrock.server.server import Options

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = Options(
        node_name=node_name or socket.gethostname(),
        limits=Limits(head=max_request, body=max_request),
        secret=None if secret_file is None else read_secret(secret_file),
        tls=None if tls_cert is None else tls_context(tls_cert, tls_key),
        allow_query=not no_query,
        allow_write_query=allow_write_query and not no_query,
        query_seconds=query_time / 1000,
        query_rows=query_rows,
        most_connections=max_connections,
    )
    serve(listen, path, options, full_sync=durability == "host", announce=lambda line: click.echo(f"headrace: {line}"))
