from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from headrace import Headrace
from headrace.dialects import hworker
from headrace.dialects.hworker import Hworker
from processes import SOURCE, TESTS
from store.redis.servers import Server, few_programs, preferred, programs

from .peer import Peer
from .scene import Queue

_names = itertools.count(1)


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """For processes that workers inside the test start."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCE), str(TESTS)]))
    monkeypatch.delenv("HEADRACE_STORE", raising=False)


@cache
def server_of(program: str) -> Server:
    return Server(program=programs()[program])


@pytest.fixture(params=few_programs(), scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """Every redis-server there is here: a script that one accepts another may refuse."""
    return server_of(str(request.param))


@pytest.fixture
def one_server() -> Server:
    """For what depends on processes and time rather than on the server."""
    return server_of(preferred())


@pytest.fixture
def name() -> str:
    """A queue that no other test uses."""
    return f"q{os.getpid()}-{next(_names)}"


def queue_on(server: Server, name: str) -> Iterator[Queue]:
    client = server.client()
    yield Queue(client, name)
    client.close()


@pytest.fixture
def queue(server: Server, name: str) -> Iterator[Queue]:
    """What is at the queue's keys, in raw commands."""
    yield from queue_on(server, name)


@pytest.fixture
def one_queue(one_server: Server, name: str) -> Iterator[Queue]:
    yield from queue_on(one_server, name)


@pytest.fixture
def peer(queue: Queue) -> Peer:
    return Peer(queue.client, queue.name)


class Bench:
    """Makes queues with hworker's own interface, and runs their threads until the test is over."""

    def __init__(self) -> None:
        self.made: list[Hworker[Any, Any]] = []
        self.threads: list[threading.Thread] = []

    def create(self, server: Server, name: str, handler: Callable[..., Any] | None = None, **options: Any) -> Any:
        """`lines` of what is made are what it logged; `seen` the jobs that it ran."""
        lines: list[str] = []
        seen: list[Any] = []

        def run(state: Any, job: Any) -> Any:
            seen.append(job)
            return hworker.Success() if handler is None else handler(state, job)

        settings = {"state": None, "connection": server.url, "logger": lambda _, line: lines.append(line), **options}
        made: Any = hworker.create(name, run, **settings)
        made.lines, made.seen = lines, seen
        self.made.append(made)
        return made

    def start(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def close(self) -> None:
        for made in self.made:
            made.close()
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def make_app(server: Server, name: str) -> Iterator[Callable[..., Headrace]]:
    """Makes apps on the test's queue; `options` go into the URL."""
    made: list[Headrace] = []

    def make(on: Server | None = None, **options: object) -> Headrace:
        more = "".join(f"&{option}={value}" for option, value in options.items())
        made.append(Headrace(f"hworker+{(on or server).url}?name={name}{more}"))
        return made[-1]

    yield make
    for app in made:
        app.close()
