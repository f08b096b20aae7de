"""The store rings one worker that has a line of jobs for a more urgent one. (PostgreSQL does not; see `Take.above`.)"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from conformance.helpers import Worker, put
from headrace.records import Take
from headrace.store.contract import RingingWaiter, Store
from headrace.store.urls import open_store
from headrace.values.clock import SystemClock

from .redis import servers


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = servers.fresh_url() if request.param == "redis" else f"sqlite:///{tmp_path}/jobs.db"
    with closing(open_store(url)) as store:
        put(store, *(f"low {number}" for number in range(40)))
        yield store


@pytest.fixture
def fleet(store: Store) -> Iterator[Fleet]:
    with ExitStack() as closings:
        yield Fleet(store, closings)


class Fleet:
    """Workers with one slot and a line of nine jobs each."""

    def __init__(self, store: Store, closings: ExitStack) -> None:
        self._store, self._closings = store, closings
        self.waiters: list[RingingWaiter] = []

    def add(self, above: int | None, *queues: str) -> RingingWaiter:
        worker = Worker(self._store, SystemClock(), f"w{len(self.waiters)}", *queues or ["default"])
        waiter = self._closings.enter_context(closing(self._store.waiter(worker.id, worker.queues)))
        assert isinstance(waiter, RingingWaiter)
        waiter.arm()
        assert len(worker.exchange(take=Take(worker.queues, 1, 9, above=above)).leases) == 10
        self.waiters.append(waiter)
        return waiter

    def rung(self) -> list[bool]:
        """Which were rung. What was sent has come: a server sends all of it before it reads the next request."""
        self._store.run(self._store.get(["low 0"]))
        assert not any(waiter.wait(0) for waiter in self.waiters), "a ring is no news"
        return [waiter.urgent for waiter in self.waiters]


@pytest.mark.parametrize("queues", [["default"], ["def*"]], ids=str)
def test_one_worker_is_rung_whose_line_is_less_urgent(store: Store, fleet: Fleet, queues: list[str]) -> None:
    for above in (None, 9, 0, 0):
        fleet.add(above, *queues)
    put(store, "plain")
    put(store, "low as well", priority=-1)
    put(store, "later", priority=9, delay=60_000)
    assert fleet.rung() == [False, False, False, False]
    put(store, "urgent", priority=9)
    assert sorted(fleet.rung()[2:]) == [False, True]
    put(store, *(f"batch {number}" for number in range(5)), priority=9)
    assert fleet.rung() == [False, False, True, True], "each has much to do before it can be rung again"
    put(store, "even more urgent", priority=10)
    assert fleet.rung() == [False, True, True, True]
    put(store, "too much", priority=11)
    assert fleet.rung() == [False, True, True, True]


def test_a_worker_that_sleeps_is_woken_instead(store: Store, fleet: Fleet) -> None:
    busy = fleet.add(0)
    idle = Worker(store, SystemClock(), "idle", "default")
    with closing(store.waiter(idle.id, ["default"])) as sleeper:
        idle.take(30)
        sleeper.arm()
        assert idle.take(1) == []
        put(store, "urgent", priority=9)
        assert sleeper.wait(20)
        assert fleet.rung() == [False]
        put(store, "another", priority=9)
        assert fleet.rung() == [True]
    assert busy.urgent


def test_other_queues_do_not_ring(store: Store, fleet: Fleet) -> None:
    fleet.add(0)
    put(store, "elsewhere", priority=9, queue="other")
    assert fleet.rung() == [False]


def test_a_ring_is_heeded_once_and_asked_for_again_with_the_next_exchange(store: Store) -> None:
    worker = Worker(store, SystemClock())
    with closing(store.waiter(worker.id, worker.queues)) as waiter:
        assert isinstance(waiter, RingingWaiter)
        for number in range(3):
            waiter.arm()
            assert not waiter.urgent
            worker.exchange(take=Take(worker.queues, 0, 2, above=0))
            put(store, f"urgent {number}", priority=9)
            assert not waiter.wait(20)
            assert waiter.urgent


def test_a_worker_that_got_less_than_its_slots_hears_news(store: Store) -> None:
    worker = Worker(store, SystemClock())
    with closing(store.waiter(worker.id, worker.queues)) as waiter:
        waiter.arm()
        assert len(worker.exchange(take=Take(worker.queues, 50, 9, above=0)).leases) == 40
        put(store, "urgent", priority=9)
        assert waiter.wait(20)


def test_a_ring_that_comes_while_a_take_is_under_way_is_heeded(tmp_path: Path) -> None:
    """On SQLite a worker that is armed seems to sleep until its take has shown that it is full."""
    with closing(open_store(f"sqlite:///{tmp_path}/jobs.db")) as store:
        put(store, *(f"low {number}" for number in range(10)))
        worker = Worker(store, SystemClock())
        with closing(store.waiter(worker.id, worker.queues)) as waiter:
            assert isinstance(waiter, RingingWaiter)
            waiter.arm()
            put(store, "urgent", priority=9)
            worker.exchange(take=Take(worker.queues, 1, 4, above=0))
            assert not waiter.wait(0)
            assert waiter.urgent
