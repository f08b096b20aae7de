"""The server of metrics bounds what its clients can make it do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from headrace.errors import ConfigurationError
from headrace.metrics import server as module
from headrace.metrics.server import Answer, MetricsServer, Shared, bind, said

from .scraping import get


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


@pytest.fixture
def waiting() -> list[str]:
    """What each call of the gated answer was told."""
    return []


@pytest.fixture
def server(gate: threading.Event, waiting: list[str]) -> Iterator[MetricsServer]:
    def broken(_: str) -> Answer:
        raise ValueError("a secret")

    def gated(accept: str) -> Answer:
        waiting.append(accept)
        gate.wait(60)
        return said(200, "at last")

    made = MetricsServer(
        bind("127.0.0.1:0"),
        {"/metrics": lambda accept: said(200, f"<{accept}>"), "/broken": broken, "/gated": gated},
    )
    made.start()
    yield made
    gate.set()
    made.close()


def connect(server: MetricsServer) -> socket.socket:
    host, _, port = server.where.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def ask(server: MetricsServer, request: bytes) -> bytes:
    """All that is answered."""
    with closing(connect(server)) as client:
        client.sendall(request)
        answer = b""
        while piece := _receive(client):
            answer += piece
        return answer


def _receive(client: socket.socket) -> bytes:
    try:
        return client.recv(65_536)
    except ConnectionResetError:
        return b""


def test_it_listens_on_this_machine_unless_told_otherwise() -> None:
    with closing(bind("0")) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "address", ["", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:65536", "²"]
)
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an address"):
        bind(address)


def test_a_host_that_is_not_here_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Nothing can listen at"):
        bind("192.0.2.1:0")


def test_a_path_is_answered_with_what_the_client_accepts(server: MetricsServer) -> None:
    assert get(f"{server.where}/metrics?x=y", Accept="text/plain")[2] == "<text/plain>\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", 200),
        (b"HEAD /metrics HTTP/1.0\r\n\r\n", 200),
        (b"GET /other HTTP/1.1\r\n\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000, 431),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
    ],
    ids=["get", "head", "unknown", "file", "post", "old", "noise", "long", "broken"],
)  # fmt: skip
def test_each_request_has_an_answer(server: MetricsServer, request_: bytes, status: int) -> None:
    head, _, body = ask(server, request_).partition(b"\r\n\r\n")
    if status == 431 and not head:
        return  # it was cut off while it still sent
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert bool(body) is not request_.startswith(b"HEAD")
    assert b"secret" not in body
    assert b"passwd" not in body


def test_a_request_that_does_not_come_is_given_up(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)
    assert b" 408 " in ask(server, b"GET /metr")


def test_silent_clients_hold_up_nobody_and_the_oldest_go_when_there_are_too_many(server: MetricsServer) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(connect(server))) for _ in range(3 * module.CONNECTIONS)]
        assert get(f"{server.where}/metrics")[0] == 200
        assert _receive(silent[0]) == b""  # cut off
        assert len(server._open) <= module.CONNECTIONS


def test_many_that_ask_at_once_share_one_answer(
    server: MetricsServer, gate: threading.Event, waiting: list[str]
) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(connect(server))) for _ in range(10)]
        for client in clients:
            client.sendall(b"GET /gated HTTP/1.1\r\n\r\n")
        assert get(f"{server.where}/metrics")[0] == 200  # others are answered meanwhile
        wait_until(lambda: len(server._busy["/gated", ""]._callbacks or ()) == len(clients))  # all have been heard
        gate.set()
        assert all(b" 200 OK" in _receive(client) for client in clients)
    assert waiting == [""]


def test_an_answer_that_does_not_come_in_time_is_unavailable(
    server: MetricsServer, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)
    assert b" 503 " in ask(server, b"GET /gated HTTP/1.1\r\n\r\n")


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)
    large = Answer(200, b"x" * 20_000_000)
    made = MetricsServer(bind("127.0.0.1:0"), {"/": lambda _: large})
    made.start()
    with closing(connect(made)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        wait_until(lambda: bool(made._open))
        wait_until(lambda: not made._open)
    made.close()


def wait_until(look: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not look():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_takes_long_is_asked_for_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [100.0], [0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def get_it() -> int:
        asked[0] += 1
        now[0] += 2.0
        return asked[0]

    shared = Shared(get_it, 1.0, 9.0)
    assert (shared(), shared()) == (1, 1)
    now[0] += 17.9
    assert shared() == 1
    now[0] += 0.2
    assert shared() == 2
