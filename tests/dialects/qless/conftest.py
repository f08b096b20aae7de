from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from store.redis.servers import Server, few_programs, programs

from .recorder import Recorder


@cache
def server_of(program: str) -> Server:
    """One server per program, for all tests: each begins with an empty database."""
    return Server(program=programs()[program])


@pytest.fixture(params=few_programs(), scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """Every redis-server there is here: a script that one accepts another may refuse."""
    return server_of(str(request.param))


@pytest.fixture
def qless(server: Server) -> Iterator[Recorder]:
    with closing(Recorder(server)) as recorder:
        yield recorder


@pytest.fixture
def testimony(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """What the jobs of `jobs_for_tests` have written: words, line by line."""
    path = tmp_path / "testimony"
    path.touch()
    monkeypatch.setenv("QLESS_TESTIMONY", str(path))
    return lambda: [line.split() for line in path.read_text().splitlines()]
