"""A store that goes back in time: restored from an older snapshot, as a replica that was behind would be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace, State
from headrace.dialects.gearmonkey import Client, Worker
from processes import Witness, eventually, worker_process
from store.redis.servers import Server

from . import tasks
from .conftest import witness

__all__ = ["witness"]


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server(tcp=True)) as server:
        yield server


@pytest.fixture(params=["{}?ns=back", "gearmonkey+{}"], ids=["redis", "gearmonkey"])
def app(request: pytest.FixtureRequest, server: Server, witness: Witness) -> Iterator[Headrace]:
    before = tasks.app.url
    tasks.app.url = request.param.format(server.url)
    tasks.app.use_store(None)
    yield tasks.app
    tasks.app.close()
    tasks.app.url = before


def set_back(server: Server) -> None:
    """Start it anew, with what it saved last."""
    server.kill()
    server.start()


def test_what_ran_at_the_time_of_the_snapshot_is_not_stranded(
    app: Headrace, server: Server, witness: Witness, tmp_path: Path
) -> None:
    """Its worker lives and has long settled it: it does not hold it, whatever the store says."""
    with worker_process(
        "worker.tasks:app", app.url, "--slots", "1", "--session-timeout", "3s", log=tmp_path / "log"
    ) as worker:
        first = tasks.wait_for.enqueue(str(tmp_path / "go"))
        witness.wait("start", first.id)
        second = tasks.wait_for_isolated.enqueue(str(tmp_path / "go on"))
        server.command("SAVE")
        (tmp_path / "go").touch()
        witness.wait("start", second.id)  # so the first one is settled
        set_back(server)
        (tmp_path / "go on").touch()
        witness.wait("start", first.id, count=2)
        eventually(lambda: {first.refresh().state, second.refresh().state} == {State.DONE}, "both jobs to be done")
        worker.logged("though the store says so")


def test_an_idle_worker_notices_too(app: Headrace, server: Server, witness: Witness, tmp_path: Path) -> None:
    job = tasks.wait_for.enqueue(str(tmp_path / "go"))
    with app.worker(slots=1, session_timeout=3):
        witness.wait("start", job.id)
        server.command("SAVE")
        (tmp_path / "go").touch()
        job.result(timeout=20)
        set_back(server)
        witness.wait("start", job.id, count=2)
        eventually(lambda: job.refresh().state is State.DONE, "it to be done again")


def test_what_the_store_no_longer_knows_is_stopped(
    app: Headrace, server: Server, witness: Witness, tmp_path: Path
) -> None:
    with app.worker(slots=1, session_timeout=3):
        eventually(lambda: app.store.run(app.store.sessions()), "the worker's session")
        server.command("SAVE")
        job = tasks.wait_for_async.enqueue(str(tmp_path / "go"))
        witness.wait("start", job.id)
        set_back(server)
        assert tasks.nothing.enqueue(1).result(timeout=20) == 1, "its slot is free"
        assert witness.marks("end", job.id) == []


def test_gearmonkeys_own_worker_gives_back_what_it_does_not_know(server: Server) -> None:
    runs: list[str] = []
    gate = threading.Event()

    def work(given: str) -> str:
        runs.append(given)
        assert gate.wait(20)
        return given

    url = f"gearmonkey+{server.url}"
    worker = Worker(url, lease=2)
    worker.accept("shout", work)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    with closing(Client(url)) as client:
        client.run("shout", "a")
        eventually(lambda: runs, "the job to run")
        server.command("SAVE")
        gate.set()
        assert client.wait("shout", client.run("shout", "b"), 20).output == "b"  # so the first one is settled
        set_back(server)
        eventually(lambda: runs == ["a", "b", "a"], "it to run again")
        worker.stop()
        thread.join(20)
    worker.store.close()
