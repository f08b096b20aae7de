"""Fixtures for tests of real workers that run on either native store: import `url`, `app` and `start`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from processes import Witness, WorkerProcess, worker_process
from store.redis import servers

from . import tasks

Start = Callable[..., WorkerProcess]


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


@pytest.fixture
def app(url: str, witness: Witness) -> Iterator[Headrace]:
    """The app of `tasks`, on a store of this test's own."""
    before = tasks.app.url
    tasks.app.url = url
    tasks.app.use_store(None)
    yield tasks.app
    tasks.app.close()
    tasks.app.url = before


@pytest.fixture
def start(url: str, app: Headrace, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as workers:

        def start(*options: str, path: str = "worker.tasks:app", **more: Any) -> WorkerProcess:
            log = tmp_path / f"worker-{time.monotonic_ns()}.log"
            return workers.enter_context(worker_process(path, url, *options, log=log, **more))

        yield start
