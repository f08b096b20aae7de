"""`headrace workers`: which process on which host, on both native stores."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from processes import eventually, worker_process
from store.redis import servers

from .conftest import Run, alone

Ask = Callable[..., Any]


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    alone(tmp_path, monkeypatch)
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_each_process_has_its_own_pid_and_a_host_that_people_know(
    app: Headrace, ask: Ask, run: Run, url: str, tmp_path: Path
) -> None:
    def workers() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask("workers")["workers"]
        return [worker for worker in found if worker["supervisor"] is not None]

    with worker_process("cli.shop:app", url, "--processes", "2", log=tmp_path / "log") as supervisor:
        eventually(lambda: len(workers()) == 2, "two processes to be known")
        first, second = workers()
        assert {first["supervisor"], second["supervisor"]} == {supervisor.process.pid}
        assert {first["host"], second["host"]} == {platform.node()}
        assert first["pid"] != second["pid"]
        assert parent_of(first["pid"]) == parent_of(second["pid"]) == supervisor.process.pid
        assert str(first["pid"]) in run("workers").stdout
        shown = run("workers", first["name"]).stdout
        assert f"supervisor  {supervisor.process.pid}" in shown
        os.kill(first["pid"], signal.SIGKILL)
        eventually(
            lambda: len({first["pid"], second["pid"]} & {worker["pid"] for worker in workers()}) == 1, "one to die"
        )
        assert second["pid"] in {worker["pid"] for worker in workers()}


def test_a_worker_inside_a_program_has_no_supervisor(app: Headrace, ask: Ask) -> None:
    with app.worker():
        (found,) = ask("workers")["workers"]
        assert (found["pid"], found["supervisor"], found["host"]) == (os.getpid(), None, platform.node())


def test_a_worker_that_is_asked_to_stop_does_so_with_all_its_processes(
    app: Headrace, ask: Ask, run: Run, url: str, tmp_path: Path
) -> None:
    options = ("--processes", "2", "--session-timeout", "2s")
    with worker_process("cli.shop:app", url, *options, log=tmp_path / "log") as supervisor:
        eventually(lambda: len(ask("workers")["workers"]) == 2, "two processes to be known")
        eventually(lambda: all(worker["memory"] for worker in ask("workers")["workers"]), "their memory to be known")
        first, _ = ask("workers")["workers"]
        assert first["memory"] > 5_000_000
        assert " MB" in run("workers").stdout
        shown = run("workers", first["name"], "--stop").stdout
        assert (
            shown == f"{first['name']} stops when its session is next renewed, with all processes of its supervisor.\n"
        )
        assert supervisor.process.wait(30) == 0
    assert ask("workers")["workers"] == []
    assert "an operator has asked this worker to stop" in (tmp_path / "log").read_text()


def test_a_worker_inside_a_program_stops_when_it_is_asked_to(app: Headrace, ask: Ask) -> None:
    worker = app.worker(session_timeout="1 second").start()
    (found,) = ask("workers")["workers"]
    assert ask("workers", found["id"], "--stop") == {"asked": [found["name"]]}
    eventually(lambda: not worker._thread.is_alive(), "it to stop")
    assert ask("workers")["workers"] == []


def test_a_worker_that_is_not_there_is_not_stopped(app: Headrace, run: Run, ask: Ask) -> None:
    app.store.run(app.store.counts())
    result = run("workers", "nobody", "--stop")
    assert (result.exit_code, result.stderr) == (exits.NOT_DONE, "There is no worker 'nobody' now.\n")
    assert ask("workers", "nobody", "--stop", code=exits.NOT_DONE) == {"asked": []}
    assert run("workers", "--stop").exit_code == exits.USAGE
    result = run("workers", "x", "--stop", store="hworker+redis://localhost:1/0?name=x")
    assert (result.exit_code, "Send SIGTERM to its process." in result.stderr) == (exits.NOT_DONE, True)
