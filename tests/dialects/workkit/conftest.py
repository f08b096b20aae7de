from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from headrace.dialects.workkit import Schedule, WorkKitStore, create
from headrace.dialects.workkit.address import make_settings, url_of
from headrace.values.clock import Clock, ManualClock
from store.redis import servers
from store.redis.servers import Server

from .scene import Scene

_numbers = itertools.count(1)


NOW = 1_778_754_030_000
"""2026-05-14 10:20:30 UTC, a Thursday."""


@pytest.fixture(params=servers.few_programs(), scope="session")
def program(request: pytest.FixtureRequest) -> str:
    """Every redis-server there is here: a script that one accepts another may refuse."""
    return str(request.param)


@pytest.fixture
def server() -> Server:
    return servers.shared()


@pytest.fixture
def name() -> str:
    """A schedule that nobody has used."""
    return f"schedule-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def scene(server: Server, name: str) -> Iterator[Scene]:
    """The schedule as Redis sees it."""
    with server.client() as client:
        yield Scene(client, name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now=NOW)


@pytest.fixture
def make_store(server: Server, name: str) -> Iterator[Callable[..., WorkKitStore]]:
    """Stores of the one schedule, with a clock of the test's own or the server's."""
    made: list[WorkKitStore] = []

    def make(clock: Clock | None = None, **options: Any) -> WorkKitStore:
        made.append(WorkKitStore(url_of(server.url, make_settings(name, **options)), clock=clock))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def make(server: Server, name: str) -> Iterator[Callable[..., Schedule]]:
    """Schedules of that name, each as if in a program of its own."""
    with ExitStack() as stack:

        def make(**options: Any) -> Schedule:
            return stack.enter_context(create(options.pop("name", name), redis=server.url, **options))

        yield make


@pytest.fixture
def s(make: Callable[..., Schedule]) -> Schedule:
    return make()


@contextmanager
def listening(*schedules: Schedule) -> Iterator[None]:
    """Listeners in threads, for the length of a block."""
    threads = [threading.Thread(target=schedule.listen, daemon=True) for schedule in schedules]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for schedule in schedules:
            schedule.stop(grace=5)
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def private() -> Iterator[Callable[..., Server]]:
    """Servers for tests that kill them."""
    made: list[Server] = []

    def start(*arguments: str, **options: Any) -> Server:
        made.append(Server(*arguments, **options))
        return made[-1]

    yield start
    for server in made:
        server.close()
