"""Workers inside a program that are cut off from their store for longer than a session lasts: each job runs once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from headrace import Headrace, StoreUnavailable
from headrace.records import SessionInfo
from headrace.store import Store
from headrace.worker import process
from headrace.worker.lifeline import Follower
from processes import eventually, worker_process
from store.redis.proxy import Proxy
from store.redis.servers import Server

URLS = {
    "redis": "redis://127.0.0.1:{port}/0?ns=outage",
    "qless": "qless+redis://127.0.0.1:{port}/0",
    "gearmonkey": "gearmonkey+redis://127.0.0.1:{port}/0",
    "workkit": "workkit+redis://127.0.0.1:{port}/0?schedule=default",
    "hworker": "hworker+redis://127.0.0.1:{port}/0?name=outage",
}
TIMEOUT = 1.2
"""Seconds that a session lasts here; a worker that could not renew it gives up 0.3 s earlier."""
LINGERS = 100
"""The number of a job that runs until the gate is open."""
CUT_OFF = "cut off from the store"


class Scene:
    """A worker's app behind a proxy, a client's app that goes round it, and what ran."""

    def __init__(self, server: Server, proxy: Proxy, url: str) -> None:
        self.proxy = proxy
        self.runs: list[int] = []
        self.gate = threading.Event()
        self.worker_app = self._app(url.format(port=proxy.port))
        self.client_app = self._app(url.format(port=server.port))

    def _app(self, url: str) -> Headrace:
        app = Headrace(url)

        @app.task(name="shop.outage/run")
        def run(number: int) -> None:
            self._run(number)

        return app

    def _run(self, number: int) -> None:
        self.runs.append(number)
        if number == LINGERS:
            assert self.gate.wait(20)

    def enqueue(self, number: int) -> None:
        self.client_app.tasks["shop.outage/run"].enqueue(number)

    def ran(self, *numbers: int) -> None:
        eventually(lambda: numbers[-1] in self.runs, f"job {numbers[-1]} to run")
        assert self.runs == list(numbers)


@pytest.fixture(params=URLS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    server = Server(tcp=True)
    with closing(server), closing(Proxy(server.socket)) as proxy:
        scene = Scene(server, proxy, URLS[request.param])
        yield scene
        scene.gate.set()
        scene.client_app.close()
        scene.worker_app.close()


@pytest.fixture(params=["hold", "refuse"])
def outage(request: pytest.FixtureRequest, scene: Scene) -> Callable[[], None]:
    """Begins an outage, of either kind: nothing arrives, or nobody is connected."""
    begin: Callable[[], None] = getattr(scene.proxy, request.param)
    return begin


def outlive_the_session(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until the worker has given its session up, and the store has, too."""
    end = time.monotonic() + 1.5 * TIMEOUT
    eventually(lambda: CUT_OFF in caplog.text, "the worker to give up")
    eventually(lambda: time.monotonic() > end, "the session to expire")


def test_what_is_taken_after_an_outage_runs_once(
    scene: Scene, outage: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The request that was under way when the worker gave its session up is answered after all."""
    with scene.worker_app.worker(slots=1, session_timeout=TIMEOUT):
        scene.enqueue(0)
        scene.ran(0)
        outage()
        scene.enqueue(1)
        outlive_the_session(caplog)
        scene.proxy.restore()
        scene.ran(0, 1)
        scene.enqueue(2)  # behind the first one, should that be in line again
        scene.ran(0, 1, 2)


def test_what_ended_during_an_outage_is_settled_after_it(
    scene: Scene, outage: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Its token is still the last one that was given out: the outcome counts, and nobody runs it again."""
    with scene.worker_app.worker(slots=1, session_timeout=TIMEOUT):
        scene.enqueue(LINGERS)
        scene.ran(LINGERS)
        outage()
        scene.gate.set()
        outlive_the_session(caplog)
        scene.proxy.restore()
        scene.enqueue(1)
        scene.ran(LINGERS, 1)


@pytest.mark.parametrize("scene", ["redis", "workkit"], indirect=True)
def test_a_thread_that_outlasts_an_outage_keeps_its_job(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """The worker gave the session up, as it could not know; the store has not, and it is kept until the thread ends."""
    with scene.worker_app.worker(slots=1, session_timeout=4):
        scene.enqueue(LINGERS)
        scene.ran(LINGERS)
        scene.proxy.hold()
        scene.enqueue(1)
        eventually(lambda: CUT_OFF in caplog.text, "the worker to give up")
        scene.proxy.restore()
        scene.ran(LINGERS, 1)
        scene.gate.set()
        eventually(lambda: not any(thread.name == "headrace-rest" for thread in threading.enumerate()), "the thread")
        scene.enqueue(2)
        scene.ran(LINGERS, 1, 2)


def test_a_locked_file_is_an_outage_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One job ends while nobody can write, another one falls due: both run once."""
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    runs: list[int] = []
    gate = threading.Event()

    @app.task
    def run(number: int) -> None:
        runs.append(number)
        if number == LINGERS:
            assert gate.wait(20)

    with closing(app), app.worker(slots=2, session_timeout=TIMEOUT):
        run.enqueue(LINGERS)
        eventually(lambda: runs, "the first job to run")
        later = run.using(run_after=0.5).enqueue(1)
        with closing(apsw.Connection(f"{tmp_path}/jobs.db")) as blocker:
            blocker.set_busy_timeout(20_000)  # the worker may be writing just now
            blocker.execute("BEGIN IMMEDIATE")
            gate.set()
            outlive_the_session(caplog)
            blocker.execute("COMMIT")
        later.result(timeout=20)
        run.enqueue(2).result(timeout=20)
    assert runs == [LINGERS, 1, 2]


def test_a_process_that_begins_while_the_store_is_away_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: str) -> Store:
        raise StoreUnavailable("the server is starting")

    monkeypatch.setattr(process, "open_store", away)
    monkeypatch.setattr(process, "load_app", lambda _: Headrace())
    settings = process.Settings(app_path="shop:app", store="postgresql://h/db", queues=(), slots=1)
    config = process.ProcessConfig(
        settings=settings, info=SessionInfo(id="s", name="s"), timeout=1, ledger=-1, custody=(), meter=None, lifeline=-1
    )
    assert process._run(config, Follower(-1)) == 75


def test_the_session_of_a_process_that_died_in_an_outage_is_closed_after_it(tmp_path: Path) -> None:
    """It was idle: the store would take it for alive for a day."""
    server = Server(tcp=True)
    with closing(server), closing(Proxy(server.socket)) as proxy:
        url = URLS["redis"]
        with (
            closing(Headrace(url.format(port=server.port))) as app,
            worker_process("worker.tasks:app", url.format(port=proxy.port), log=tmp_path / "log") as worker,
        ):

            def sessions() -> set[str]:
                return {worker.id for worker in app.workers()}

            first = eventually(sessions, "a worker")
            proxy.refuse()
            os.kill(worker.child(), signal.SIGKILL)
            worker.logged("could not be closed")
            assert sessions() == first
            proxy.restore()
            eventually(lambda: len(sessions()) == 1 and sessions() != first, "another one instead of it")
            assert worker.log.count("could not be closed") == 1
