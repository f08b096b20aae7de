"""What is asked costs the same however many jobs there are: commands, entries and steps are counted."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any

import pytest

from conformance.helpers import Worker, new, outcome, put
from headrace.records import Filter, Kind, Lane, Lease, State
from headrace.store.paging import pages
from headrace.store.redis.store import RedisStore
from headrace.store.stats import DAY
from headrace.values.clock import ManualClock

from .servers import commands_inside_scripts, contents


def commands(program: str, store: RedisStore, act: Callable[[], object]) -> list[str]:
    """With the names of their keys, without the namespace."""
    return [
        f"{command.upper()} {words[0].removeprefix(store.keys.prefix) if words else ''}"
        for command, *words in commands_inside_scripts(program, act, store)
    ]


def end(store: RedisStore, clock: ManualClock, number: int, kind: Kind = Kind.DONE) -> None:
    """So many jobs that have ended."""
    worker = Worker(store, clock, f"ends {number}")
    for first in range(0, number, 1_000):
        ids = [f"{kind} {i} of {number}" for i in range(first, min(first + 1_000, number))]
        store.run(store.put([new(job_id) for job_id in ids]))
        worker.exchange([outcome(lease, kind) for lease in worker.take(1_000)])


# -- sleepers --


def test_an_exchange_that_finds_nothing_costs_few_commands(store: RedisStore, clock: ManualClock, program: str) -> None:
    worker = Worker(store, clock)
    put(store, "later", delay=60_000)
    put(store, "other", queue="other")
    assert worker.take(1) == []
    found = commands(program, store, lambda: worker.take(1))
    assert [command for command in found if "TIME" not in command] == [
        f"HMGET session:{worker.id}", "LRANGE row:default", "EXISTS ticks", "ZRANGE due_queues",
        f"EXISTS held:{worker.id}", "HGET meta", "TYPE hungry:default", "DEL nothing", "ZADD hungry:default",
        "PEXPIRE hungry:default", f"HSET session:{worker.id}",
    ]  # fmt: skip


def test_an_exchange_that_finds_nothing_says_whether_the_session_holds_anything(
    store: RedisStore, clock: ManualClock
) -> None:
    worker = Worker(store, clock)
    assert worker.exchange([], worker.asks(1)).holds_nothing
    put(store, "job")
    (lease,) = worker.take(1)
    assert not worker.exchange([], worker.asks(1)).holds_nothing
    assert not worker.exchange([outcome(lease)], worker.asks(1)).holds_nothing, "the long way does not look"
    assert worker.exchange([], worker.asks(1)).holds_nothing
    store.run(store.stop_session(worker.id))
    assert not worker.exchange([], worker.asks(1)).holds_nothing, "so it is renewed, and hears that it is to stop"


def test_many_idle_sessions_cost_few_commands_a_minute(store: RedisStore, clock: ManualClock, program: str) -> None:
    """Of one of them: what it asks four times a minute, and what its supervisor renews in between."""
    worker = Worker(store, clock)
    assert worker.exchange([], worker.asks(1)).swept is None
    store.run(store.sweep(every=900))
    clock.advance(700)
    ask = commands(program, store, lambda: worker.take(1))
    renewal = commands(program, store, lambda: store.run(store.renew(worker.id)))
    assert (len(ask), len(renewal)) == (11, 4)
    assert worker.exchange([], worker.asks(1)).swept == 700, "so it need not ask for a sweep to learn that"


# -- statistics --


def test_statistics_are_there_when_they_are_asked_for(store: RedisStore, clock: ManualClock, program: str) -> None:
    def ask() -> object:
        return store.run(store.stats("default", clock.now() // DAY))

    end(store, clock, 10)
    end(store, clock, 5, Kind.FAILED)
    few = commands(program, store, ask)
    end(store, clock, 3_000)
    end(store, clock, 2_000, Kind.FAILED)
    assert commands(program, store, ask) == few
    assert len(few) < 6
    told = store.run(store.stats("default", clock.now() // DAY))
    assert (told.run.count, told.failed) == (3_010, 2_005)


def test_a_batch_of_ended_jobs_is_summed_up_with_two_commands(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    worker = Worker(store, clock)
    end(store, clock, 1)
    store.run(store.put([new(f"job {i}") for i in range(1_000)]))
    outcomes = [outcome(lease) for lease in worker.take(1_000)]
    day = f"stat:{clock.now() // DAY}:default"
    settled = commands(program, store, lambda: worker.exchange(outcomes))
    assert [command for command in settled if "stat" in command] == [f"HMGET {day}", f"HSET {day}"]


# -- jobs with more to them --


def test_what_is_kept_of_jobs_in_lanes_is_read_in_one_go(store: RedisStore, clock: ManualClock, program: str) -> None:
    worker = Worker(store, clock)

    def put_and_take(number: int) -> list[Lease]:
        lanes = [Lane(key=f"lane {i}", limit=2) for i in range(number)]
        store.run(store.put([new(f"{number}.{i}", lane=lane) for i, lane in enumerate(lanes)]))
        return worker.take(number)

    def of(found: list[str], *wanted: str) -> int:
        return sum(command in wanted for command in found)

    def settle(leases: list[Lease]) -> None:
        found = commands(program, store, lambda: worker.exchange([outcome(lease) for lease in leases]))
        assert of(found, "HMGET more", "HGET more") == 1
        assert of(found, "HMGET job", "HGET job") == 1
        assert len(found) < 30 + 5 * len(leases)

    few, many = put_and_take(2), put_and_take(20)
    settle(few)
    settle(many)


# -- listing --

BLOCK = 256
"""How many arrivals are in one block: see arrivals.lua."""


def fill(store: RedisStore, number: int, start: int = 0, **options: Any) -> list[str]:
    """Plain jobs, newest last."""
    ids = [f"job {start + i}" for i in range(number)]
    for first in range(0, number, 1_000):
        store.run(store.put([new(job_id, **options) for job_id in ids[first : first + 1_000]]))
    return ids


def packed(job_id: str) -> bytes:
    """As an id is in its block."""
    return pack(">H", len(job_id)) + job_id.encode()


def records_read(program: str, store: RedisStore, wanted: Filter) -> int:
    """How many records the scripts of one look load."""
    read = 0
    for command, *words in commands_inside_scripts(program, lambda: store.run(store.find(wanted)), store):
        if words and words[0] == store.keys.job:
            assert command.upper() in ("HMGET", "HGET"), "nothing goes through all jobs"
            read += len(words) - 1
    return read


def found(store: RedisStore, wanted: Filter) -> list[str]:
    return [job.id for page in pages(store, wanted) for job in page]


def test_the_first_page_is_as_far_away_with_many_jobs_as_with_few(store: RedisStore, program: str) -> None:
    fill(store, 1_000)
    few = records_read(program, store, Filter(limit=20))
    fill(store, 9_000, 1_000)
    assert records_read(program, store, Filter(limit=20)) <= 150
    assert few <= 150


def test_all_pages_together_read_each_job_a_few_times(store: RedisStore, program: str) -> None:
    ids = fill(store, 3_000)
    read = 0
    cursor, seen = None, []
    while True:
        wanted = Filter(limit=500, after=cursor)
        read += records_read(program, store, wanted)
        page = store.run(store.find(wanted))
        seen += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ids[::-1]
    assert read <= 3 * len(ids)


def test_jobs_that_are_gone_or_came_again_are_skipped(store: RedisStore) -> None:
    ids = fill(store, 1_000)
    store.run(store.delete(ids[100:900]))
    fill(store, 50, 100)
    expected = [*ids[:100], *ids[900:], *ids[100:150]][::-1]
    assert found(store, Filter(limit=7)) == expected
    assert found(store, Filter()) == expected


def test_a_block_goes_with_the_last_of_its_jobs(store: RedisStore) -> None:
    ids = fill(store, 1_000)
    for i in range(0, 1_000, 100):
        store.run(store.delete(ids[i : i + 100]))
    left = {name.removeprefix(store.keys.prefix): value for name, value in contents(store).items()}
    assert not [name for name in left if name.startswith("block:")]
    assert left["arrivals"] == [b"3", b"3"], "the block that the next job comes to"
    assert left["holes"] == {b"3": b"233"}
    fill(store, 1_000, 1_000)
    store.run(store.delete([f"job {i}" for i in range(1_000, 2_000)]))
    assert contents(store)[f"{store.keys.prefix}holes"] == {b"7": b"209"}


def test_a_damaged_job_keeps_its_place_and_its_block_goes_with_it(store: RedisStore) -> None:
    ids = fill(store, BLOCK - 1)
    store.driver.command("HSET", store.keys.job, ids[10], b"\x01")
    assert found(store, Filter()) == ids[::-1]
    store.run(store.delete(ids))
    assert not [name for name in contents(store) if name.endswith((":block:0", ":arrivals", ":holes"))]


def test_done_jobs_leave_their_blocks_when_they_are_purged(make: Callable[..., RedisStore], clock: ManualClock) -> None:
    store = make(clock, keep_count=100)
    end(store, clock, 3_000)
    while store.run(store.sweep()).more:
        pass
    left = [len(value) for name, value in contents(store).items() if ":block:" in name]
    assert len(left) <= 2
    assert len(found(store, Filter())) == 100


def test_sweeps_take_the_holes_out_of_blocks_with_few_jobs(store: RedisStore) -> None:
    ids = fill(store, 10 * BLOCK)
    stay = ids[BLOCK - 1 :: BLOCK]
    store.run(store.delete([job_id for job_id in ids if job_id not in set(stay)]))
    while store.run(store.sweep()).more:
        pass
    blocks = [value for name, value in contents(store).items() if ":block:" in name]
    assert sorted(blocks) == sorted([packed(job_id)] for job_id in stay)
    assert f"{store.keys.prefix}sparse" not in contents(store)
    assert found(store, Filter()) == stay[::-1]


@pytest.mark.parametrize("state", ["scheduled", "ready", "running", "blocked", "failed", "cancelled"])
def test_few_jobs_of_a_state_are_found_among_many_others(
    store: RedisStore, clock: ManualClock, program: str, state: str
) -> None:
    worker = Worker(store, clock)
    put(store, "oldest", queue="q", **{"delay": 10**6} if state == "scheduled" else {})
    if state == "blocked":
        put(store, "child", queue="q", after=("oldest",))
    elif state in ("running", "failed"):
        (lease,) = worker.take(1, 0, "q")
        if state == "failed":
            worker.exchange([outcome(lease, Kind.FAILED, group="g")])
    elif state == "cancelled":
        store.run(store.cancel(["oldest"]))
    if state == "ready":
        end(store, clock, 3_000)
    else:
        fill(store, 3_000)
    for wanted in (
        Filter(states=(State(state),)),
        Filter(states=(State(state),), queue="q"),
        Filter(states=(State(state),), queue="q", task="task"),
    ):
        assert found(store, wanted) == ["child" if state == "blocked" else "oldest"]
        assert records_read(program, store, wanted) < 10


def test_many_jobs_of_a_state_are_found_by_walking(store: RedisStore, clock: ManualClock) -> None:
    ids = fill(store, 5_000)
    store.run(store.cancel(ids[::2]))
    assert found(store, Filter(states=(State.CANCELLED,), limit=400)) == ids[::2][::-1]
    assert found(store, Filter(states=(State.READY,), limit=400)) == ids[1::2][::-1]
    assert found(store, Filter(states=(State.READY, State.CANCELLED), limit=400)) == ids[::-1]
    assert found(store, Filter(queue="default", limit=400)) == ids[::-1]
    assert found(store, Filter(queue="other")) == []


def test_a_put_pays_one_command_for_the_order(store: RedisStore, program: str) -> None:
    fill(store, 3)
    asked = commands(program, store, lambda: store.run(store.put([new("one more")])))
    assert [command for command in asked if "block:" in command or "arrivals" in command] == ["RPUSH block:0"]


def test_a_plain_put_costs_few_commands(store: RedisStore, program: str) -> None:
    fill(store, 3)
    asked = commands(program, store, lambda: store.run(store.put([new("one more")])))
    assert [command for command in asked if "TIME" not in command] == [
        "LINDEX row:default", "HMGET meta", "HMGET job", "EXISTS events",
        "RPUSH block:0", "HSET meta", "HSET job", "RPUSH row:default",
    ]  # fmt: skip


def test_a_plain_batch_is_put_in_order_with_one_value_per_block(store: RedisStore, program: str) -> None:
    fill(store, 3)

    def put_many() -> None:
        fill(store, 1_000, 10_000)

    asked = [words for words in commands_inside_scripts(program, put_many, store) if words[0].upper() == "RPUSH"]
    keys = [words[1].removeprefix(store.keys.prefix) for words in asked]
    assert keys == [*(f"block:{block}" for block in range(4)), "row:default"]
    assert {len(words) for words in asked[:4]} == {3}


def test_ids_of_any_length_are_listed_in_order(store: RedisStore) -> None:
    ids = [f"{'x' * (i % 300)} {i}" for i in range(600)]
    store.run(store.put([new(job_id) for job_id in ids]))
    assert found(store, Filter(limit=100)) == ids[::-1]


@pytest.mark.parametrize("value", [b"", b"\x00", b"\xff\xff", b"\x00\x05ab"])
def test_what_cannot_be_read_of_a_block_is_skipped(store: RedisStore, value: bytes) -> None:
    ids = fill(store, BLOCK - 1)
    store.driver.command("RPUSH", f"{store.keys.prefix}block:0", value)
    assert found(store, Filter()) == ids[::-1]
    store.run(store.delete(ids[1:]))
    while store.run(store.sweep()).more:
        pass
    assert found(store, Filter()) == ids[:1]
    assert contents(store)[f"{store.keys.prefix}block:0"] == [packed(ids[0])]
