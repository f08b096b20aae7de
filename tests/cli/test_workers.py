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
