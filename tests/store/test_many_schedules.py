"""Ten thousand schedules: what a worker asks of the store when it wakes up does not depend on how many there are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from conformance.helpers import Worker
from headrace.records import Definition, ScheduleRecord
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import ManualClock
from headrace.worker.ticker import tick_some
from store.redis import servers
from volume import volume

HOUR = 3_600_000
NOON = 1_700_006_400_000
MANY = max(volume(10_000), 1_000)


def fill(store: Any, number: int, since: int = 0) -> None:
    """Schedules that tick at noon, each a second after the other."""
    definition = Definition(rule="every hour UTC", task="task", body=b"B")
    for i in range(since, number):
        record = ScheduleRecord(name=f"s{i:06}", definition=definition, next=NOON + 1_000 * i)
        assert store.run(store.put_schedule(record, None))


def sqlite_cost(store: SqliteStore, act: Callable[[], object]) -> int:
    """How many steps SQLite's machine takes: it does not matter how quickly."""
    steps = 0

    def count(_: object = None) -> bool:
        nonlocal steps
        steps += 1
        return False

    connection = store._db._idle[0]
    connection.set_progress_handler(count, 10)
    act()
    connection.set_progress_handler(None)
    return steps


def redis_cost(store: RedisStore, act: Callable[[], object]) -> int:
    """How many commands the server runs, inside scripts and outside."""
    client = servers.shared().client()

    def commands() -> int:
        return sum(int(entry["calls"]) for entry in client.info("commandstats").values())

    before = commands()
    act()
    return commands() - before


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_what_a_wake_up_costs_does_not_grow_with_the_number_of_schedules(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    clock = ManualClock(NOON)
    made: Any = SqliteStore("sqlite:///:memory:", clock=clock)
    if kind == "redis":
        made = RedisStore(servers.fresh_url(), clock=clock)
    cost: Any = sqlite_cost if kind == "sqlite" else redis_cost
    costs = []
    with closing(made) as store:
        worker = Worker(store, clock, timeout=100 * HOUR)

        def wake_up() -> None:
            worker.exchange(take=worker.asks(1))
            assert tick_some(store) == 1_000
            store.run(store.sweep())

        fill(store, 50)
        wake_up()
        for number in (50, MANY):
            fill(store, number, since=50)
            clock.advance(1_000)
            costs.append(cost(store, wake_up))
        assert worker.exchange().next_tick == clock.now() + 1_000
    assert costs[1] <= costs[0] * 1.2 + 5
