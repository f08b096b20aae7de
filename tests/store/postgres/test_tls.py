"""TLS: `sslmode=verify-full`, and what is said about a server that can't be trusted."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace import ConfigurationError
from headrace.store.postgres.store import PostgresStore

from . import servers
from .scenes import jobs
from .servers import Server

WITH_TLS = next((name for name, folder in servers.programs().items() if folder.is_relative_to("/usr/lib")), "")
"""The version of a server that knows TLS. (Those of the wheel do not.)"""
pytestmark = pytest.mark.skipif(
    not WITH_TLS or not shutil.which("openssl"),
    reason="no server has TLS: apt-get install postgresql openssl",
)


def openssl(folder: Path, *arguments: str) -> None:
    common = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    subprocess.run(["openssl", "req", "-x509", *common, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with an authority, a certificate for localhost that it has signed, and another authority."""
    folder = servers.new_folder()
    openssl(folder, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    openssl(folder, "-subj", "/CN=other", "-keyout", "other.key", "-out", "other.crt")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "subjectAltName=DNS:localhost")
    openssl(folder, "-subj", "/CN=localhost", *signed, "-keyout", "server.key", "-out", "server.crt")
    if servers.USER:
        os.chown(folder / "server.key", pwd.getpwnam(servers.USER).pw_uid, -1)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    """A server that listens on the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    files = (f"ssl_cert_file={folder / 'server.crt'}", f"ssl_key_file={folder / 'server.key'}")
    server = Server(*Server.QUICK, "listen_addresses=127.0.0.1", "ssl=on", *files, version=WITH_TLS, port=port)
    yield port
    server.close()


def test_a_connection_is_encrypted_and_the_server_is_known(folder: Path, port: int) -> None:
    url = f"postgresql://postgres@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={folder / 'ca.crt'}"
    with closing(PostgresStore(url)) as store, closing(store.job_waiter("a")):
        store.run(store.put(jobs()))
        query = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'postgres'"
        assert store.run(store.sql(query, [])).rows == [(True,)]


@pytest.mark.parametrize(
    ("host", "authority", "words"),
    [
        ("localhost", "other.crt", "certificate verify failed"),
        ("127.0.0.1", "ca.crt", 'server certificate for "localhost" .*does not match host name "127.0.0.1"'),
        ("localhost", "missing.crt", "root certificate file .* does not exist"),
    ],
)
def test_a_server_that_cannot_be_trusted(folder: Path, port: int, host: str, authority: str, words: str) -> None:
    url = f"postgresql://postgres@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={folder / authority}"
    sentence = rf"the connection can't be encrypted as the URL demands \(.*{words}.*\)\. Check sslmode and sslrootcert"
    with pytest.raises(ConfigurationError, match=sentence):
        PostgresStore(url)
