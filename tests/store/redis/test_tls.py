"""TLS: the same store at one server, or at a cluster. (Sentinels: test_sentinel.py.)"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from headrace import Headrace
from headrace.errors import StoreUnavailable
from leftovers import at_every_step, nothing_unclosed
from processes import eventually

from .servers import Server, free_port
from .tls import CERTIFICATE, as_arguments, need_program_with_tls, speaking_tls, tls_options

Listening = tuple[subprocess.Popen[bytes], int]
"""A process that speaks TLS, and where."""


@pytest.fixture(scope="module")
def listening() -> Iterator[Listening]:
    port = free_port()
    with speaking_tls(port) as process:
        yield process, port


@pytest.fixture
def port(listening: Listening) -> int:
    return listening[1]


@pytest.fixture
def app(port: int, request: pytest.FixtureRequest) -> Iterator[Headrace]:
    app = Headrace(f"rediss://localhost:{port}/0?ns={request.node.name}&ssl_ca_certs={CERTIFICATE[0]}")
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


def test_a_loop_that_ends_waits_for_no_farewell_and_leaves_nothing_open(app: Headrace, listening: Listening) -> None:
    process = listening[0]

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


@pytest.mark.parametrize("namespace", ["shop", "garden"])  # on one node, on the other
def test_a_cluster(private: Callable[..., Server], namespace: str) -> None:
    """Whichever node is asked first: it sends us on to a port with TLS."""
    ports = [free_port() for _ in range(2)]
    nodes = []
    for port in ports:
        options = {"cluster-enabled": "yes", "tls-cluster": "yes", **tls_options(CERTIFICATE, port)}
        nodes.append(private(*as_arguments(options), program=need_program_with_tls()))
    nodes[0].command("CLUSTER", "ADDSLOTS", *range(8_000))
    nodes[1].command("CLUSTER", "ADDSLOTS", *range(8_000, 16_384))
    nodes[0].command("CLUSTER", "MEET", "127.0.0.1", ports[1])
    eventually(lambda: all(node.client().cluster("info")["cluster_state"] == "ok" for node in nodes), "the cluster")
    for port in ports:
        url = f"redis+cluster://127.0.0.1:{port}?ns={namespace}&tls=yes&ssl_ca_certs={CERTIFICATE[0]}"
        with closing(Headrace(url)) as app:

            @app.task(name="double")
            def double(number: int) -> int:
                return 2 * number

            with app.worker():
                assert double.enqueue(port).result(timeout=20) == 2 * port


def test_a_certificate_that_nobody_vouches_for_is_refused(port: int) -> None:
    app = Headrace(f"rediss://localhost:{port}/0?ns=x")
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
        app.store.run(app.store.counts())
    app.close()


def test_a_certificate_for_another_name_is_refused(port: int) -> None:
    url = f"rediss://127.0.0.2:{port}/0?ns=x&ssl_ca_certs={CERTIFICATE[0]}"
    with closing(Headrace(url)) as app, pytest.raises(StoreUnavailable, match=r"(?i)certificate.*127\.0\.0\.2"):
        app.store.run(app.store.counts())
    for unless in ("ssl_check_hostname=no", "ssl_cert_reqs=none"):
        with closing(Headrace(f"{url}&{unless}")) as app:
            assert app.store.run(app.store.counts()) == []


def test_without_tls_at_a_port_with_it(port: int) -> None:
    app = Headrace(f"redis://localhost:{port}/0?ns=x")
    with pytest.raises(StoreUnavailable, match=f"localhost:{port}"):
        app.store.run(app.store.counts())
    app.close()
