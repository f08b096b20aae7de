from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.dialects.bedrock.server.server import Options
from headrace.values.clock import ManualClock, SystemClock

from .harness import InProcess, Wire

NOW = 1_772_359_200_123  # 2026-03-01 10:00:00.123


@pytest.fixture
def clock() -> ManualClock:
    """Stands at 2026-03-01 10:00:00.123 until a test moves it."""
    return ManualClock(NOW)


@pytest.fixture
def make_server(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., InProcess]]:
    made: list[InProcess] = []

    def make(**options: Any) -> InProcess:
        options.setdefault("node_name", "node")
        made.append(InProcess(tmp_path / f"jobs{len(made)}.db", Options(**options), clock).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def server(make_server: Callable[..., InProcess]) -> InProcess:
    return make_server()


@pytest.fixture
def wire(server: InProcess) -> Wire:
    """A connection to a fresh server."""
    return server.connect()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[InProcess]:
    """A server with the real time."""
    server = InProcess(tmp_path / "real.db", Options(node_name="node"), SystemClock()).start()
    yield server
    server.stop()


@pytest.fixture
def app(real: InProcess) -> Iterator[Headrace]:
    app = Headrace(f"bedrock://127.0.0.1:{real.port}")
    yield app
    app.close()
