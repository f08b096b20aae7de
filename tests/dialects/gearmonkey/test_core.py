"""The core of the store contract, on this dialect; and beyond it sessions, cancelling, deleting, reviving, finding."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.helpers import Worker
from conformance.test_cancel_delete_revive import *  # noqa: F403
from conformance.test_core import *  # noqa: F403  (that is the point)
from conformance.test_find_counts import *  # noqa: F403
from conformance.test_sessions import *  # noqa: F403
from headrace.dialects.gearmonkey import GearMonkeyStore
from headrace.values.clock import ManualClock


@pytest.fixture(autouse=True)
def _facets(request: pytest.FixtureRequest) -> None:
    """What docs/dialects/gearmonkey.md says that it cannot do is not asked of it."""
    for marker in request.node.iter_markers("needs"):
        if marker.args[0] not in GearMonkeyStore.facets:
            pytest.skip(f"this store has no {marker.args[0]}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(make_store: Callable[..., GearMonkeyStore], clock: ManualClock) -> GearMonkeyStore:
    return make_store(clock=clock)


@pytest.fixture
def worker(store: GearMonkeyStore, clock: ManualClock) -> Worker:
    """An open session named `w`: the queue `default` stands for the functions that its tasks are."""
    return Worker(store, clock, tasks=("task", "t"))
