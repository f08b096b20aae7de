"""Ears: no polling, one hint for one worker, and no job that waits because a hint got lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from conformance.helpers import Worker, put, state
from headrace.records import Kind, State
from headrace.store.redis import wakeup
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock, SystemClock

from .servers import Server


class Sleeper(threading.Thread):
    """A worker with one slot that does what a worker does: arm, look, wait."""

    def __init__(self, store: RedisStore, name: str) -> None:
        super().__init__(daemon=True)
        self.worker = Worker(store, SystemClock(), name)
        self.ear = store.waiter(self.worker.id, ["default"])
        self.asleep = threading.Event()
        self.looks = 0
        self.taken: list[tuple[str, float]] = []
        self.stopped = False

    def run(self) -> None:
        while not self.stopped:
            self.ear.arm()
            self.looks += 1
            reply = self.worker.exchange(take=self.worker.asks(1))
            leases = reply.leases
            self.taken += [(lease.id, time.perf_counter()) for lease in leases]
            if leases:
                self.worker.settle(leases[0])
                continue
            self.asleep.set()
            self.ear.wait(None if reply.next_due is None else (reply.next_due - reply.now) / 1000)

    def stop(self) -> None:
        self.stopped = True
        self.ear.poke()
        self.join()
        self.ear.close()


@contextmanager
def sleepers(store: RedisStore, count: int) -> Iterator[list[Sleeper]]:
    made = [Sleeper(store, f"sleeper {i}") for i in range(count)]
    with ExitStack() as stack:
        for each in made:
            each.start()
            stack.callback(each.stop)
        for each in made:
            assert each.asleep.wait(20)
        time.sleep(0.02)  # and they really sleep
        yield made


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def commands(server: Server) -> int:
    return int(server.client().info("stats")["total_commands_processed"])


def test_an_idle_worker_sends_next_to_nothing(server: Server, lone: RedisStore) -> None:
    with sleepers(lone, 3):
        time.sleep(0.1)
        before = commands(server)
        time.sleep(2.0)
        sent = commands(server) - before - 1
        assert sent / 3 / 2.0 < 1.0


def test_one_job_wakes_one_worker(lone: RedisStore) -> None:
    with sleepers(lone, 5) as workers:
        before = sum(worker.looks for worker in workers)
        put(lone, "a")
        until(lambda: state(lone, "a") is State.DONE)
        time.sleep(0.05)
        assert sum(worker.looks for worker in workers) - before <= 2  # the one that took it looks again


def test_many_jobs_wake_many_workers(lone: RedisStore) -> None:
    with sleepers(lone, 5) as workers:
        put(lone, *(f"job {i}" for i in range(200)))
        until(lambda: sum(len(worker.taken) for worker in workers) == 200)
        assert all(worker.taken for worker in workers)


def test_a_sleeper_starts_a_new_job_in_about_a_millisecond(lone: RedisStore) -> None:
    with sleepers(lone, 1) as (sleeper,):
        delays = []
        for i in range(100):
            sleeper.asleep.clear()
            began = time.perf_counter()
            put(lone, f"job {i}")
            until(lambda i=i: len(sleeper.taken) == i + 1)
            delays.append(sleeper.taken[-1][1] - began)
            assert sleeper.asleep.wait(5)
            time.sleep(0.001)
        delays.sort()
        assert delays[50] < 0.005  # about 0.5 ms on an idle machine


def test_a_worker_without_room_gets_no_hints(lone: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "ASK_SECONDS", 0.05)
    full, idle = Worker(lone, SystemClock(), "full"), Worker(lone, SystemClock(), "idle")
    with closing(lone.waiter(full.id, ["default"])) as deaf, closing(lone.waiter(idle.id, ["default"])) as ear:
        for each in (deaf, ear):
            each.arm()
        put(lone, "a")
        full.take(1)  # and has no slot left
        idle.take(1)
        put(lone, "b", "c", "d")
        assert ear.wait(5)
        assert not deaf.wait(0.2)


def test_the_hint_of_a_worker_that_died_is_not_lost_on_the_others(
    lone: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "ASK_SECONDS", 0.1)
    dead, alive = Worker(lone, SystemClock(), "dead"), Worker(lone, SystemClock(), "alive")
    with closing(lone.waiter(dead.id, ["default"])) as deaf, closing(lone.waiter(alive.id, ["default"])) as ear:
        for each, worker in ((deaf, dead), (ear, alive)):
            each.arm()
            worker.take(1)
        put(lone, "a")  # the hint goes to the one that has waited longest, which does nothing about it
        began = time.monotonic()
        assert ear.wait(5)
        assert time.monotonic() - began < 2


def test_a_worker_whose_ear_is_gone_is_passed_over(lone: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "ASK_SECONDS", 60.0)
    gone, alive = Worker(lone, SystemClock(), "gone"), Worker(lone, SystemClock(), "alive")
    with closing(lone.waiter(gone.id, ["default"])) as ear:
        ear.arm()
        gone.take(1)
    with closing(lone.waiter(alive.id, ["default"])) as ear:
        ear.arm()
        alive.take(1)
        time.sleep(0.01)
        put(lone, "a")
        assert ear.wait(5)


def test_a_delayed_job_is_taken_when_it_is_due(lone: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "ASK_SECONDS", 60.0)  # it is not found by asking
    with sleepers(lone, 3) as workers:
        began = time.perf_counter()
        put(lone, "a", delay=150)
        until(lambda: any(worker.taken for worker in workers))
        late = next(worker.taken[0][1] for worker in workers if worker.taken) - began - 0.150
        assert -0.005 < late < 20


def test_who_renews_is_not_forgotten_among_those_who_wait(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock, "w", "default", "mail-*")
    worker.exchange(take=worker.asks(1, 0, "default", "mail-*"))
    prefix, command = store.keys.prefix, store.driver.command
    keys = [f"{prefix}hungry:default", f"{prefix}hungry:mail-*", f"{prefix}patterns"]
    for key in keys:
        command("PEXPIRE", key, "5000")
    clock.advance(50_000)
    worker.renew()
    assert all(command("PTTL", key) > 50_000 for key in keys)
    assert int(command("ZSCORE", keys[2], "mail-*")) == clock.now()


def test_who_has_been_told_does_not_wait_again_by_renewing(store: RedisStore, clock: ManualClock) -> None:
    worker = Worker(store, clock)
    worker.take(1)
    put(store, "a")
    worker.renew()
    assert store.driver.command("EXISTS", f"{store.keys.prefix}hungry:default") == 0


def test_a_closed_session_is_no_longer_hungry(lone: RedisStore) -> None:
    worker = Worker(lone, SystemClock())
    worker.take(1)
    key = f"{lone.keys.prefix}hungry:default"
    assert lone.driver.command("EXISTS", key) == 1
    worker.close()
    assert lone.driver.command("EXISTS", key) == 0


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED])
def test_a_watcher_costs_nothing_when_there_is_none(server: Server, lone: RedisStore, kind: Kind) -> None:
    worker = Worker(lone, SystemClock())
    put(lone, "a", "b")
    server.command("CONFIG", "RESETSTAT")
    worker.run_one(kind)
    assert "cmdstat_publish" not in server.client().info("commandstats")
    with closing(lone.job_waiter("b")) as ear:
        ear.arm()
        assert not ear.wait(0.01)
        worker.run_one(kind)
        assert ear.wait(5)
    assert server.client().info("commandstats")["cmdstat_publish"]["calls"] == 1


def test_a_user_who_may_not_listen_is_served_all_the_same(server: Server) -> None:
    server.command("ACL", "SETUSER", "deaf", "on", ">d", "~*", "resetchannels", "+@all")
    with closing(RedisStore(f"unix://deaf:d@{server.socket}?ns=lone")) as store:
        assert any("may not publish" in sentence for sentence in store.advice())
        with sleepers(store, 2) as workers:
            put(store, "a", "b", "c")
            until(lambda: sum(len(worker.taken) for worker in workers) == 3)


def test_an_ear_closed_twice_and_poked_late_does_no_harm(lone: RedisStore) -> None:
    ear = lone.waiter("nobody", ["default"])
    ear.arm()
    ear.close()
    ear.poke()
    ear.close()
