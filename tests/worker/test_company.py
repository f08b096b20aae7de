"""When the pump exchanges while leases are in hand: outcomes that wait run again if the process is killed, and jobs of
higher priority wait for the next exchange, which takes long beside many busy threads."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from typing import Any, cast

import pytest

from headrace import Headrace
from headrace.records import ExchangeReply, Kind, Lease, Outcome, SessionInfo, State, Take
from headrace.values.clock import ManualClock
from headrace.worker.leases import CALM, CALM_IF_SLOW, RING_SECONDS, Leases
from headrace.worker.pump import Pump
from headrace.worker.run import Run


@pytest.fixture
def leases() -> Iterator[Leases]:
    """Of a pump whose spare leases wait while an outcome has come."""
    app = Headrace("sqlite:///:memory:")
    app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
    pump = Pump(app, "s", queues=["default"], slots=2)
    for number in range(5):
        lease = Lease(number, 1, f"{number}", "task", "default", b"{}")
        pump.leases.waiting[Run(lease, cast("Any", None), pump._reports)] = True
    pump.leases.ahead.replied({0}, 0)
    pump.leases.ahead.replied_at += 60  # just now, however slow this machine is
    pump.leases.ahead.due_at += 60
    pump.leases.outcomes.append(Outcome(ref=9, token=1, id="9", kind=Kind.DONE))
    yield pump.leases
    pump.close()
    app.close()


@pytest.mark.parametrize(
    ("rate", "trip", "running", "waits"),
    [
        (0, 0.0, 1, False),  # nothing is known yet
        (400, 0.001, 1, False),
        (400, 0.002, 1, True),  # a store that is further away, or that others use, too
        (400, 0.002, 2, False),  # jobs that take 5 ms
        (400, 0.003, 2, True),
        (2_000, 0.0004, 4, True),  # quick jobs that seem to be slow, as their threads share the interpreter
        (50_000, 0.0003, 1, True),
    ],
)
def test_outcomes_wait_only_when_there_is_no_time_for_a_round_trip_each(
    leases: Leases, rate: int, trip: float, running: int, waits: bool
) -> None:
    for run in list(leases.waiting)[:running]:
        leases.running[run] = True
    leases.ahead.ended(rate, 1.0, ran_out=False)
    for _ in range(50):
        leases.ahead.pace.exchanged(trip)
    assert waits == (rate * trip > (CALM_IF_SLOW if running * 200 >= rate else CALM))
    assert leases.ripe() is not waits


def test_outcomes_wait_no_longer_than_what_is_held_ready_takes(leases: Leases) -> None:
    leases.ahead.ended(50_000, 1.0, ran_out=False)
    leases.ahead.pace.exchanged(0.001)
    assert not leases.ripe()
    leases.ahead.due_at -= 60 + leases.ahead.seconds
    assert leases.ripe()


@pytest.mark.parametrize(
    ("rate", "trip", "running", "seconds"),
    [
        (3_500, 0.001, 4, 0.005),  # jobs of a millisecond and more: what a kill makes run again is 5 ms of work
        (3_500, 0.002, 4, 0.008),  # a fifth of the time is for exchanges
        (3_500, 0.010, 4, 0.010),
        (50_000, 0.0003, 1, 0.010),  # quick jobs, which exchanges slow down
    ],
)
def test_outcomes_of_jobs_that_are_not_quick_wait_five_milliseconds(
    leases: Leases, rate: int, trip: float, running: int, seconds: float
) -> None:
    for run in list(leases.waiting)[:running]:
        leases.running[run] = True
    leases.ahead.ended(rate, 1.0, ran_out=False)
    for _ in range(50):
        leases.ahead.pace.exchanged(trip)
    assert not leases.ripe()
    assert leases.settle_at - leases.ahead.replied_at == pytest.approx(seconds, abs=1e-6)
    leases.ahead.replied_at -= 60 + seconds
    assert leases.ripe() is (seconds < 0.010)


def test_a_job_of_higher_priority_starts_before_the_leases_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with the next exchange, which asks for as many leases as have been worked off, and starts next."""
    started: SimpleQueue[str] = SimpleQueue()
    gate = threading.Semaphore(0)
    with closing(Headrace("sqlite:///:memory:")) as app:

        @app.task(name="job")
        def job(name: str) -> None:
            started.put(name)
            assert gate.acquire(timeout=20)

        app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
        app.enqueue_many([job.call(f"low {number}") for number in range(50)])
        with closing(Pump(app, "s", queues=["default"], slots=1)) as pump:
            leases = pump.leases
            for _ in range(10):
                leases.ahead.ended(1_000, 1.0, ran_out=True)
            pump._exchange()
            assert started.get(timeout=20) == "low 0"
            assert leases.in_hand == 11, "ten milliseconds of work at this pace, besides the one that runs"
            assert not leases.ahead.mixed
            monkeypatch.setattr(leases.ahead, "spare", lambda: 10)  # whatever the pace of this machine is
            job.using(priority=9).enqueue("high")
            gate.release()
            assert started.get(timeout=20) == "low 1"
            leases.ahead.due_at -= 1
            pump._exchange()
            assert not leases.outcomes
            assert leases.in_hand == 11
            assert leases.ahead.mixed, "more that are urgent may follow: the next exchange comes sooner"
            gate.release()
            assert started.get(timeout=20) == "high"
            leases.stopping = True
            gate.release(50)


def test_a_process_that_may_start_so_many_jobs_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although spare leases wait when it asks for more: it would never get to know that the last has started."""
    started: SimpleQueue[int] = SimpleQueue()
    gate = threading.Semaphore(0)
    with closing(Headrace("sqlite:///:memory:")) as app:

        @app.task(name="job")
        def job(number: int) -> None:
            started.put(number)
            assert gate.acquire(timeout=20)

        app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
        app.enqueue_many([job.call(number) for number in range(50)])
        with closing(Pump(app, "s", queues=["default"], slots=1, max_jobs=5)) as pump:
            leases = pump.leases
            monkeypatch.setattr(leases.ahead, "spare", lambda: 2)
            pump._exchange()
            assert (leases.in_hand, leases.left) == (3, 2)
            assert started.get(timeout=20) == 0
            gate.release()
            assert started.get(timeout=20) == 1
            monkeypatch.setattr(leases.ahead, "spare", lambda: 10)
            leases.ahead.due_at -= 60
            pump._exchange()
            assert (leases.in_hand, leases.left) == (4, 0)
            leases.stopping = True
            gate.release(50)


@pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
def test_the_store_rings_a_busy_worker_for_an_urgent_job(url: str) -> None:
    """A small exchange takes it and settles nothing; it starts next, and the line goes on after it."""
    started: SimpleQueue[str] = SimpleQueue()
    gate = threading.Semaphore(0)
    with closing(Headrace(url)) as app:

        @app.task(name="job")
        def job(name: str) -> None:
            started.put(name)
            assert gate.acquire(timeout=20)

        app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
        app.enqueue_many([job.call(f"low {number}") for number in range(50)])
        with closing(Pump(app, "s", queues=["default"], slots=1)) as pump:
            leases, ahead = pump.leases, pump.leases.ahead
            for _ in range(10):
                ahead.ended(1_000, 1.0, ran_out=True)
            pump._exchange()
            assert started.get(timeout=20) == "low 0"
            assert leases.in_hand == 26, "25 ms of work at this pace, besides the one that runs"
            gate.release()
            assert started.get(timeout=20) == "low 1"
            number = pump.session.number
            job.enqueue("also low")
            assert app.queue("default").counts()[State.READY] == 25
            assert not pump._waiter.wait(0)
            assert ahead.urgent_at == math.inf, "an ordinary job does not ring"
            job.using(priority=9).enqueue("high")
            assert app.queue("default").counts()[State.READY] == 26, "so what was sent before has come"
            pump._wait()
            assert ahead.urgent_at <= time.monotonic()
            assert not pump._renewals.news, "a ring is no reason to ask about the leases in hand"
            pump._take_urgent()
            assert pump.session.number == number + 1
            assert len(leases.outcomes) == 1, "it will be settled with the next exchange"
            gate.release(2)
            assert [started.get(timeout=20) for _ in range(2)] == ["high", "low 2"]
            job.using(priority=9).enqueue("high as well")
            assert State.READY in app.queue("default").counts()
            pump._wait()
            assert ahead._took_urgent_at + RING_SECONDS <= ahead.urgent_at < math.inf, "not all too often"
            leases.stopping = True
            gate.release(50)


@pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
def test_a_ring_during_an_exchange_is_heard_before_its_jobs_start(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The urgent job is taken next, and what has ended is settled after that, even if the line has run out."""
    started: SimpleQueue[str] = SimpleQueue()
    with closing(Headrace(url)) as app:

        @app.task(name="job")
        def job(name: str) -> None:
            started.put(name)

        app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
        app.enqueue_many([job.call(f"low {number}") for number in range(50)])
        with closing(Pump(app, "s", queues=["default"], slots=1)) as pump:
            leases, ahead, send = pump.leases, pump.leases.ahead, pump._send
            pump._waiter.wait(0)  # listens from now on

            def send_and_be_rung(outcomes: Sequence[Outcome], take: Take | None) -> ExchangeReply:
                reply = send(outcomes, take)
                job.using(priority=9).enqueue("high")
                assert app.queue("default").counts()[State.READY] == 25, "so what was sent before has come"
                return reply

            for _ in range(10):
                ahead.ended(1_000, 1.0, ran_out=True)
            monkeypatch.setattr(pump, "_send", send_and_be_rung)
            pump._exchange()
            monkeypatch.undo()
            assert ahead.urgent_at <= time.monotonic()
            assert [started.get(timeout=20) for _ in range(26)] == [f"low {number}" for number in range(26)]
            assert not leases.waiting
            pump._take_urgent()
            assert started.get(timeout=20) == "high"
            assert len(leases.outcomes) >= 25, "they are settled with the next exchange"
            ahead.rung()
            pump._exchange()
            assert ahead.urgent_at == math.inf, "every exchange begins with the most urgent job"
            leases.stopping = True


def test_jobs_that_take_less_than_a_millisecond_keep_one_thread_awake() -> None:
    """On the average: the clock counts whole ones, so every fifth of these seems to take one."""
    clock = ManualClock()
    awake: list[int] = []
    with closing(Headrace("sqlite:///:memory:")) as app:

        @app.task(name="job")
        def job(number: int) -> None:
            awake.append(len(pump._threads._threads) - len(pump._threads._asleep))
            if number % 5 == 0:
                clock.advance(1)

        app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
        app.enqueue_many([job.call(number) for number in range(5_000)])
        pump = Pump(app, "s", queues=["default"], slots=8, burst=True, clock=clock)
        pump.run()
    assert len(awake) == 5_000
    assert max(awake[-1_000:]) == 1


@pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
def test_a_busy_pump_listens_once_per_exchange(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its jobs start. Once they run, it waits for the interpreter each time that it has let it go."""
    counted: list[str] = []
    with closing(Headrace(url)) as app:

        @app.task(name="noop")
        def noop() -> None: ...

        app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
        app.enqueue_many([noop.call() for _ in range(2_000)])
        with closing(Pump(app, "s", queues=["default"], slots=8, burst=True)) as pump:
            send, wait = pump._send, pump._waiter.wait

            def counted_send(outcomes: Sequence[Outcome], take: Take | None) -> ExchangeReply:
                counted.append("exchange")
                return send(outcomes, take)

            def counted_wait(timeout: float | None) -> bool:
                counted.extend(["look"] if timeout == 0 else [])
                return wait(timeout)

            monkeypatch.setattr(pump, "_send", counted_send)
            monkeypatch.setattr(pump._waiter, "wait", counted_wait)
            pump.run()
    at_the_end = 2
    assert counted.count("look") <= counted.count("exchange") + at_the_end
