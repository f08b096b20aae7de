"""What an edge between jobs costs: the same, however many others a job has."""

from __future__ import annotations

from conformance.helpers import Worker, look, new, outcome, put, state
from headrace.records import State
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock

from .servers import commands_inside_scripts


def touched(store: RedisStore, clock: ManualClock, program: str, parents: int) -> tuple[int, int]:
    """Commands for the end of one of so many that a job comes after, and the bytes that these send and read of it."""
    ids = tuple(f"{parents} parent {i}" for i in range(parents))
    child = f"{parents} child"
    store.run(store.put([new(job_id) for job_id in ids]))
    put(store, child, after=ids)
    read = store.driver.command("HSTRLEN", f"{store.keys.prefix}more", child)
    worker = Worker(store, clock, f"w{parents}")
    leases = worker.take(parents)
    commands = list(commands_inside_scripts(program, lambda: worker.exchange([outcome(leases[0])]), store))
    assert state(store, child) is State.BLOCKED
    worker.exchange([outcome(lease) for lease in leases[1:]])
    while store.run(store.sweep()).more:
        pass
    assert look(store, child).after == ids
    (lease,) = worker.take(1)
    assert (lease.id, lease.extras.after) == (child, ids)
    worker.settle(lease)
    assert not any(f"{store.keys.prefix}after" in words for words in commands), "that list grows"
    return len(commands), read + sum(len(word) for words in commands for word in words)


def test_the_end_of_one_of_many_costs_as_much_as_of_one_of_few(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    few, many = touched(store, clock, program, 3), touched(store, clock, program, 400)
    assert many[0] <= few[0] + 2
    assert many[1] <= few[1] + 200


def test_what_a_job_comes_after_is_forgotten_with_it(store: RedisStore) -> None:
    put(store, "parent")
    put(store, "child", after=("parent", "nobody"))
    assert look(store, "child").after == ("parent", "nobody")
    store.run(store.depend("child", ["other"], ["parent"]))
    assert look(store, "child").after == ("nobody", "other")
    store.run(store.delete(["child"]))
    assert not store.driver.command("EXISTS", f"{store.keys.prefix}after")
