"""The client, in both kinds: commands, errors, reconnecting, failing over."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dialects.bedrock.harness import InProcess
from headrace.dialects.bedrock import (
    AsyncClient,
    BedrockError,
    Client,
    DoesNotExist,
    IllegalAction,
    MalformedAttribute,
    SqlFailed,
    WaitTimeout,
)
from headrace.dialects.bedrock.wire import Host, read_host
from headrace.errors import ConfigurationError, MaybeApplied, StoreUnavailable
from headrace.values.clock import ManualClock
from processes import eventually


class Blocking:
    """An async client, driven from a test without a loop: the same calls, the same answers."""

    def __init__(self, *addresses: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncClient(*addresses)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *args, **kwargs: self._loop.run_until_complete(method(*args, **kwargs))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


@pytest.fixture(params=[Client, Blocking])
def make_client(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(*addresses: str) -> Any:
        made.append(request.param(*addresses))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_client: Callable[..., Any], server: InProcess) -> Any:
    return make_client(f"127.0.0.1:{server.port}")


def test_every_command(client: Any, clock: ManualClock) -> None:
    client.ping()
    assert client.status()["state"] == "LEADING"
    data = {"text": 'two\nlines\t"quoted" \\ back', "euro": "€", "list": [1, 2.5, None]}
    job = client.create_job("mail/Welcome", data, priority=1000, retry_after="+1 HOUR", first_run="2026-01-01")
    got = client.get_job("mail/*")
    assert (got["jobID"], got["data"], got["nextRun"], got["priority"]) == (job, data, "2026-01-01", 1000)
    client.update_job(job, {"new": 1}, repeat="FINISHED, +1 HOUR", priority=250)
    assert client.query_job(job)["data"] == {"new": 1}
    client.finish_job(job, {"n": 2})
    assert client.query_job(job)["nextRun"] == "2026-03-01 11:00:00"
    client.update_job(job, {}, clear_repeat=True, next_run="2026-01-01")
    client.get_job("mail/Welcome")
    client.retry_job(job, delay=5, name="mail/Again", data={"again": True}, priority=750, ignore_repeat=True)
    clock.advance(5_000)
    assert [found["name"] for found in client.get_jobs("mail/Again,other", 3, priority=750)] == ["mail/Again"]
    client.fail_job(job, {"why": "because"})
    client.requeue_jobs([job], name="mail/Third", decrement_failures=True)
    assert client.query_job(job)["name"] == "mail/Third"
    client.delete_job(job)
    first, second = client.create_jobs([{"name": "p"}, {"name": "q", "data": {"a": "\\"}, "unique": True}])
    assert client.create_job("q", {"a": "\\"}, unique=True) == second
    client.get_job("p")
    child = client.create_job("c", parent_id=first, overwrite=False)
    client.finish_job(first)
    client.cancel_job(child)
    sequential = client.create_job("s", sequential_key="k")
    mocked = client.create_job("m", mocked=True)
    assert client.get_job("m", mocked=True)["jobID"] == mocked
    client.crash_jobs(["s*"])
    assert client.get_job("s") == {}
    client.clear_crashed_jobs()
    table = client.query(f"SELECT jobID, state FROM jobs WHERE jobID = {sequential}")
    assert table == (["jobID", "state"], [[sequential, "FAILED"]], None)


def test_errors_by_code(client: Any) -> None:
    for call, kind, status in (
        (lambda: client.create_job("x" * 300), MalformedAttribute, "402 Malformed name"),
        (lambda: client.get_job("x"), DoesNotExist, "404 No job found"),
        (lambda: client.fail_job(client.create_job("x")), IllegalAction, "405 Can only fail RUNNING or RUNQUEUED jobs"),
        (lambda: client.query("DELETE FROM jobs WHERE 1"), SqlFailed, "502 Query failed"),
        (lambda: client.get_job("y", wait=True, timeout=10), WaitTimeout, "303 Timeout"),
        (lambda: client.create_jobs([]), BedrockError, "401 Invalid JSON"),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind
        assert caught.value.status == status
    with pytest.raises(SqlFailed, match="read-only"):
        client.query("DELETE FROM jobs WHERE 1")


def test_waiting(client: Any, server: InProcess) -> None:
    def create() -> None:
        while not server.waiting():
            pass
        server.ask("CreateJob", name="later")

    thread = threading.Thread(target=create)
    thread.start()
    assert client.get_job("later", wait=True)["name"] == "later"
    thread.join()


def test_connections_are_reused(client: Any, server: InProcess) -> None:
    for _ in range(5):
        client.ping()
    assert server.on_loop(lambda: len(server.server._connections)) == 1


def test_threads_share_a_client(server: InProcess) -> None:
    with Client(f"127.0.0.1:{server.port}") as client:
        ids: list[int] = []

        def create() -> None:
            ids.extend(client.create_job("x") for _ in range(50))

        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(ids) == list(range(1, 401))


def test_a_restart_goes_unnoticed(make_client: Callable[..., Any], make_server: Callable[..., InProcess]) -> None:
    server = make_server()
    client = make_client(f"127.0.0.1:{server.port}")
    job = client.create_job("x")
    server.on_loop(lambda: [connection.close() for connection in tuple(server.server._connections)])
    assert client.create_job("x") == job + 1


def test_nobody_there(make_client: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StoreUnavailable, match=f"No Bedrock server answers at 127.0.0.1:{port}"):
        make_client(f"127.0.0.1:{port}").ping()


@contextmanager
def impostor(*answers: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that gives these answers, one per connection, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)
    heard: list[bytes] = []

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            heard.append(connection.recv(65536))
            connection.sendall(answer)
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], heard
        thread.join(10)
    finally:
        listener.close()


OK = b'200 OK\r\nContent-Length: 11\r\n\r\n{"jobID":7}'


def test_unsure_creates_say_so(make_client: Callable[..., Any]) -> None:
    with impostor(b"") as (port, heard), pytest.raises(MaybeApplied, match="may or may not have been done"):
        make_client(f"127.0.0.1:{port}").create_job("x")
    assert len(heard) == 1


def test_what_is_idempotent_is_sent_again(make_client: Callable[..., Any]) -> None:
    with impostor(b"200 OK\r\nConte", OK) as (port, heard):
        assert make_client(f"127.0.0.1:{port}").create_job("x", unique=True) == 7
    assert heard[0] == heard[1]


@pytest.mark.parametrize("status", [b"555 Timeout", b"500 Internal Server Error", b"555 Timeout processing command"])
def test_what_was_not_processed_goes_to_another(make_client: Callable[..., Any], status: bytes) -> None:
    refusal = status + b"\r\nContent-Length: 0\r\n\r\n"
    with impostor(refusal) as (first, _), impostor(OK) as (second, heard):
        assert make_client(f"127.0.0.1:{first}", f"127.0.0.1:{second}").create_job("x") == 7
    assert heard[0].startswith(b"CreateJob\r\n")


def test_what_may_have_been_processed_does_not(make_client: Callable[..., Any]) -> None:
    refusal = b"555 Timeout postProcessing command\r\nContent-Length: 0\r\n\r\n"
    with impostor(refusal) as (port, _), pytest.raises(BedrockError, match="555 Timeout postProcessing"):
        make_client(f"127.0.0.1:{port}", "127.0.0.1:1").create_job("x")


def test_failing_over(make_client: Callable[..., Any], server: InProcess) -> None:
    client = make_client("127.0.0.1:1", f"127.0.0.1:{server.port}")
    assert client.create_job("x") == 1
    assert client.hosts.in_order()[0].port == server.port if isinstance(client, Client) else True


def test_the_wire_is_that_of_the_php_client(make_client: Callable[..., Any]) -> None:
    with impostor(OK) as (port, heard):
        make_client(f"127.0.0.1:{port}").create_job("mail/Odd", {"text": 'two\nlines "quoted"'}, repeat="", unique=True)
    assert heard[0] == (
        b"CreateJob\r\nname: mail/Odd\r\n" rb'data: {"text":"two\\nlines \\"quoted\\""}' b"\r\nunique: true\r\n"
        b"Content-Length: 0\r\n\r\n"
    )  # fmt: skip


def test_close_is_heeded(make_client: Callable[..., Any]) -> None:
    closing = b"200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    with impostor(closing, closing) as (port, heard):
        client = make_client(f"127.0.0.1:{port}")
        client.ping()
        client.ping()
    assert len(heard) == 2


def test_a_fresh_connection_after_a_fork(server: InProcess) -> None:
    with Client(f"127.0.0.1:{server.port}") as client:
        client.ping()
        pid = os.fork()
        if pid == 0:
            try:
                client.create_job("child")
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert client.get_job("child")["name"] == "child"


@pytest.mark.usefixtures("a_thousand_files")
def test_descriptors_may_have_large_numbers(client: Any) -> None:
    client.ping()
    client.ping()  # on the connection that was kept


def test_a_cancelled_wait_takes_nothing(server: InProcess) -> None:
    async def main() -> None:
        async with AsyncClient(f"127.0.0.1:{server.port}") as client:
            waiting = asyncio.ensure_future(client.get_job("x", wait=True))
            while not await asyncio.to_thread(server.waiting):
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            while await asyncio.to_thread(server.waiting):
                await asyncio.sleep(0)
            job = await client.create_job("x")
            assert (await client.get_job("x"))["jobID"] == job

    asyncio.run(main())


def test_a_signal_handler_may_call_a_client_that_waits(server: InProcess, interruptible: int) -> None:
    """The wait goes on, and ends with the job that the handler has created."""
    with Client(f"127.0.0.1:{server.port}") as client:
        created: list[int] = []
        signal.signal(interruptible, lambda *_: created.append(client.create_job("x")))
        with interrupting(server, interruptible):
            assert client.get_job("x", wait=True, timeout=20_000)["jobID"] == 1
        assert created == [1]
        client.finish_job(1)


def test_a_signal_handler_that_raises_ends_a_wait_that_takes_nothing(server: InProcess, interruptible: int) -> None:
    def stop(*_: object) -> None:
        raise ZeroDivisionError("stop")

    with Client(f"127.0.0.1:{server.port}") as client:
        signal.signal(interruptible, stop)
        with interrupting(server, interruptible), pytest.raises(ZeroDivisionError, match="stop"):
            client.get_job("x", wait=True, timeout=20_000)
        eventually(lambda: server.waiting() == 0, "the waiter to be gone")
        job = client.create_job("x")
        assert client.get_job("x")["jobID"] == job


@pytest.fixture
def interruptible() -> Iterator[int]:
    """A signal whose handler a test may set."""
    before = signal.getsignal(signal.SIGUSR1)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


@contextmanager
def interrupting(server: InProcess, number: int) -> Iterator[None]:
    """Send a signal as soon as a client waits for a job."""

    def send() -> None:
        eventually(lambda: server.waiting() == 1, "a waiter")
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_addresses() -> None:
    assert read_host("queue") == Host("queue", 8888)
    assert read_host("bedrock://[::1]:99") == Host("::1", 99)
    assert read_host(":99", listening=True) == Host("", 99)
    for bad in ("redis://x", "bedrock://", "x:y", "bedrock://x:99999"):
        with pytest.raises(ConfigurationError, match="is not an address"):
            read_host(bad)
    for bad in ("redis://x", "x:y", ":99999"):
        with pytest.raises(ConfigurationError, match="is not an address"):
            read_host(bad, listening=True)
