"""A server that asks for a secret: an extension between headrace's own client and server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.dialects.bedrock import AsyncClient, BedrockError, Client
from headrace.dialects.bedrock.server.process import read_secret
from headrace.dialects.bedrock.wire import prove
from headrace.errors import ConfigurationError
from processes import eventually

from .harness import InProcess

SECRET = "correct horse, battery: staple"


@pytest.fixture
def guarded(make_server: Callable[..., InProcess]) -> InProcess:
    return make_server(secret=SECRET)


def at(server: InProcess) -> str:
    return f"127.0.0.1:{server.port}"


def count(server: InProcess) -> int:
    """How many commands other than Authenticate have made jobs."""
    return int(server.on_loop(lambda: server.server.commit_count))


def test_a_client_that_knows_the_secret_is_served(guarded: InProcess) -> None:
    with Client(at(guarded), secret=SECRET) as client:
        job = client.create_job("x")
        assert client.get_job("x", wait=True, timeout=1)["jobID"] == job
        assert "staple" not in f"{client!r} {vars(client)}"


def test_an_async_client_that_knows_the_secret_is_served(guarded: InProcess) -> None:
    async def main() -> None:
        async with AsyncClient(at(guarded), secret=SECRET) as client:
            job = await client.create_job("x")
            assert (await client.get_job("x"))["jobID"] == job
        with pytest.raises(ConfigurationError, match="another secret"):
            await AsyncClient(at(guarded), secret="wrong").ping()

    asyncio.run(main())


def test_a_client_with_another_secret_is_refused(guarded: InProcess) -> None:
    with Client(at(guarded), secret="wrong") as client, pytest.raises(ConfigurationError, match="another secret"):
        client.create_job("x")
    assert count(guarded) == 0


def test_a_client_without_the_secret_is_refused(guarded: InProcess) -> None:
    with Client(at(guarded)) as client:
        client.ping()
        with pytest.raises(BedrockError, match=r"401 Unauthorized: this server asks for a secret"):
            client.create_job("x")
    with guarded.connect() as wire:
        assert wire.ask("GET /status/handlingCommands HTTP/1.1").status == "HTTP/1.1 200 LEADING"
        for line in ("CreateJob", "Status", "Query: SELECT 1;", "CrashBedrockJob", "Nonsense"):
            assert wire.ask(line, name="x", names="x", unique="true").status == "401 Unauthorized"
        assert wire.ask("CreateJob", name="x", Connection="forget").status == "401 Unauthorized"
    assert count(guarded) == 0


def test_a_proof_is_good_for_one_challenge_of_one_connection(guarded: InProcess) -> None:
    with guarded.connect() as one, guarded.connect() as other:
        first = one.ask("Authenticate").headers["challenge"]
        second = other.ask("Authenticate").headers["challenge"]
        assert first != second
        assert other.ask("Authenticate", proof=prove(SECRET, first)).status == "401 Unauthorized"
        assert other.ask("Authenticate", proof=prove(SECRET, second)).status == "401 Unauthorized"  # one try each
        assert one.ask("Authenticate", proof=prove(SECRET, first)).status == "200 OK"
        assert one.ask("CreateJob", name="x").status == "200 OK"
        assert other.ask("CreateJob", name="x").status == "401 Unauthorized"
        assert other.ask("Authenticate", proof="ü").status == "401 Unauthorized"


def test_a_secret_for_a_server_that_asks_for_none(server: InProcess) -> None:
    with Client(at(server), secret=SECRET) as client, pytest.raises(ConfigurationError, match="asks for no secret"):
        client.ping()


def test_the_secret_of_a_store_is_in_its_url(guarded: InProcess) -> None:
    app = Headrace(f"bedrock://:correct%20horse,%20battery%3A%20staple@{at(guarded)}")
    with closing(app):
        ran = threading.Event()

        @app.task(name="t")
        def t() -> None:
            ran.set()

        with app.worker():
            eventually(guarded.waiting, "a worker that waits")
            t.enqueue()
            assert ran.wait(10)
        assert "staple" not in f"{app!r} {vars(app)} {app.store!r} {vars(app.store)}"


def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("hunter2\n")
    with pytest.raises(ConfigurationError, match="shorter than 16"):
        read_secret(str(path))
    path.write_text(f"{SECRET}\n")
    assert read_secret(str(path)) == SECRET
