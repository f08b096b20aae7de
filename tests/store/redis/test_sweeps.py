"""Sweeps: one serves all workers of a store, and costs what has expired, not what is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.helpers import LONG, TIMEOUT, Worker, outcome, put
from headrace import Headrace
from headrace.records import SessionInfo
from headrace.store.contract import Operation, Swept, TakingWaiter
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock, SystemClock

from .servers import Server, commands_inside_scripts

EVERY = 1_000


def open_sessions(store: RedisStore, count: int) -> None:
    for number in range(count):
        info = SessionInfo(id=f"s{number}", name="worker", queues=["default"], tasks=["task"], timeout=TIMEOUT)
        store.run(store.open(info))


def sweep(store: RedisStore) -> Swept:
    return store.run(store.sweep(every=EVERY))


def commands(program: str, store: RedisStore, operation: Any) -> list[str]:
    return [words[0].lower() for words in commands_inside_scripts(program, lambda: store.run(operation), store)]


def test_a_sweep_of_800_sessions_looks_at_those_that_may_have_expired(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    open_sessions(store, 10)
    few = commands(program, store, store.sweep(every=EVERY))
    clock.advance(EVERY)
    open_sessions(store, 800)
    many = commands(program, store, store.sweep(every=EVERY))
    assert len(many) <= len(few) + 2
    assert many.count("hmget") <= few.count("hmget") + 1


def test_each_session_is_looked_at_once_within_its_time_out(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    open_sessions(store, 100)
    looked_at = 0
    for _ in range(2 * TIMEOUT // EVERY):
        clock.advance(EVERY)
        for number in range(100):
            store.run(store.renew(f"s{number}"))
        looked_at += sum(
            words[0].lower() == "scard"
            for words in commands_inside_scripts(program, lambda: store.run(store.sweep(every=EVERY)), store)
        )
    assert looked_at == 200


def test_only_one_sweep_of_an_interval_does_anything(store: RedisStore, clock: ManualClock, program: str) -> None:
    open_sessions(store, 800)
    first = sweep(store)
    refused = commands(program, store, store.sweep(every=EVERY))
    assert len(refused) <= 6
    assert "hset" not in refused
    clock.advance(EVERY - 1)
    assert commands(program, store, store.sweep(every=EVERY)) == refused
    clock.advance(1)
    assert len(commands(program, store, store.sweep(every=EVERY))) > len(refused)
    assert first == Swept(again_in=20 * EVERY)


def test_where_more_workers_ask_each_comes_less_often(store: RedisStore, clock: ManualClock) -> None:
    assert sweep(store).again_in == EVERY
    open_sessions(store, 4)
    assert sweep(store).again_in == EVERY
    open_sessions(store, 40)
    assert sweep(store).again_in == 10 * EVERY
    assert store.run(store.sweep()).again_in is None


def test_where_there_are_many_a_sleeper_asks_less_often(make: Callable[..., RedisStore], server: Server) -> None:
    store = make(url=f"{server.url}?ns=crowd")
    worker = Worker(store, SystemClock())
    for count, seconds in ((0, "5.000"), (200, "10.000")):
        open_sessions(store, count)
        sweep(store)
        store.driver.command("HDEL", store.keys.known[1], "swept")
        waiter = store.waiter(worker.id, ["default"])
        waiter.arm()
        assert isinstance(waiter, TakingWaiter)
        worker.number += 1
        request = store.exchange(worker.id, worker.number, (), worker.asks(1))
        heard: list[list[str]] = []

        def meanwhile() -> float | None:
            return None  # it is rung for at once

        monitor = server.client().connection_pool.make_connection()
        monitor.send_command("MONITOR")
        monitor.read_response()
        waiter.wait_and_run(request, meanwhile)
        waiter.close()
        while not heard or heard[-1][0] != "BLPOP":
            heard.append(list(monitor.read_response().decode("latin-1").split('"')[1::2]))
        monitor.disconnect()
        assert heard[-1][-1] == seconds


def test_a_sweep_that_has_more_to_do_keeps_nobody_from_sweeping(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    store.run(store.set_settings({"jobs-history": 0}))
    for first in range(0, 1_200, 300):
        put(store, *(f"{number}" for number in range(first, first + 300)))
        worker.exchange([outcome(lease) for lease in worker.take(300)])
    clock.advance(2)
    purged = 0
    for _ in range(3):
        swept = sweep(store)
        purged += swept.jobs_purged
    assert purged == 1_200


def test_a_dead_session_is_found_by_the_first_sweep_after_its_end(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    open_sessions(store, 20)
    clock.advance(TIMEOUT - 1)
    sweep(store)
    put(store, "a")
    worker.take(1)
    clock.advance(TIMEOUT - 1)
    assert sweep(store).sessions_closed == 0
    clock.advance(EVERY)
    swept = sweep(store)
    assert (swept.sessions_closed, swept.jobs_returned) == (1, 1)


def test_sessions_that_the_index_does_not_have_are_found_all_the_same(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    put(store, "a")
    worker.take(1)
    store.driver.command("DEL", store.keys.prefix + "expiries")
    clock.advance(TIMEOUT)
    assert sweep(store).sessions_closed == 1


def test_a_session_that_is_in_the_index_only_is_forgotten(store: RedisStore, clock: ManualClock) -> None:
    open_sessions(store, 1)
    store.driver.command("ZADD", store.keys.prefix + "expiries", "-1", "stranger")
    assert sweep(store).sessions_closed == 0
    assert store.driver.command("ZRANGE", store.keys.prefix + "expiries", "0", "-1") == [b"s0"]


def test_a_dead_session_is_found_after_the_server_s_clock_was_set_back(store: RedisStore, clock: ManualClock) -> None:
    clock.advance(7_200_000)
    worker = Worker(store, clock)
    put(store, "a")
    clock.advance(TIMEOUT)
    sweep(store)
    clock.advance(-3_600_000)  # on a server both clocks are the machine's, which may be set
    worker.take(1)
    sweep(store)
    clock.advance(TIMEOUT)
    assert sweep(store).jobs_returned == 1


def test_an_age_that_is_set_holds_for_sessions_that_were_looked_at(store: RedisStore, clock: ManualClock) -> None:
    open_sessions(store, 3)
    clock.advance(60_000)
    assert sweep(store).sessions_closed == 0
    store.run(store.set_settings({"max-worker-age": 60_000}))
    clock.advance(EVERY)
    assert sweep(store).sessions_closed == 3


def test_an_idle_session_costs_few_commands(store: RedisStore, clock: ManualClock, program: str) -> None:
    worker = Worker(store, clock)
    worker.take(1)
    assert len(commands(program, store, store.renew(worker.id))) <= 6
    take = worker.asks(1, 0, "default")
    assert len(commands(program, store, store.exchange(worker.id, worker.number + 1, (), take))) <= 12


def test_a_worker_comes_again_when_the_store_says(
    make: Callable[..., RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked, real = make(), [], RedisStore.sweep

    def counted(self: RedisStore, *, every: int | None = None) -> Operation[Swept]:
        asked.append(every)
        return real(self, every=every)

    monkeypatch.setattr(RedisStore, "sweep", counted)
    open_sessions(store, 60)  # in 13 s. One of more than 70 also sweeps when it hears that it is time
    app = Headrace(store.url)

    @app.task
    def later() -> None:
        pass

    with app.worker():
        later.using(run_after=3).enqueue().result(timeout=LONG)
    assert len(asked) == 1
