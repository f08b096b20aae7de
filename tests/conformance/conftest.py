from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.store.contract import Store
from headrace.values.clock import Clock, ManualClock

from .helpers import Worker
from .stores import STORES, Entry


@pytest.fixture(autouse=True)
def _facets(request: pytest.FixtureRequest) -> None:
    """What a store says it cannot do is not asked of it."""
    for marker in request.node.iter_markers("needs"):
        (facet,) = marker.args
        if facet not in request.getfixturevalue("store").facets:
            pytest.skip(f"this store has no {facet}")


@pytest.fixture(params=STORES, ids=[entry.name for entry in STORES])
def entry(request: pytest.FixtureRequest) -> Entry:
    """One of the stores under test; whoever asks for it (or for `store`) runs once per store."""
    return request.param


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_store(entry: Entry, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Makes stores of the kind under test, and closes them in the end."""
    made: list[Store] = []

    def make(clock: Clock, **options: Any) -> Store:
        made.append(entry(tmp_path, clock, **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: Callable[..., Store], clock: ManualClock) -> Store:
    return make_store(clock)


@pytest.fixture
def worker(store: Store, clock: ManualClock) -> Worker:
    """An open session named `w`, for the queue `default`."""
    return Worker(store, clock)


@pytest.fixture
def leftovers(entry: Entry) -> Callable[[Store], dict[str, int]]:
    """What is in the store's tables, empty ones left out."""
    return lambda store: {name: rows for name, rows in entry.rows(store).items() if rows}
