from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from . import servers
from .servers import Server

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

if not servers.INSTALLED:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def make() -> Iterator[Callable[..., PostgresStore]]:
    """Makes stores on the shared server, each in an empty schema unless a URL is given."""
    from headrace.store.postgres.store import PostgresStore

    made: list[PostgresStore] = []

    def make(url: str = "", **options: Any) -> PostgresStore:
        made.append(PostgresStore(url or servers.fresh_url(), **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make: Callable[..., PostgresStore]) -> PostgresStore:
    return make()


@pytest.fixture
def private() -> Iterator[Callable[..., Server]]:
    """Servers for tests that kill or configure them."""
    made: list[Server] = []

    def start(*settings: str, **options: Any) -> Server:
        made.append(Server(*settings, **options))
        return made[-1]

    yield start
    for server in made:
        server.close()
