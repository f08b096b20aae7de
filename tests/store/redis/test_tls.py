"""`rediss://`: the same store through TLS, where the server can do it."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.errors import StoreUnavailable
from leftovers import at_every_step, nothing_unclosed

from .servers import Server, free_port, programs


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "certificate.pem", folder / "key.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run(["openssl", *words, *names, *files], check=True, capture_output=True)
    return paths


@pytest.fixture(scope="module")
def listening(certificate: tuple[Path, Path]) -> Iterator[tuple[Server, int]]:
    """A server that was built with TLS, and where it listens."""
    number = free_port()
    options = ("--tls-port", str(number), "--tls-auth-clients", "no")
    files = ("--tls-cert-file", str(certificate[0]), "--tls-key-file", str(certificate[1]))
    for program in programs().values():
        try:
            server = Server(*options, *files, program=program)
        except RuntimeError:
            continue  # built without it
        yield server, number
        server.close()
        return
    pytest.skip("no redis-server here was built with TLS")


@pytest.fixture
def port(listening: tuple[Server, int]) -> int:
    return listening[1]


@pytest.fixture
def app(port: int, certificate: tuple[Path, Path], request: pytest.FixtureRequest) -> Iterator[Headrace]:
    app = Headrace(f"rediss://localhost:{port}/0?ns={request.node.name}&ssl_ca_certs={certificate[0]}")
    yield app
    app.close()


def test_jobs_run_through_tls_and_sleepers_are_woken(app: Headrace) -> None:
    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    with app.worker(slots=2):
        for number in range(20):  # one by one: the worker and the caller go to sleep in between
            assert double.enqueue(number).result(timeout=20) == 2 * number
        jobs = app.enqueue_many([double.call(number) for number in range(2_000)])  # answers of more than one record
        assert [job.result(timeout=20) for job in jobs] == [2 * number for number in range(2_000)]
        large = "x" * 300_000

        @app.task(name="echo")
        def echo(text: str) -> str:
            return text

        assert echo.enqueue(large).result(timeout=20) == large


def test_from_async_code(app: Headrace) -> None:
    @app.task(name="add")
    async def add(a: int, b: int) -> int:
        return a + b

    async def ask() -> int:
        return await (await add.aenqueue(2, 3))

    with app.worker():
        assert asyncio.run(ask()) == 5


def test_a_loop_that_ends_waits_for_no_farewell_and_leaves_nothing_open(
    app: Headrace, listening: tuple[Server, int]
) -> None:
    process = listening[0].process
    assert process is not None

    async def ask() -> None:
        await app.store.arun(app.store.counts())
        process.send_signal(signal.SIGSTOP)

    with nothing_unclosed():
        try:
            asyncio.run(ask())
        finally:
            process.send_signal(signal.SIGCONT)


def test_a_request_that_is_cancelled_at_any_step_leaves_nothing_open(app: Headrace) -> None:
    with nothing_unclosed():
        assert at_every_step(lambda: app.store.arun(app.store.counts()), asyncio.Task.cancel) > 10


def test_events_through_tls(app: Headrace) -> None:
    @app.task(name="quiet")
    def quiet() -> None: ...

    seen: list[str] = []
    listening = threading.Event()

    def listen() -> None:
        with app.events() as events:
            listening.set()
            for event in events:
                seen.append(event.what)
                if event.what == "done":
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    listening.wait(10)
    with app.worker():
        quiet.enqueue().result(timeout=20)
    listener.join(20)
    assert seen == ["created", "started", "done"]


def test_a_certificate_that_nobody_vouches_for_is_refused(port: int) -> None:
    app = Headrace(f"rediss://localhost:{port}/0?ns=x")
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
        app.store.run(app.store.counts())
    app.close()


def test_without_tls_at_a_port_with_it(port: int) -> None:
    app = Headrace(f"redis://localhost:{port}/0?ns=x")
    with pytest.raises(StoreUnavailable, match=f"localhost:{port}"):
        app.store.run(app.store.counts())
    app.close()
