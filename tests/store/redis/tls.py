"""TLS for test servers: a certificate, the servers that were built with it, and a process before those without."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from processes import eventually

from .servers import Server, die_with_parent, free_port, programs

Files = tuple[Path, Path]
"""A certificate and its key."""
HERE = Path(__file__).parent
CERTIFICATE: Files = HERE / "certificate.pem", HERE / "key.pem"
"""One for localhost and 127.0.0.1 that vouches for itself, valid from 2020 to 2119."""


def tls_options(files: Files, port: int = 0) -> dict[str, str]:
    """What a server must be told. It speaks TLS with other servers by the same certificate."""
    certificate, key = map(str, files)
    return {
        "tls-cert-file": certificate,
        "tls-key-file": key,
        "tls-ca-cert-file": certificate,
        "tls-auth-clients": "no",
        "tls-port": str(port),
    }


def as_arguments(options: dict[str, str]) -> list[str]:
    """What a configuration file says, on the command line."""
    return [word for name, value in options.items() for word in (f"--{name}", value)]


@cache
def program_with_tls() -> str | None:
    """A server that was built with TLS, if there is one."""
    for program in programs().values():
        try:
            Server(*as_arguments(tls_options(CERTIFICATE, free_port())), program=program).close()  # 0 needs no TLS
        except RuntimeError:
            continue
        return program
    return None


def need_program_with_tls() -> str:
    """For tests where servers speak TLS with each other; without such a server they are skipped."""
    program = program_with_tls()
    if program is None:
        pytest.skip("no redis-server here was built with TLS")
    return program


@contextlib.contextmanager
def speaking_tls(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server at a port with TLS: the process that speaks it, which is the server's own where that can."""
    program = program_with_tls()
    if program is not None:
        with contextlib.closing(Server(*as_arguments(tls_options(CERTIFICATE, port)), program=program)) as server:
            assert server.process is not None
            yield server.process
        return
    with contextlib.closing(Server()) as server:
        command = [sys.executable, str(HERE / "tls_front.py"), *map(str, CERTIFICATE), str(port), server.socket]
        front = subprocess.Popen(
            command,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509  (all it does is a system call)
        )
        try:
            eventually(lambda: _listens(port), "a process that speaks TLS")
            yield front
        finally:
            front.kill()
            front.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
