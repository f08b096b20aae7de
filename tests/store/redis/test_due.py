"""What falls due: each queue has its own, so that none waits behind what another has plenty of."""

from __future__ import annotations

from conformance.helpers import Worker, new, put, state
from headrace.records import State
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from .servers import commands_inside_scripts

AT_ONCE = 1_000
"""How many jobs fall due in one exchange: see take.lua."""


def crowd(store: RedisStore, number: int, queue: str, delay: int = 1_000) -> None:
    for first in range(0, number, 1_000):
        last = min(first + 1_000, number)
        store.run(store.put([new(f"{queue} {i}", queue=queue, delay=delay) for i in range(first, last)]))


def index(store: RedisStore) -> dict[str, int]:
    found = store.driver.command("ZRANGE", store.keys.prefix + "due_queues", "0", "-1", "WITHSCORES")
    return {queue.decode(): int(score) for queue, score in zip(found[::2], found[1::2], strict=True)}


def test_a_job_of_another_queue_does_not_wait_behind_a_crowd(store: RedisStore, clock: ManualClock) -> None:
    crowd(store, 3 * AT_ONCE, "crowd")
    put(store, "mine", queue="mine", delay=1_001)
    clock.advance(1_001)
    worker = Worker(store, clock)
    assert [lease.id for lease in worker.take(1, 0, "mine")] == ["mine"]


def test_nor_by_a_pattern_nor_behind_another_of_its_own_queues(store: RedisStore, clock: ManualClock) -> None:
    crowd(store, 3 * AT_ONCE, "a crowd")
    put(store, "b", queue="b", delay=1_001)
    put(store, "c", queue="c", delay=1_001)
    clock.advance(1_001)
    worker = Worker(store, clock)
    taken = worker.take(3, 0, "a crowd", "b", round_robin=True)
    assert [lease.queue for lease in taken] == ["a crowd", "b", "a crowd"]
    assert [lease.queue for lease in worker.take(3, 0, "[ac]*", round_robin=True)] == ["a crowd", "c", "a crowd"]


def test_nor_behind_more_queues_than_one_step_looks_at(store: RedisStore, clock: ManualClock) -> None:
    for first in range(0, 1_500, 500):
        store.run(store.put([new(f"{i}", queue=f"q{i}", delay=1_000) for i in range(first, first + 500)]))
    put(store, "mine", queue="mine", delay=1_001)
    clock.advance(1_001)
    assert [lease.id for lease in Worker(store, clock).take(1, 0, "other", "mine")] == ["mine"]


def test_each_step_is_bounded_and_says_that_there_is_more(store: RedisStore, clock: ManualClock) -> None:
    crowd(store, AT_ONCE + 1, "crowd")
    put(store, "last", queue="other", delay=5_000)
    clock.advance(1_000)
    worker = Worker(store, clock)
    assert worker.exchange(take=worker.asks(1, 0, "other")).next_due == clock.now()
    assert len(index(store)) == 2
    assert worker.exchange(take=worker.asks(1, 0, "other")).next_due == clock.now() + 4_000
    assert index(store) == {"other": clock.now() + 4_000}
    counts = {entry.queue: entry.by_state for entry in store.run(store.counts())}
    assert counts["crowd"] == {State.READY: AT_ONCE + 1}


def test_the_index_says_when_the_first_of_each_queue_falls_due(store: RedisStore, clock: ManualClock) -> None:
    put(store, "late", queue="a", delay=9_000)
    put(store, "early", queue="a", delay=3_000)
    put(store, "other", queue="b", delay=5_000)
    now = clock.now()
    assert index(store) == {"a": now + 3_000, "b": now + 5_000}
    store.run(store.cancel(["early"]))
    assert index(store) == {"a": now + 9_000, "b": now + 5_000}
    store.run(store.cancel(["other"]))
    assert index(store) == {"a": now + 9_000}
    store.run(store.delete(["late"]))
    assert index(store) == {}
    assert not store.driver.command("EXISTS", store.keys.prefix + "due:a")


def test_an_index_that_is_wrong_is_put_right(store: RedisStore, clock: ManualClock) -> None:
    put(store, "a", queue="a", delay=3_000)
    for queue in ("a", "nobody's"):
        store.driver.command("ZADD", store.keys.prefix + "due_queues", "1", queue)
    worker = Worker(store, clock)
    assert not worker.take(1, 0, "a")
    assert index(store) == {"a": clock.now() + 3_000}
    assert state(store, "a") is State.SCHEDULED


def test_what_is_due_costs_by_queues_that_have_some(store: RedisStore, clock: ManualClock, program: str) -> None:
    for number in range(300):
        put(store, f"{number}", queue=f"later {number}", delay=100_000)
    put(store, "mine", queue="mine", delay=1_000)
    clock.advance(1_000)
    worker = Worker(store, clock)
    take = store.exchange(worker.id, 1, (), worker.asks(1, 0, "mine"))
    commands = list(commands_inside_scripts(program, lambda: store.run(take), store))
    assert len(commands) < 40
    assert state(store, "mine") is State.RUNNING
