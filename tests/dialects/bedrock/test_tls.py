"""A server that speaks TLS: an extension between headrace's own client and server."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.dialects.bedrock import AsyncClient, Client, WaitTimeout
from headrace.dialects.bedrock.server.process import tls_context
from headrace.dialects.bedrock.server.server import Options
from headrace.errors import ConfigurationError, MaybeApplied, StoreUnavailable
from headrace.values.clock import SystemClock
from processes import eventually
from store.redis.tls import CERTIFICATE, Files

from .harness import InProcess

SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def certificate() -> Files:
    return CERTIFICATE


@pytest.fixture
def encrypted(tmp_path: Path, certificate: Files) -> Iterator[InProcess]:
    certificate_file, key = map(str, certificate)
    options = Options(node_name="node", secret=SECRET, tls=tls_context(certificate_file, key))
    server = InProcess(tmp_path / "jobs.db", options, SystemClock()).start()
    yield server
    server.stop()


@pytest.fixture
def trusting(certificate: Files) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


@pytest.fixture
def client(encrypted: InProcess, trusting: ssl.SSLContext) -> Iterator[Client]:
    with Client(at(encrypted), secret=SECRET, tls=trusting) as client:
        yield client


@pytest.fixture
def app(encrypted: InProcess, certificate: Files) -> Iterator[Headrace]:
    with closing(Headrace(f"bedrock://:{SECRET}@{at(encrypted)}?tls=yes&ca={certificate[0]}")) as app:
        yield app


def at(server: InProcess) -> str:
    return f"127.0.0.1:{server.port}"


LARGE = {"text": "x" * 700_000}
"""More than a record of TLS, and than any buffer on the way."""


def test_a_client(client: Client, encrypted: InProcess) -> None:
    for number in range(1, 4):
        assert client.create_job("x", LARGE) == number
    assert [job["data"] for job in client.get_jobs("x", 9)] == [LARGE] * 3
    with pytest.raises(WaitTimeout):
        client.get_job("x", wait=True, timeout=1)
    assert encrypted.on_loop(lambda: len(encrypted.server._connections)) == 1  # it is used again and again


def test_an_async_client(encrypted: InProcess, trusting: ssl.SSLContext) -> None:
    async def main() -> None:
        async with AsyncClient(at(encrypted), secret=SECRET, tls=trusting) as client:
            for number in range(1, 4):
                assert await client.create_job("x", LARGE) == number
            assert [job["data"] for job in await client.get_jobs("x", 9)] == [LARGE] * 3
            assert encrypted.on_loop(lambda: len(encrypted.server._connections)) == 1

    asyncio.run(main())


def test_a_worker_that_waits(app: Headrace, encrypted: InProcess) -> None:
    ran: list[int] = []

    @app.task(name="wake")
    def wake(number: int) -> None:
        ran.append(number)

    with app.worker(slots=2):
        for number in range(5):
            eventually(encrypted.waiting, "a worker that waits")
            wake.enqueue(number)
            eventually(lambda number=number: len(ran) == number + 1, "the run")
    assert encrypted.waiting() == 0
    assert ran == list(range(5))


def test_a_busy_worker_withdraws_its_request(app: Headrace, encrypted: InProcess, client: Client) -> None:
    gate = threading.Event()
    started = threading.Semaphore(0)

    @app.task(name="slow")
    def slow() -> None:
        started.release()
        gate.wait(20)

    with app.worker(slots=2):
        eventually(encrypted.waiting, "a worker that waits")
        app.enqueue_many([slow.call() for _ in range(5)])
        assert started.acquire(timeout=10)
        assert started.acquire(timeout=10)
        eventually(lambda: encrypted.waiting() == 0, "the request to be withdrawn")
        eventually(lambda: client.query("SELECT count(*) FROM jobs WHERE state = 'QUEUED'").rows == [[3]], "the rest")
        gate.set()
        eventually(lambda: client.query("SELECT count(*) FROM jobs").rows == [[0]], "all to be done")


def test_a_client_that_does_not_trust_the_certificate(encrypted: InProcess) -> None:
    with (
        Client(at(encrypted), secret=SECRET, tls=ssl.create_default_context()) as client,
        pytest.raises(StoreUnavailable, match="certificate verify failed"),
    ):
        client.ping()


def test_a_client_without_tls(encrypted: InProcess, client: Client) -> None:
    with Client(at(encrypted), timeout=5) as plain, pytest.raises((StoreUnavailable, MaybeApplied)):
        plain.create_job("x")
    client.ping()  # others are served


def test_a_server_that_stops_answers_those_that_wait(encrypted: InProcess, client: Client) -> None:
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            client.get_job("x", wait=True)
        except WaitTimeout as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(encrypted.waiting, "a waiter")
    encrypted.stop_gently()
    thread.join(20)
    assert len(ended) == 1


@pytest.mark.parametrize(("query", "words"), [("tls=maybe", "yes or no"), ("ca=/nowhere", "ca=/nowhere")])
def test_odd_options(query: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Headrace(f"bedrock://localhost?{query}").store  # noqa: B018


def test_a_certificate_without_its_key(certificate: Files) -> None:
    with pytest.raises(ConfigurationError, match="can't be used"):
        tls_context(str(certificate[0]), None)
