"""The budget for ended jobs: what it bounds, who goes first, and that the books on it are right."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from conformance.helpers import Worker, new, outcome, put
from headrace import Headrace
from headrace.records import Filter, Kind, State
from headrace.store.contract import Swept
from headrace.store.redis.store import RedisStore
from headrace.values.clock import ManualClock, SystemClock

from . import servers
from .servers import Server

BUDGET = 1_000_000
LARGE = b"x" * 5_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[RedisStore]:
    made = RedisStore(servers.fresh_url(), clock=clock)
    yield made
    made.close()


@pytest.fixture
def worker(store: RedisStore, clock: ManualClock) -> Worker:
    return Worker(store, clock)


def meta(store: RedisStore, field: str) -> int | None:
    found = store.driver.command("HGET", store.keys.meta, field)
    return None if found is None else int(found)


def sweep(store: RedisStore) -> Swept:
    """Until there is no more to do; answers with what was purged in all."""
    purged = early = 0
    while True:
        swept = store.run(store.sweep())
        purged, early = purged + swept.jobs_purged, early + swept.failed_purged_early
        if not swept.more:
            return Swept(jobs_purged=purged, failed_purged_early=early)


def end(store: RedisStore, worker: Worker, clock: ManualClock, how: State, number: int, body: bytes = b"") -> None:
    """Let so many jobs come to this end, a millisecond apart."""
    for i in range(number):
        job_id = f"{how} {clock.now()} {i}"
        store.run(store.put([new(job_id, body=body)]))
        if how is State.CANCELLED:
            store.run(store.cancel([job_id]))
        else:
            worker.run_one(Kind.DONE if how is State.DONE else Kind.FAILED, result=b"R" if how is State.DONE else None)
        clock.advance(1)


def by_state(store: RedisStore) -> dict[State, int]:
    counts = store.run(store.counts())
    return counts[0].by_state if counts else {}


def test_done_jobs_go_first_then_cancelled_ones_then_failed_ones(
    store: RedisStore, worker: Worker, clock: ManualClock
) -> None:
    store.run(store.set_settings({"history-memory": BUDGET}))
    for how in (State.FAILED, State.CANCELLED, State.DONE):
        end(store, worker, clock, how, 60, LARGE)
    assert sweep(store).jobs_purged == 0, "some 950,000 bytes"
    end(store, worker, clock, State.FAILED, 30, LARGE)
    swept = sweep(store)
    assert 0 < swept.jobs_purged < 60
    assert by_state(store) == {State.DONE: 60 - swept.jobs_purged, State.CANCELLED: 60, State.FAILED: 90}
    end(store, worker, clock, State.FAILED, 70, LARGE)
    assert sweep(store).failed_purged_early == 0
    left = by_state(store)
    assert (State.DONE in left, left[State.FAILED]) == (False, 160)
    assert 0 < left[State.CANCELLED] < 60
    assert store.advice() == [line for line in store.advice() if "before their age" not in line]
    end(store, worker, clock, State.FAILED, 40, LARGE)
    early = sweep(store).failed_purged_early
    assert early > 0
    assert by_state(store) == {State.FAILED: 200 - early}
    oldest = [job.id for job in store.run(store.find(Filter(limit=500))).jobs][-1]
    assert not oldest.endswith(" 0"), "the oldest go"
    assert (meta(store, "ended_bytes") or 0) <= BUDGET


def test_failed_jobs_that_were_purged_early_are_found_by_the_doctor(
    store: RedisStore, worker: Worker, clock: ManualClock
) -> None:
    store.run(store.set_settings({"history-memory": BUDGET}))
    end(store, worker, clock, State.FAILED, 200, LARGE)
    early = sweep(store).failed_purged_early
    (finding,) = [line for line in store.advice() if "before their age" in line]
    assert finding.startswith(f"{early} failed jobs were purged before their age (failed-history), the last ones at ")
    assert "took more than 1,000,000 bytes of memory. Raise history-memory" in finding
    clock.advance(31 * 86_400_000)
    sweep(store)
    assert not [line for line in store.advice() if "before their age" in line], "they would be gone by now"


class Listener(logging.Handler):
    """Notices one line of the log."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.words in record.getMessage():
            self.heard.set()


def test_a_worker_logs_that_it_has_purged_failed_jobs_early() -> None:
    app = Headrace(servers.fresh_url())
    listener = Listener("failed jobs before their age (failed-history)")

    @app.task(name="fail")
    def fail(text: str) -> None:
        raise ValueError

    app.settings["history-memory"] = "1 MB"
    app.enqueue_many([fail.call("x" * 50_000) for _ in range(40)])
    logging.getLogger("headrace.worker").addHandler(listener)
    try:
        with app.worker():
            assert listener.heard.wait(20)
    finally:
        logging.getLogger("headrace.worker").removeHandler(listener)
        app.close()


def test_exchanges_keep_done_jobs_within_the_budget(store: RedisStore, worker: Worker, clock: ManualClock) -> None:
    store.run(store.set_settings({"history-memory": BUDGET}))
    store.run(store.sweep())
    for batch in range(20):
        put(store, *(f"{batch} {i}" for i in range(100)))
        leases = worker.take(100)
        worker.exchange([outcome(lease, began=0, ended=0, result=b"R" * 1_500) for lease in leases])
        clock.advance(1)
        assert (meta(store, "ended_bytes") or 0) <= BUDGET
    assert 300 < by_state(store)[State.DONE] < 600


def test_a_large_result_makes_room_for_itself_and_no_more(
    store: RedisStore, worker: Worker, clock: ManualClock
) -> None:
    store.run(store.set_settings({"history-memory": BUDGET}))
    for i in range(4):
        put(store, f"job {i}")
        worker.run_one(result=b"x" * 300_000)
        clock.advance(1)
    assert sweep(store).jobs_purged == 1
    assert [job.id for job in store.run(store.find(Filter())).jobs] == ["job 3", "job 2", "job 1"]


def test_the_books_are_right_whatever_becomes_of_jobs(store: RedisStore, worker: Worker, clock: ManualClock) -> None:
    """What was added up for jobs as they ended is taken off as they go, by whatever way."""
    store.run(store.set_settings({"results-history": 1_000}))
    for size in (10, 5_000):
        for how in (State.DONE, State.FAILED, State.CANCELLED):
            end(store, worker, clock, how, 4, b"B" * size)
        put(store, f"unique {size}", unique_key="k", tags=("t",))
        worker.run_one(result=b"R" * size, data=b"D" * size)
        put(store, f"again {size}")
        for _ in range(3):
            worker.run_one(Kind.AGAIN, error=b"E" * size, note="a few words")
        worker.run_one(Kind.FAILED, error=b"E" * size)
    full = meta(store, "ended_bytes")
    assert full is not None
    failed = [job.id for job in store.run(store.find(Filter(states=(State.FAILED,)))).jobs]
    store.run(store.revive(failed[:4]))
    store.run(store.cancel(failed[2:8]))
    clock.advance(2_000)
    sweep(store)  # drops results
    assert 0 < (meta(store, "ended_bytes") or 0) < full
    for job in worker.take(10):
        worker.settle(job)
    ids = [job.id for job in store.run(store.find(Filter(limit=100))).jobs]
    store.run(store.delete(ids[::2]))
    clock.advance(31 * 86_400_000)
    while store.run(store.sweep()).jobs_purged:
        assert by_state(store) == {} or (meta(store, "ended_bytes") or 0) > 0
    assert by_state(store) == {}
    assert meta(store, "ended_bytes") is None


def test_the_estimate_is_near_what_the_server_says(private: Callable[..., Server]) -> None:
    """On a server of its own: elsewhere the tables of other tests' keys grow meanwhile."""
    with closing(RedisStore(f"{private().url}?ns=x")) as store:

        def used() -> int:
            info = store.driver.command("INFO", "memory")
            return int(dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)["used_memory"])

        worker = Worker(store, SystemClock())
        put(store, "warm up")
        worker.run_one()
        before, number = used(), 5_000
        store.run(store.put([new(f"{i:032}", body=b"B" * 100) for i in range(number)]))
        for _ in range(number // 500):
            worker.exchange([outcome(lease, began=0, ended=0) for lease in worker.take(500)])
        taken = used() - before
        assert 0.7 < (meta(store, "ended_bytes") or 0) / taken < 1.3


def test_without_a_setting_the_budget_is_a_quarter_of_what_the_server_has(
    private: Callable[..., Server],
) -> None:
    server = private()
    store = RedisStore(f"{server.url}?ns=budget")
    store.run(store.sweep())
    assert meta(store, "history_memory") == 1_000_000_000
    server.command("CONFIG", "SET", "maxmemory", "100000000")
    store.run(store.sweep())
    assert meta(store, "history_memory") == 25_000_000
    store.run(store.set_settings({"history-memory": 2_000_000}))
    store.run(store.sweep())
    assert meta(store, "history_memory") == 2_000_000
    store.close()


def test_ended_jobs_of_before_there_were_books_are_estimated(
    store: RedisStore, worker: Worker, clock: ManualClock
) -> None:
    end(store, worker, clock, State.FAILED, 3)
    store.driver.command("HDEL", store.keys.meta, "ended_bytes")
    store.run(store.sweep())
    assert 1_000 < (meta(store, "ended_bytes") or 0) < 3_000
