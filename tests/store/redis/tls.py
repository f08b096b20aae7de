"""TLS for test servers: a certificate, and the servers that were built with it."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from .servers import Server, free_port, programs

Files = tuple[Path, Path]
"""A certificate and its key."""


def make_certificate(folder: Path) -> Files:
    """One that vouches for itself."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    files = folder / "certificate.pem", folder / "key.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        ["openssl", *words, *names, "-out", str(files[0]), "-keyout", str(files[1])], check=True, capture_output=True
    )
    return files


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
def program_with_tls(files: Files) -> str:
    """A server that was built with it; without one the test is skipped."""
    for program in programs().values():
        try:
            Server(*as_arguments(tls_options(files, free_port())), program=program).close()  # port 0 needs no TLS
        except RuntimeError:
            continue
        return program
    pytest.skip("no redis-server here was built with TLS")
