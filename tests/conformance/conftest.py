from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.store.contract import Store
from headrace.values.clock import Clock, ManualClock

from .helpers import Worker
from .stores import STORES, Entry


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `entry` (or for `store`) runs once for each store that claims what the test is about."""
    if "entry" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        needs = {marker.args[0] for marker in metafunc.definition.iter_markers("needs")}
        chosen = [entry for entry in STORES if entry.runs(module, needs)]
        marked = [pytest.param(entry, id=entry.name, marks=[pytest.mark.server] * entry.server) for entry in chosen]
        metafunc.parametrize("entry", marked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a wire can't carry is run all the same: a test that begins to pass is no longer refused."""
    for item in items:
        called = getattr(item, "callspec", None)
        entry = called.params.get("entry") if called is not None else None
        if isinstance(entry, Entry) and entry.refuses:
            rest = "-".join(part for part in called.id.split("-") if part != entry.name)
            why = entry.why_refused(item.originalname + (f"[{rest}]" if len(called.params) > 1 else ""))
            if why is not None:
                item.add_marker(pytest.mark.xfail(strict=True, reason=f"{entry.name}: {why}"))


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
def worker(entry: Entry, store: Store, clock: ManualClock) -> Worker:
    """An open session named `w`, for the queue `default`."""
    return Worker(store, clock, tasks=entry.tasks)


@pytest.fixture
def leftovers(entry: Entry) -> Callable[[Store], dict[str, int]]:
    """What is in the store's tables, empty ones left out."""
    return lambda store: {name: rows for name, rows in entry.rows(store).items() if rows}
