"""Workers with very many queues: a take costs by the queues that have work, not by the names that it asks for."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from conformance.helpers import Worker, new, put, state, woken
from conformance.simulation.histories import explore
from conformance.simulation.scene import KEEP_DONE, KEEP_FAILED
from headrace.records import State, Take
from headrace.store.redis import lists
from headrace.store.redis.store import RedisStore
from headrace.values.clock import Clock, ManualClock, SystemClock
from volume import volume

from . import servers
from .servers import commands_inside_scripts

NAMES = tuple(f"tenant-{number * 7_919 % 10_000:04}" for number in range(10_000))
"""In an order of its own."""


def commands(program: str, store: RedisStore, worker: Worker, take: Take) -> list[str]:
    worker.number += 1
    request = store.exchange(worker.id, worker.number, (), take)
    return [words[0].lower() for words in commands_inside_scripts(program, lambda: store.run(request), store)]


def test_an_empty_exchange_with_10_000_names_costs_a_few_commands(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    worker = Worker(store, clock)
    take = Take(NAMES, 8, 8, False)
    worker.exchange(take=take)  # the list is sent
    assert len(commands(program, store, worker, take)) == 18
    assert len(commands(program, store, worker, Take(NAMES[17:] + NAMES[:17], 8, 0, True))) == 18
    store.run(store.put([new(f"{number}", queue=f"other {number}") for number in range(100)]))
    assert len(commands(program, store, worker, take)) == 19, "which of those that have work are in the list"
    renewal = store.renew(worker.id)
    assert len(list(commands_inside_scripts(program, lambda: store.run(renewal), store))) <= 10


def test_an_exchange_costs_by_the_queues_that_have_work(store: RedisStore, clock: ManualClock, program: str) -> None:
    worker = Worker(store, clock)
    take = Take(NAMES, 5, 0, True)
    worker.exchange(take=take)
    store.run(store.put([new(queue, queue=queue) for queue in NAMES[::1_000]]))
    assert len(commands(program, store, worker, take)) <= 120


@pytest.mark.parametrize("others", [0, 1, 100, 101])
def test_one_queue_of_a_list_is_found_among_others_that_have_work(
    store: RedisStore, clock: ManualClock, others: int
) -> None:
    worker = Worker(store, clock)
    jobs = [new(f"{number}", queue=f"other {number}") for number in range(others)]
    store.run(store.put(jobs[: others // 2]))
    store.run(store.put(jobs[others // 2 :]))
    take = Take(NAMES, 5, 0, False)
    assert not worker.exchange(take=take).leases
    put(store, "mine", queue=NAMES[7_777])
    assert [lease.id for lease in worker.exchange(take=take).leases] == ["mine"]


def test_many_that_have_work_cost_no_more_than_what_is_taken(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    worker = Worker(store, clock)
    for first in range(0, 3_000, 1_000):
        store.run(store.put([new(queue, queue=queue) for queue in NAMES[first : first + 1_000]]))
    take = Take(NAMES, 5, 0, True)
    worker.exchange(take=take)
    assert len(commands(program, store, worker, take)) <= 160


@pytest.mark.parametrize("ready", [40, 2_000], ids=["few", "many"])
@pytest.mark.parametrize("round_robin", [False, True], ids=["in order", "round robin"])
def test_queues_come_in_the_order_of_the_list(
    store: RedisStore, clock: ManualClock, round_robin: bool, ready: int
) -> None:
    chosen = set(random.Random(1).sample(NAMES, ready))
    strangers = [f"stranger {number}" for number in range(50)]
    jobs = [new(f"{queue} {i}", queue=queue) for queue in (*chosen, *strangers) for i in range(2)]
    for first in range(0, len(jobs), 1_000):
        store.run(store.put(jobs[first : first + 1_000]))
    worker = Worker(store, clock)
    for place in (0, 5_000, 9_999):
        names = NAMES[place:] + NAMES[:place]
        there = [name for name in names if name in chosen]
        leases = worker.exchange(take=Take(names, 12, 0, round_robin)).leases
        expected = there[:12] if round_robin else [queue for queue in there[:6] for _ in range(2)]
        assert [lease.queue for lease in leases] == expected
        chosen -= set(there[:12])
        store.run(store.delete([f"{queue} {i}" for queue in there[:12] for i in range(2)]))


def test_what_falls_due_or_comes_back_in_the_same_exchange_is_in_its_place(
    store: RedisStore, clock: ManualClock
) -> None:
    worker = Worker(store, clock)
    put(store, "first", queue=NAMES[10], delay=1_000)
    put(store, "second", queue=NAMES[20])
    clock.advance(1_000)
    assert [lease.id for lease in worker.exchange(take=Take(NAMES, 3, 0, False)).leases] == ["first", "second"]


def test_its_own_queues_fall_due_before_a_crowd_of_others(store: RedisStore, clock: ManualClock) -> None:
    for first in range(0, 1_500, 500):
        store.run(store.put([new(f"{i}", queue=f"q{i}", delay=1_000) for i in range(first, first + 500)]))
    put(store, "mine", queue=NAMES[5_000], delay=1_001)
    clock.advance(1_001)
    worker = Worker(store, clock)
    assert [lease.id for lease in worker.exchange(take=Take(NAMES, 3, 0, False)).leases] == ["mine"]


def test_a_sleeper_hears_of_its_own_queues_only(make: Callable[..., RedisStore]) -> None:
    store = make()
    worker = Worker(store, SystemClock())
    waiter = store.waiter(worker.id, NAMES)
    waiter.arm()
    assert not worker.exchange(take=Take(NAMES, 3, 0, False)).leases
    put(store, "other", queue="other")
    assert not waiter.wait(0)
    put(store, "many", queue=NAMES[9_999])
    assert woken(waiter)
    waiter.close()


def test_a_list_that_is_gone_is_sent_again(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    for number in range(3):
        put(store, f"{number}", queue=NAMES[number])
        assert [lease.id for lease in worker.exchange(take=Take(NAMES, 3, 0, False)).leases] == [f"{number}"]
        (key,) = store.driver.command("KEYS", f"{store.keys.prefix}names:*")
        store.driver.command("DEL", key)


def test_sessions_share_a_list_whichever_queue_they_begin_with(store: RedisStore, clock: ManualClock) -> None:
    for place in (0, 1, 77):
        Worker(store, clock, f"w{place}").exchange(take=Take(NAMES[place:] + NAMES[:place], 1, 0, True))
    (key,) = store.driver.command("KEYS", f"{store.keys.prefix}names:*")
    assert store.driver.command("ZCARD", key) == len(NAMES)
    assert 0 < store.driver.command("PTTL", key) <= 86_400_000


def test_what_patterns_are_among_is_sent_as_it_is(store: RedisStore, clock: ManualClock) -> None:
    put(store, "a", queue=NAMES[3])
    put(store, "b", queue="other")
    worker = Worker(store, clock)
    leases = worker.exchange(take=Take((*NAMES[:150], "oth*"), 3, 0, False)).leases
    assert [lease.id for lease in leases] == ["a", "b"]
    assert not store.driver.command("KEYS", f"{store.keys.prefix}names:*")


def test_paused_queues_of_a_list_give_nothing(store: RedisStore, clock: ManualClock) -> None:
    for number in range(5):
        put(store, f"{number}", queue=NAMES[number])
    for number in (0, 2):
        store.run(store.pause(NAMES[number]))
    worker = Worker(store, clock)
    leases = worker.exchange(take=Take(NAMES, 2, 5, True)).leases
    assert [lease.id for lease in leases] == ["1", "3", "4"]
    assert state(store, "0") is State.READY


def test_with_every_name_in_a_list_histories_are_the_same(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "SHORT", 0)

    def make(clock: Clock) -> RedisStore:
        return RedisStore(servers.fresh_url(program), clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)

    explore(make, servers.share(range(volume(10)), program), rows=servers.rows)
