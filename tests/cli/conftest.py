from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.cli import cli
from headrace.store import open_store
from processes import WorkerProcess, environment, worker_process

from . import shop

Run = Callable[..., Result]


def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's environment."""
    for name in ("HEADRACE_STORE", "HEADRACE_APP", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store of this test's own."""
    alone(tmp_path, monkeypatch)
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str) -> Iterator[Headrace]:
    """The shop, at that store."""
    shop.app.url = url
    shop.app.use_store(open_store(url))
    yield shop.app
    shop.app.close()


@pytest.fixture
def run(url: str) -> Run:
    """Run a command in this process: `run("jobs", "--json")`."""

    def invoke(*arguments: str, store: str | None = url, **options: Any) -> Result:
        where = [] if store is None else ["--store", store]
        result = CliRunner().invoke(cli, [arguments[0], *where, *arguments[1:]], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """Run a command with --json; answers with what it said."""

    def invoke(*arguments: str, code: int = 0) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    return invoke


@pytest.fixture
def headrace(url: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in a process of its own, as a shell does."""

    def invoke(*arguments: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headrace", *arguments],
            env=environment(**env),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return invoke


@pytest.fixture
def worker(url: str, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A live `headrace worker` for the shop."""
    with worker_process("cli.shop:app", url, log=tmp_path / "worker.log") as process:
        process.logged("worker process .* started")
        yield process
