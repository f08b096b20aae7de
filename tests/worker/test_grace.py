"""Grace: a worker that is cut off warns its jobs before others may take them. And what a heartbeat returns."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from headrace import Headrace, State, StoreUnavailable, current
from headrace.ops.look import WorkerFigures
from headrace.records import SessionInfo, Take
from headrace.worker.child import Child, Measure
from headrace.worker.custody import Custody
from headrace.worker.ledger import Ledger
from headrace.worker.lifeline import Lifeline
from headrace.worker.process import Settings
from headrace.worker.supervisor import Supervisor
from processes import Witness, alive, eventually, worker_process
from store.postgres import servers as postgres_servers
from store.redis import servers as redis_servers
from store.redis.proxy import Proxy

from . import tasks, winding
from .conftest import NATIVE

LONG = 20.0


def child(lasts: int) -> Child:
    process = SimpleNamespace(pid=0)
    info = SessionInfo(id="s", name="w", timeout=lasts)
    return Child(process, info, 15_000, Ledger.shared(), Custody(()), Lifeline())  # type: ignore[arg-type]


def test_a_process_with_a_grace_is_warned_before_it_is_ended() -> None:
    warned = child(45_000)
    seen = [warned.due_measure(silence) for silence in (14_000, 14_001, 20_000, 44_000, 44_001, 50_000)]
    assert seen == [None, Measure.WARN, None, None, Measure.END, None]
    warned.close()


def test_a_process_without_a_grace_is_ended_before_others_take_its_jobs() -> None:
    ended = child(15_000)
    assert [ended.due_measure(silence) for silence in (14_000, 14_001, 15_000)] == [None, Measure.END, None]
    ended.close()


def test_a_job_is_warned_at_the_time_out_and_others_wait_for_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task
    def wind_up() -> None:
        run = current()
        monkeypatch.setattr(app.store, "renew", fail)
        eventually(lambda: run.cancelled, "the warning")
        holders.extend(worker for worker in app.workers() if worker.running)
        warned.set()

    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("cut off")

    holders: list[WorkerFigures] = []
    warned = threading.Event()
    wind_up.enqueue()
    worker = app.worker(session_timeout=1, session_grace="1 hour").start()
    assert warned.wait(LONG)
    monkeypatch.undo()
    worker.stop()
    for thread in threading.enumerate():
        if thread.name == "headrace-rest":  # settles the job, whose thread outlasted its session
            thread.join(LONG)
    assert [(holder.alive, holder.timeout_seconds) for holder in holders] == [(True, 3_601)]
    app.close()


class Cut(NamedTuple):
    """A store with a network in front of it."""

    app: Headrace
    """Goes round the network."""
    url: str
    proxy: Proxy


@pytest.fixture(params=NATIVE[1:])
def cut(request: pytest.FixtureRequest, witness: Witness) -> Iterator[Cut]:
    server: Any
    if request.param == "redis":
        server = redis_servers.Server(tcp=True)
        path, url = server.socket, "redis://127.0.0.1:{}/0?ns=grace"
        direct = url.format(server.port)
    else:
        server = postgres_servers.Server(*postgres_servers.Server.QUICK)
        path, url = f"{server.folder}/.s.PGSQL.{server.port}", "postgresql://postgres@127.0.0.1:{}/postgres"
        direct = server.url()
    before = winding.app.url
    with closing(server), closing(Proxy(path)) as proxy, closing(winding.app) as app:
        app.url = direct
        app.use_store(None)
        yield Cut(app, url.format(proxy.port), proxy)
        proxy.restore()
    winding.app.url = before


def test_a_job_of_a_process_that_is_cut_off_is_warned_and_can_wind_up(
    cut: Cut, witness: Witness, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job = winding.wind_up.enqueue(str(gate))
    options = ("--session-timeout", "2s", "--session-grace", "1h")
    with worker_process("worker.winding:app", cut.url, *options, log=tmp_path / "log") as worker:
        started = witness.wait("start")
        cut.proxy.hold()
        warned = witness.wait("warned")
        assert "telling its jobs to stop" in worker.log
        assert warned.pid == started.pid
        cut.proxy.restore()
        gate.touch()
        assert job.result(timeout=LONG) == "tidied up"
        assert (job.crashes, len(witness.marks("start"))) == (0, 1)
        eventually(lambda: not alive(started.pid), "the process to make way for another")
        assert tasks.nothing.enqueue(7).result(timeout=LONG) == 7


@pytest.mark.parametrize(("cut_off", "crashes"), [(True, 0), (False, 1)])
def test_jobs_of_a_process_that_is_ended_because_the_store_was_away_are_not_to_blame(
    cut_off: bool, crashes: int
) -> None:
    with closing(Headrace("sqlite:///:memory:")) as app:

        @app.task
        def run() -> None: ...

        job, dead = run.enqueue(), child(45_000)
        app.store.run(app.store.open(dead.info))
        (lease,) = app.store.run(app.store.exchange("s", 1, (), Take(("default",), 1, 0), steady=0)).leases
        dead.ledger.enter(lease.ref, 0, None)
        dead.cut_off = cut_off
        Supervisor(app, Settings(app_path="", store=app.url, queues=(), slots=1))._bury(dead, -signal.SIGKILL)
        assert (job.state, job.crashes) == (State.READY, crashes)


def test_a_heartbeat_returns_when_the_lease_runs_out() -> None:
    app = Headrace("sqlite:///:memory:")
    found: list[tuple[datetime, datetime, datetime]] = []

    @app.task
    def work() -> None:
        before, until = datetime.now(UTC), current().heartbeat()
        eventually(lambda: current().heartbeat() > until, "a renewal, which the worker makes")
        found.append((before, until, datetime.now(UTC)))

    work.enqueue()
    worker = app.worker(session_timeout=3).start()
    eventually(lambda: found, "the run")
    worker.stop()
    ((before, until, after),) = found
    assert before < until <= after + timedelta(seconds=3)
    app.close()


def test_a_heartbeat_in_a_test_returns_a_time_of_its_clock() -> None:
    app = Headrace("sqlite:///:memory:")
    found: list[datetime] = []

    @app.task
    def work() -> None:
        found.append(current().heartbeat())

    with app.testing() as t:
        work.enqueue()
        t.run_all()
        assert found == [t.now + timedelta(hours=1)]
