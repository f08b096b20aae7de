from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from processes import SOURCE, TESTS, Witness, WorkerProcess, worker_process
from store.postgres import servers as postgres_servers
from store.redis import servers as redis_servers
from volume import volume

from . import tasks

StartWorker = Callable[..., WorkerProcess]
NATIVE = ("sqlite", "redis", *(["postgres"] if postgres_servers.INSTALLED else []))
on_every_store = pytest.mark.parametrize("url", NATIVE, indirect=True)
"""Marks a test that runs on each native store. The others run on SQLite."""
on_more_stores = pytest.mark.parametrize("url", NATIVE if volume(10) > 10 else NATIVE[:2], indirect=True)
"""Marks a test whose subject is little of the store's: it runs on PostgreSQL in `make soak` alone."""


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
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of this test's own."""
    match getattr(request, "param", "sqlite"):
        case "redis":
            return redis_servers.fresh_url()
        case "postgres":
            return postgres_servers.fresh_url()
        case _:
            return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str, witness: Witness) -> Iterator[Headrace]:
    """The app of `tasks`."""
    before = tasks.app.url
    tasks.app.url = url
    tasks.app.use_store(None)
    yield tasks.app
    tasks.app.close()
    tasks.app.url = before


@pytest.fixture
def start_worker(app: Headrace, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts `headrace worker` on the test's store; at the end all are killed."""
    with ExitStack() as workers:
        count = 0

        def start(*options: str, path: str = "worker.tasks:app", **more: Any) -> WorkerProcess:
            nonlocal count
            count += 1
            log = more.pop("log", tmp_path / f"worker-{count}.log")
            return workers.enter_context(worker_process(path, app.url, *options, log=log, **more))

        yield start
