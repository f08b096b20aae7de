from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace.store.redis.store import RedisStore
from headrace.values.clock import Clock, ManualClock

from . import servers
from .servers import Server


@pytest.fixture(params=servers.programs(), scope="session")
def program(request: pytest.FixtureRequest) -> str:
    """Every redis-server there is here: a script that one accepts another may refuse."""
    return str(request.param)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make(program: str) -> Iterator[Callable[..., RedisStore]]:
    """Makes stores on the shared server, each in a fresh namespace unless one is given."""
    made: list[RedisStore] = []

    def make(clock: Clock | None = None, url: str = "", **options: Any) -> RedisStore:
        made.append(RedisStore(url or servers.fresh_url(program), clock=clock, **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make: Callable[..., RedisStore], clock: ManualClock) -> RedisStore:
    return make(clock)


@pytest.fixture
def private() -> Iterator[Callable[..., Server]]:
    """Servers for tests that kill, fill or configure them."""
    made: list[Server] = []

    def start(*arguments: str, **options: Any) -> Server:
        made.append(Server(*arguments, **options))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture
def server(private: Callable[..., Server]) -> Server:
    return private()


@pytest.fixture
def lone(server: Server) -> Iterator[RedisStore]:
    """A store on a server of its own, with the server's clock."""
    with closing(RedisStore(f"{server.url}?ns=lone")) as store:
        yield store
