from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from headrace.dialects.gearmonkey import Client, GearMonkeyStore
from store.redis import servers

from .places import DATABASE, fresh

SIDE = b"headrace:gm:"


@pytest.fixture(params=servers.few_programs(), scope="session")
def program(request: pytest.FixtureRequest) -> str:
    """Every redis-server there is here: a script that one accepts another may refuse."""
    return str(request.param)


@pytest.fixture
def url(program: str) -> str:
    """An empty database."""
    return fresh(program)


@pytest.fixture
def raw(url: str, program: str) -> Iterator[Any]:
    """Redis itself, for looking at what is there."""
    client = redis.Redis(unix_socket_path=servers.shared(program).socket, db=DATABASE, protocol=2, socket_timeout=20)
    yield client
    client.close()


@pytest.fixture(params=["leased", "strict"])
def strict(request: pytest.FixtureRequest, program: str) -> bool:
    """Our worker as it is, and with the published commands only: that one waits a second when idle, once is enough."""
    if request.param == "strict" and program != servers.preferred():
        pytest.skip("tested on another server")
    return bool(request.param == "strict")


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture
def make_store(url: str) -> Iterator[Callable[..., GearMonkeyStore]]:
    made: list[GearMonkeyStore] = []

    def make(**options: Any) -> GearMonkeyStore:
        made.append(GearMonkeyStore(url, **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


def published(raw: Any) -> dict[str, Any]:
    """Everything on the server but our own side keys: what a peer sees."""
    found: dict[str, Any] = {}
    for key in sorted(raw.keys("*")):
        if not key.startswith(SIDE):
            match raw.type(key):
                case b"hash":
                    value: Any = {name.decode(): field.decode() for name, field in raw.hgetall(key).items()}
                case b"list":
                    value = [item.decode() for item in raw.lrange(key, 0, -1)]
                case b"zset":
                    value = {item.decode(): score for item, score in raw.zrange(key, 0, -1, withscores=True)}
                case _:
                    value = raw.get(key).decode()
            found[key.decode()] = value
    return found
