"""Ears: arm, look, wait loses no wake-up; between threads, and between processes where the store is shared.

The store's clock is the system's here, but nothing is measured: a wait that is to end has a time-out that
would fail the test, and a wait that may last is ended by a poke.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from headrace.records import Kind, State
from headrace.store.contract import Store, Waiter
from headrace.values.clock import SystemClock
from volume import volume

from .helpers import LONG, Worker, look, put, state, woken
from .stores import Entry


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@contextmanager
def sleeper(waiter: Waiter) -> Iterator[Callable[[], bool]]:
    """A thread that waits; call to learn whether it was woken."""
    outcome: list[bool] = []
    thread = threading.Thread(target=lambda: outcome.append(woken(waiter)))
    thread.start()

    def was_woken() -> bool:
        thread.join()
        return outcome[0]

    try:
        yield was_woken
    finally:
        thread.join()


# -- news between arming and waiting --


def test_a_put_after_arming_ends_the_wait(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        assert worker.take(1) == []
        put(store, "a")
        assert woken(ear)
        assert worker.take_one().id == "a"


def test_a_put_during_the_wait_ends_it(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        with sleeper(ear) as was_woken:
            put(store, "a")
            assert was_woken()


def test_a_poke_after_the_end_reaches_nobody(store: Store, worker: Worker) -> None:
    late = store.waiter(worker.id, ["default"])
    late.close()
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        late.poke()
        late.close()
        assert not ear.wait(0)
        put(store, "a")
        assert woken(ear), "whoever came after is still where it can be reached"


def test_every_queue_listened_to_is_heard(store: Store, worker: Worker) -> None:
    queues = [f"queue {i}" for i in range(20)]
    with closing(store.waiter(worker.id, queues)) as ear:
        for queue in queues:
            ear.arm()
            put(store, f"job for {queue}", queue=queue)
            assert woken(ear)


def test_every_ear_is_told(store: Store, worker: Worker) -> None:
    ears = [store.waiter(worker.id, ["default"]) for _ in range(5)]
    for ear in ears:
        ear.arm()
    put(store, *"abcde")  # a store may tell as many as there are jobs
    for ear in ears:
        assert woken(ear)
        ear.close()


def test_a_scheduled_put_is_news_so_that_the_sleeper_can_set_its_timer(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        assert worker.exchange(take=worker.asks()).next_due is None
        put(store, "a", delay=3_600_000)
        assert woken(ear)
        assert worker.exchange(take=worker.asks()).next_due == look(store, "a").due


@pytest.mark.parametrize(
    ("kind", "heard"),
    [(Kind.AGAIN, "default"), (Kind.RELEASED, "default"), (Kind.CRASHED, "default"), (Kind.MOVED, "next")],
)
def test_a_job_that_comes_back_in_line_is_news(
    store: Store, worker: Worker, clock: SystemClock, kind: Kind, heard: str
) -> None:
    other = Worker(store, clock, "other")
    put(store, "a")
    lease = other.take_one()
    with closing(store.waiter(worker.id, [heard])) as ear:
        ear.arm()
        other.settle(lease, kind, queue="next" if kind is Kind.MOVED else None)
        assert woken(ear)


def test_jobs_given_back_by_a_closed_session_are_news(store: Store, worker: Worker, clock: SystemClock) -> None:
    other = Worker(store, clock, "other")
    put(store, "a")
    other.take_one()
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        other.close(crashed=None)
        assert woken(ear)


def test_jobs_given_back_by_a_sweep_are_news(store: Store, worker: Worker, clock: SystemClock) -> None:
    other = Worker(store, clock, "other", timeout=0)
    put(store, "a")
    other.take_one()
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        assert store.run(store.sweep()).jobs_returned == 1
        assert woken(ear)


def test_a_revived_job_is_news(store: Store, worker: Worker) -> None:
    put(store, "a")
    store.run(store.cancel(["a"]))
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        store.run(store.revive(["a"]))
        assert woken(ear)


def test_a_cancelled_job_of_its_own_is_news_to_a_worker(store: Store, worker: Worker) -> None:
    put(store, "a", queue="other")
    (lease,) = worker.take(1, 0, "other")
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        assert list(worker.renew(lease).cancelled) == []
        store.run(store.cancel(["a"]))
        assert woken(ear)
        assert list(worker.renew(lease).cancelled) == ["a"]


# -- watchers --


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED, Kind.BROKEN])
def test_a_final_state_is_news_to_a_watcher(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a")
    lease = worker.take_one()
    with closing(store.job_waiter("a")) as ear:
        ear.arm()
        assert not state(store, "a").final
        worker.settle(lease, kind)
        assert woken(ear)
        assert state(store, "a").final


def test_a_cancellation_is_news_to_a_watcher(store: Store) -> None:
    put(store, "a")
    with closing(store.job_waiter("a")) as ear:
        ear.arm()
        store.run(store.cancel(["a"]))
        assert woken(ear)


def test_the_last_crash_is_news_to_a_watcher(store: Store, worker: Worker) -> None:
    put(store, "a", max_crashes=1)
    worker.take_one()
    with closing(store.job_waiter("a")) as ear:
        ear.arm()
        worker.close(crashed=None)
        assert woken(ear)


def test_a_watcher_in_another_thread_sees_the_result(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    seen: list[State] = []

    def watch() -> None:
        with closing(store.job_waiter("a")) as ear:
            while True:
                ear.arm()
                now = state(store, "a")
                seen.append(now)
                if now.final or not woken(ear):
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    worker.settle(lease)
    thread.join()
    assert seen[-1] is State.DONE


@pytest.mark.usefixtures("a_thousand_files")
def test_a_process_may_have_any_number_of_files(store: Store, worker: Worker) -> None:
    test_a_put_after_arming_ends_the_wait(store, worker)


# -- poke, time-out, event loop --


def test_a_poke_ends_the_present_wait(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        with sleeper(ear) as was_woken:
            ear.poke()
            assert was_woken()


def test_a_poke_ends_the_next_wait_even_when_armed_in_between(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.poke()
        ear.arm()
        assert woken(ear)


def test_a_poke_is_no_news(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        assert worker.take(1) == []
        ear.wait(0)  # where all that can be done is to look, the first look is news
        ear.poke()
        assert ear.wait(LONG) is False


def test_a_poke_hides_no_news_and_leaves_the_ear_armed(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        assert worker.take(1) == []
        ear.poke()
        ear.wait(LONG)
        put(store, "a")
        ear.poke()
        assert ear.wait(LONG) or ear.wait(LONG / 2)


def test_a_wait_that_timed_out_goes_on_listening(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        assert not ear.wait(0.01)
        put(store, "a")
        assert woken(ear)


def test_a_watcher_can_be_poked_too(store: Store) -> None:
    put(store, "a")
    with closing(store.job_waiter("a")) as ear:
        ear.arm()
        ear.poke()
        assert woken(ear)


@pytest.mark.parametrize("timeout", [0.0, 0.01])
def test_a_wait_without_news_ends_with_its_time_out(store: Store, worker: Worker, timeout: float) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        began = time.monotonic()
        ear.wait(timeout)
        assert time.monotonic() - began < LONG / 2


def test_a_wait_without_a_time_out_is_ended_by_news(store: Store, worker: Worker) -> None:
    with closing(store.waiter(worker.id, ["default"])) as ear:
        ear.arm()
        put(store, "a")
        ear.wait(None)
        assert worker.take_one().id == "a"


def test_waiting_on_an_event_loop_is_the_same(store: Store, worker: Worker) -> None:
    async def session() -> list[str]:
        ended = []
        with closing(store.waiter(worker.id, ["default"])) as ear:
            ear.arm()
            await store.arun(store.put([]))
            waiting = asyncio.create_task(ear.wait_async(LONG))
            await asyncio.sleep(0)  # lets the task begin; whether it has does not matter
            await asyncio.to_thread(put, store, "a")
            await asyncio.wait_for(waiting, LONG / 2)
            ended.append("news")
            ear.arm()
            ear.poke()
            await asyncio.wait_for(ear.wait_async(LONG), LONG / 2)
            ended.append("poke")
            ear.arm()
            await ear.wait_async(0.01)
            ended.append("time-out")
        return ended

    assert asyncio.run(session()) == ["news", "poke", "time-out"]


# -- a stream of jobs --


def consume(store: Store, worker: Worker, count: int) -> list[str]:
    """Take until `count` have come, sleeping whenever there is nothing."""
    taken: list[str] = []
    with closing(store.waiter(worker.id, worker.queues)) as ear:
        while len(taken) < count:
            ear.arm()
            leases = worker.take(3)
            taken += [lease.id for lease in leases]
            if not leases and not woken(ear):
                break
    return taken


def test_no_wake_up_is_lost_between_two_threads(store: Store, worker: Worker) -> None:
    expected = [f"job {i}" for i in range(volume(150))]
    turn = threading.Semaphore(0)

    def produce() -> None:
        for job_id in expected:
            turn.acquire()
            put(store, job_id)

    producer = threading.Thread(target=produce)
    producer.start()
    taken = []
    for _ in expected:  # one at a time: each put meets a sleeper, or one about to sleep
        turn.release()
        taken += consume(store, worker, 1)
    producer.join()
    assert taken == expected


PRODUCER = """
import sys
from headrace.records import NewJob
from headrace.store import open_store

store = open_store(sys.argv[1])
for line in sys.stdin:
    store.run(store.put([NewJob(id=line.strip(), task="task", body=b"")]))
store.close()
"""


@contextmanager
def other_process(entry: Entry, store: Store, script: str) -> Iterator[subprocess.Popen[str]]:
    """A process with the same store, told by standard input what to do."""
    if not entry.shared:
        pytest.skip("lives in one process")
    with subprocess.Popen(
        [sys.executable, "-c", script, store.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        yield process
        process.stdin.close()
        assert process.wait(LONG) == 0


def test_no_wake_up_is_lost_between_two_processes(entry: Entry, store: Store, worker: Worker) -> None:
    expected = [f"job {i}" for i in range(volume(100))]
    with other_process(entry, store, PRODUCER) as producer:
        half = len(expected) // 2
        for job_id in expected[:half]:  # one at a time: each put meets a sleeper or one about to sleep
            producer.stdin.write(f"{job_id}\n")
            assert consume(store, worker, 1) == [job_id]
        producer.stdin.write("".join(f"{job_id}\n" for job_id in expected[half:]))  # and as fast as it can
        assert consume(store, worker, len(expected) - half) == expected[half:]


FINISHER = """
import sys
from headrace.records import Kind, NewJob, Outcome, SessionInfo, Take
from headrace.store import open_store

store = open_store(sys.argv[1])
store.run(store.open(SessionInfo(id="finisher", name="finisher")))
for number, line in enumerate(sys.stdin):
    (lease,) = store.run(store.exchange("finisher", 2 * number + 1, take=Take(("default",), 1))).leases
    done = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE)
    store.run(store.exchange("finisher", 2 * number + 2, [done]))
store.close()
"""


def test_a_watcher_hears_another_process_finish_the_job(entry: Entry, store: Store) -> None:
    with other_process(entry, store, FINISHER) as finisher:
        for i in range(volume(20)):
            put(store, f"job {i}")
            with closing(store.job_waiter(f"job {i}")) as ear:
                finisher.stdin.write("next\n")
                while True:
                    ear.arm()
                    if state(store, f"job {i}").final:
                        break
                    assert woken(ear)


CANCELLER = """
import sys
from headrace.store import open_store

store = open_store(sys.argv[1])
for line in sys.stdin:
    store.run(store.cancel([line.strip()]))
store.close()
"""


def test_a_worker_hears_another_process_cancel_its_job(entry: Entry, store: Store, worker: Worker) -> None:
    put(store, *(f"job {i}" for i in range(volume(10))))
    with (
        other_process(entry, store, CANCELLER) as canceller,
        closing(store.waiter(worker.id, ["elsewhere"])) as ear,
    ):
        for lease in worker.take(volume(10)):
            canceller.stdin.write(f"{lease.id}\n")
            while True:
                ear.arm()
                if list(worker.renew(lease).cancelled) == [lease.id]:
                    break
                assert woken(ear)
