from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from processes import SOURCE, TESTS, Witness, WorkerProcess, worker_process

from . import tasks

StartWorker = Callable[..., WorkerProcess]


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """For processes that workers inside the test start."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCE), str(TESTS)]))


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Witness:
    """Where the jobs of this test say what they did."""
    path = tmp_path / "witness"
    monkeypatch.setenv("HEADRACE_WITNESS", str(path))
    return Witness(path)


@pytest.fixture
def app(tmp_path: Path, witness: Witness) -> Iterator[Headrace]:
    """The app of `tasks`, on a database file of this test's own."""
    before = tasks.app.url
    tasks.app.url = f"sqlite:///{tmp_path}/jobs.db"
    tasks.app.use_store(None)
    yield tasks.app
    tasks.app.close()
    tasks.app.url = before


@pytest.fixture
def start_worker(app: Headrace, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts `headrace worker` on the test's store; at the end all are killed."""
    with ExitStack() as workers:
        count = 0

        def start(*options: str, **more: Any) -> WorkerProcess:
            nonlocal count
            count += 1
            log = more.pop("log", tmp_path / f"worker-{count}.log")
            return workers.enter_context(worker_process("worker.tasks:app", app.url, *options, log=log, **more))

        yield start
