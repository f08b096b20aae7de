"""A moment's trouble with the store ends no worker, and no job is charged for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, MaybeApplied, StoreBusy, StoreUnavailable
from headrace.records import SessionInfo
from headrace.store import Waiter
from headrace.worker import process as worker_processes
from headrace.worker.ledger import Ledger
from processes import Witness, worker_process
from store.postgres import servers as postgres_servers

from . import tasks

LONG = 20.0
ERRORS = [StoreUnavailable("the server restarts"), StoreBusy("a statement was stopped"), MaybeApplied("cut")]


class Moody:
    """A store's waiter that fails in one of its methods, now and then."""

    urgent = False

    def __init__(self, waiter: Waiter, method: str, error: Exception) -> None:
        self._waiter = waiter
        self.failures = 0
        self._error = error
        self._good = getattr(waiter, method, None)
        for name in (
            "arm",
            "wait",
            "wait_async",
            "poke",
            "close",
        ):  # what it is, is seen by what it has, from Python 3.12 on
            setattr(self, name, getattr(waiter, name))
        setattr(self, method, self._fail_at_times)

    def _fail_at_times(self, *arguments: Any) -> Any:
        self.failures += 1
        if self.failures % 2 or self._good is None:
            raise self._error
        return self._good(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name == "wait_and_run":
            raise AttributeError(name)
        return getattr(self._waiter, name)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", ["arm", "wait", "wait_and_run"])
def test_a_worker_outlasts_a_waiter_that_fails(method: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    waiters: list[Moody] = []
    with closing(Headrace("sqlite:///:memory:")) as app:
        gate = threading.Event()

        @app.task
        def run(number: int) -> int:
            assert number or gate.wait(LONG)
            return number

        make = app.store.waiter

        def moody(*given: Any) -> Any:
            waiters.append(Moody(make(*given), method, error))
            return waiters[-1]

        monkeypatch.setattr(app.store, "waiter", moody)
        with app.worker(slots=2):
            long = run.enqueue(0)
            assert [run.enqueue(number).result(timeout=LONG) for number in range(1, 10)] == list(range(1, 10))
            gate.set()
            assert long.result(timeout=LONG) == 0
            assert long.attempts == 1
        assert len(waiters) == 1, "one session"
        assert waiters[0].failures > 0


def test_a_process_whose_waiter_can_not_be_made_at_first_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []

    class Pump(worker_processes.Pump):
        def __init__(self, *given: Any, **more: Any) -> None:
            if len(failures) < 2:
                failures.append(StoreUnavailable("the server restarts"))
                raise failures[-1]
            super().__init__(*given, **more)

    monkeypatch.setattr(worker_processes, "Pump", Pump)
    settings = worker_processes.Settings(app_path="", store="", queues=("default",), slots=1)
    with closing(Headrace("sqlite:///:memory:")) as app, closing(Ledger.shared()) as ledger:
        config = worker_processes.ProcessConfig(
            settings=settings,
            info=SessionInfo(id="s", name="s"),
            timeout=1,
            ledger=0,
            custody=(),
            meter=None,
            lifeline=0,
        )
        worker_processes._make_pump(config, app, ledger).close()
    assert len(failures) == 2


@pytest.fixture
def server() -> Iterator[postgres_servers.Server]:
    with closing(postgres_servers.Server(*postgres_servers.Server.QUICK)) as server:
        yield server


def restart(server: postgres_servers.Server) -> None:
    server.kill(signal.SIGINT)
    server.start()


def stop_statements(server: postgres_servers.Server) -> None:
    server.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


def end_connections(server: postgres_servers.Server) -> None:
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )


@pytest.mark.skipif(not postgres_servers.INSTALLED, reason="there is no PostgreSQL")
@pytest.mark.parametrize("trouble", [restart, stop_statements, end_connections])
def test_a_process_and_its_jobs_outlast_a_moment_of_postgresql(
    server: postgres_servers.Server,
    trouble: Callable[[postgres_servers.Server], None],
    witness: Witness,
    tmp_path: Path,
) -> None:
    before, gate = tasks.app.url, tmp_path / "gate"
    tasks.app.url = server.url()
    with closing(tasks.app) as app:
        app.use_store(None)
        long = [tasks.wait_for.enqueue(str(gate)) for _ in range(2)]
        with worker_process("worker.tasks:app", app.url, "--slots", "3", log=tmp_path / "log") as worker:
            process = witness.wait("start", count=2).pid
            for number in range(8):
                trouble(server)
                assert eventually_run(number) == number
            assert worker.children() == [process], worker.log
            gate.touch()
            for job in long:
                job.result(timeout=LONG)
                assert (job.attempts, job.crashes) == (1, 0)
            assert len(witness.marks("start")) == 2
    tasks.app.url = before


def eventually_run(number: int) -> int:
    """Enqueue and wait, again if the caller meets the trouble itself."""
    while True:
        try:
            return int(tasks.nothing.enqueue(number).result(timeout=LONG))
        except (StoreUnavailable, MaybeApplied):
            continue
