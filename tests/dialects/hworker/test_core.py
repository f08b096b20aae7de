"""The conformance suite's core, as far as the wire carries it. What it refuses is explained in docs/dialects/hworker.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

import conformance.test_core as core
from conformance.helpers import Worker
from conformance.test_core import *  # noqa: F403
from headrace.clock import ManualClock
from store.redis.servers import Server

from .naming import Named


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(one_server: Server, name: str, clock: ManualClock) -> Iterator[Named]:
    with closing(Named(f"hworker+{one_server.url}?name={name}", clock=clock)) as store:
        yield store


@pytest.fixture
def worker(store: Named, clock: ManualClock) -> Worker:
    return Worker(store, clock)
