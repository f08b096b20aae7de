from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import Unsupported
from headrace.store.contract import Store
from headrace.values.clock import Clock, ManualClock

from .helpers import Worker
from .stores import STORES, Entry
from .traits import Difference


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `entry` (or for `store`) runs once for each store that claims what the test is about."""
    if "entry" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        able = [entry for entry in STORES if entry.runs(module, needs(metafunc.definition))]
        chosen = [variant for entry in able for variant in entry.variants(module)]
        metafunc.parametrize("entry", [pytest.param(entry, id=entry.name, marks=entry.marks) for entry in chosen])


def needs(item: pytest.Item | pytest.Function) -> set[Any]:
    """What a store must claim for a test to run. A witness also runs where its trait is lacking."""
    return {marker.args[0] for marker in item.iter_markers("needs") if not marker.kwargs.get("witness")}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases that need more than the store has, and mark what differs there.

    A wire differs in the same way on every server: what differs runs on the first one only.
    """
    left_out, kept = [], []
    for item in items:
        entry = entry_of(item)
        difference = None if entry is None else difference_of(item, entry)
        if entry is not None and (not needs(item) <= entry.claims or (difference and "@" in entry.name)):
            left_out.append(item)
            continue
        kept.append(item)
        if entry is not None and difference is not None:
            mark(item, entry, difference)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def entry_of(item: pytest.Item) -> Entry | None:
    found = item.callspec.params.get("entry") if hasattr(item, "callspec") else None
    return found if isinstance(found, Entry) else None


def difference_of(item: Any, entry: Entry) -> Difference | None:
    rest = "-".join(part for part in item.callspec.id.split("-") if part != entry.name)
    witnessed = [marker.args[0] for marker in item.iter_markers("needs") if marker.kwargs.get("witness")]
    return entry.difference(item.originalname + (f"[{rest}]" if len(item.callspec.params) > 1 else ""), witnessed)


def mark(item: pytest.Item, entry: Entry, found: Difference) -> None:
    """A test that begins to pass fails: it differs no longer."""
    if found.refused is not None:
        item.add_marker(pytest.mark.refused(Unsupported, re.escape(entry.refuses[found.refused])))
    elif found.says is not None:
        item.add_marker(pytest.mark.refused(found.raises, found.says))
    else:
        reason = f"docs/dialects/{entry.name}.md: {found.row}"
        item.add_marker(pytest.mark.xfail(strict=True, raises=found.raises, reason=reason))


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
