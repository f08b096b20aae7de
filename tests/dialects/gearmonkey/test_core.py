"""The core of the store contract, on this dialect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.helpers import Worker
from conformance.test_core import *  # noqa: F403
from headrace.clock import ManualClock
from headrace.dialects.gearmonkey import GearMonkeyStore


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
