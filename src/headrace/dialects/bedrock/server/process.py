"""The server as a process: from options to a running server, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headrace.dialects.bedrock.server.database import Database
from headrace.dialects.bedrock.server.server import Options, Server
from headrace.dialects.bedrock.wire import read_host
from headrace.errors import ConfigurationError, StoreUnavailable

log = logging.getLogger("headrace.bedrock")

SHORTEST_SECRET = 16
FILES_OF_OUR_OWN = 64
"""File descriptors that are kept for the database, processes of queries, and clients that are told to go."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    address: str,
    path: str,
    options: Options | None = None,
    *,
    full_sync: bool = False,
    announce: Callable[[str], None] = log.info,
) -> None:
    """Serve until SIGTERM or SIGINT. `full_sync`: what has been answered survives a power cut, too."""
    host, port = read_host(address, listening=True)
    options = within_limits(options or Options(), allow_many_files())
    server = Server(Database(path, full_sync=full_sync), options)
    asyncio.run(_serve(server, host, port, announce))


def read_secret(path: str) -> str:
    secret = Path(path).read_text(encoding="utf-8").strip()
    if len(secret) < SHORTEST_SECRET:
        raise ConfigurationError(f"The secret in {path} is shorter than {SHORTEST_SECRET} characters.")
    return secret


def tls_context(certificate: str, key: str | None) -> ssl.SSLContext:
    """What makes a server speak TLS. `key`: the file of its key, if that is not in the certificate's."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The certificate {certificate} and its key can't be used: {error}.") from error
    context.num_tickets = 0  # on a connection that is not in use there must be nothing to read
    return context


async def _serve(server: Server, host: str, port: int, announce: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        chosen = await server.start(host or None, port)
    except OSError as error:
        server.database.close()
        raise StoreUnavailable(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error
    announce(f"listening on {host or '*'}:{chosen}")
    await stop.wait()
    for number in SIGNALS:  # a second one ends it at once, which loses nothing that was answered
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
    announce("stopping")
    await server.stop()


def allow_many_files() -> int:
    """Each client takes a file descriptor: as many as the system grants. Returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def within_limits(options: Options, files: int) -> Options:
    """Options with no more clients than there are file descriptors for, so that the rest are told so.

    >>> within_limits(Options(most_connections=50_000), 4096).most_connections
    4032
    """
    most = max(files - FILES_OF_OUR_OWN, files // 2)
    if files == resource.RLIM_INFINITY or options.most_connections <= most:
        return options
    log.warning("files are limited to %d (ulimit -n): no more than %d clients are served", files, most)
    return replace(options, most_connections=most)
