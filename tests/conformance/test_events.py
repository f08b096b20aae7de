"""Events: told to those who listen, in order, and never at the expense of those who work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import pytest

from headrace.records import Charge, Kind, NewJob
from headrace.store.contract import Facet, Store
from headrace.store.facets import DETAIL, EVENT_KINDS, Batch, EventRecord, Events, facet
from headrace.values.clock import ManualClock, SystemClock
from processes import environment

from .helpers import Worker, new, outcome, put, saying
from .stores import Entry

pytestmark = pytest.mark.needs(Facet.EVENTS)


class Listener:
    """Somebody who listens from now on."""

    def __init__(self, store: Store) -> None:
        self.store, self.events = store, facet(store, Events)
        self.cursor = store.run(self.events.listen())

    def read(self, limit: int = 1_000) -> Batch:
        batch = self.store.run(self.events.events(self.cursor, limit))
        self.cursor = batch.cursor
        return batch

    def heard(self) -> list[EventRecord]:
        return self.read().events

    def whats(self) -> list[tuple[str, str]]:
        """What, and to which job."""
        return [(event.what, event.job) for event in self.heard()]


@pytest.fixture
def listener(store: Store) -> Listener:
    return Listener(store)


def test_a_jobs_life_is_told_as_it_happens(
    store: Store, clock: ManualClock, worker: Worker, listener: Listener
) -> None:
    put(store, "a", queue="default", task="task")
    clock.advance(5)
    lease = worker.take_one()
    clock.advance(5)
    worker.report(saying(lease, progress=(1, 4), log=[(clock.steady(), "a line")]), saying(lease, data=b"silent"))
    worker.report(saying(lease, progress=(2.5, 4)))
    clock.advance(5)
    worker.settle(lease, began=clock.steady() - 7, result=b"R")
    now = clock.now()
    about = {"job": "a", "task": "task", "queue": "default"}
    batch = listener.read()
    assert batch.events == [
        EventRecord(now - 15, "created", **about),
        EventRecord(now - 10, "started", worker="w", **about),
        EventRecord(now - 5, "progress", worker="w", detail="1/4", **about),
        EventRecord(now - 5, "log", worker="w", detail="a line", **about),
        EventRecord(now - 5, "progress", worker="w", detail="2.5/4", **about),
        EventRecord(now, "done", worker="w", **about),
    ]
    assert not batch.missed
    assert listener.read() == Batch([], batch.cursor)


@pytest.mark.parametrize(
    ("kind", "fields", "what", "detail"),
    [
        (Kind.AGAIN, {"delay": 5, "charge": Charge.ATTEMPT, "note": "in vain"}, "retried", "in vain"),
        (Kind.AGAIN, {"delay": 5, "charge": Charge.DEFERRAL, "began": 0}, "deferred", ""),
        (Kind.FAILED, {"group": "ValueError", "error": b"E", "note": "n"}, "failed", "ValueError"),
        (Kind.BROKEN, {"error": b"E"}, "failed", "broken"),
        (Kind.RELEASED, {}, "released", ""),
        (Kind.CRASHED, {"note": "died"}, "crashed", "died"),
        (Kind.DONE, {"result": b"R" * 5_000}, "done", ""),
        (Kind.DONE, {"data": b"D"}, "done", ""),
    ],
)
def test_every_outcome_is_told(
    store: Store, worker: Worker, listener: Listener, kind: Kind, fields: dict[str, Any], what: str, detail: str
) -> None:
    put(store, "a")
    worker.run_one(kind, **fields)
    last = listener.heard()[-1]
    assert (last.what, last.detail, last.job, last.worker) == (what, detail, "a", "w")


def test_a_move_is_told_with_where_to(store: Store, worker: Worker, listener: Listener) -> None:
    put(store, "a")
    worker.run_one(Kind.MOVED, queue="elsewhere", task="next")
    moved = listener.heard()[-1]
    assert (moved.what, moved.queue, moved.task) == ("moved", "elsewhere", "next")


def test_the_last_crash_is_a_failure(store: Store, worker: Worker, listener: Listener) -> None:
    put(store, "a", max_crashes=1)
    worker.run_one(Kind.CRASHED)
    assert [(event.what, event.detail) for event in listener.heard()[2:]] == [("failed", "crashed")]


def test_what_others_do_to_jobs_is_told(store: Store, worker: Worker, listener: Listener) -> None:
    put(store, "a", "b")
    worker.take_one()
    listener.heard()
    assert store.run(store.cancel(["a", "b", "nobody"])) == [True, True, False]
    store.run(store.cancel(["a", "b"]))  # a second time is nothing new
    assert listener.whats() == [("cancelling", "a"), ("cancelled", "b")]
    store.run(store.revive(["b", "a"]))
    assert listener.whats() == [("revived", "b")]
    store.run(store.delete(["a", "b", "nobody"]))
    assert listener.whats() == [("deleted", "a"), ("deleted", "b")]


def test_a_cancelled_run_that_ends_is_cancelled(store: Store, worker: Worker, listener: Listener) -> None:
    put(store, "a")
    lease = worker.take_one()
    store.run(store.cancel(["a"]))
    worker.settle(lease, Kind.FAILED, group="g")
    assert [event.what for event in listener.heard()] == ["created", "started", "cancelling", "cancelled"]


def test_who_makes_way_is_told_before_who_comes(store: Store, listener: Listener) -> None:
    put(store, "a", unique_key="k")
    put(store, "b", unique_key="k", replace=True)
    put(store, "c", unique_key="k")  # finds b there
    told = [(event.what, event.job, event.detail) for event in listener.heard()]
    assert told == [("created", "a", ""), ("deleted", "a", "replaced"), ("created", "b", "")]


def test_a_put_that_is_repeated_creates_nothing(store: Store, listener: Listener) -> None:
    put(store, "a")
    put(store, "a", "b")
    put(store, "a")
    store.run(store.put([new("a"), new("c", delay=5)]))
    assert listener.whats() == [("created", "a"), ("created", "b"), ("created", "c")]


def test_a_request_that_is_repeated_is_told_once(store: Store, worker: Worker, listener: Listener) -> None:
    put(store, "a", "b")
    for _ in range(2):
        lease = worker.exchange(take=worker.asks(1), number=1).leases[0]
    for _ in range(2):
        worker.exchange([outcome(lease)], worker.asks(1), number=2)
    for _ in range(2):
        worker.report(saying(lease, progress=(1, 2)), number=3)
    expected = [("created", "a"), ("created", "b"), ("started", "a"), ("done", "a"), ("started", "b")]
    assert listener.whats() == expected


def test_a_stale_settle_is_not_told(store: Store, worker: Worker, listener: Listener) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.settle(lease, Kind.RELEASED)
    listener.heard()
    worker.settle(lease)
    worker.report(saying(lease, progress=(1, 2)))
    assert listener.heard() == []


def test_an_exchange_is_told_in_the_order_of_its_outcomes_and_leases(
    store: Store, worker: Worker, listener: Listener
) -> None:
    put(store, "low", priority=-1)
    put(store, *"abc")
    put(store, "high", priority=9)
    leases = worker.take(2, 1)
    worker.exchange([outcome(lease) for lease in reversed(leases)], worker.asks(5))
    told = [job for what, job in listener.whats() if what in ("started", "done")]
    assert told == ["high", "a", "b", "b", "a", "high", "c", "low"]


def test_the_jobs_of_a_session_that_died_are_lost(
    store: Store, clock: ManualClock, worker: Worker, listener: Listener
) -> None:
    put(store, "a", "b")
    worker.take(1, 1)
    listener.heard()
    clock.advance(20_000)
    store.run(store.sweep())
    told = sorted((event.job, event.what, event.detail, event.worker) for event in listener.heard())
    assert told == [
        ("a", "crashed", "its worker died", "w"),
        ("a", "lost", "", "w"),
        ("b", "lost", "", "w"),
        ("b", "released", "", "w"),
    ]


def test_the_jobs_of_a_session_that_is_closed_in_good_order_are_given_back(
    store: Store, worker: Worker, listener: Listener
) -> None:
    put(store, "a", "b")
    guilty, _ = worker.take(2)
    listener.heard()
    worker.close([guilty.ref])
    assert sorted(listener.whats()) == [("crashed", "a"), ("released", "b")]


def test_what_happened_before_is_not_told(store: Store, worker: Worker) -> None:
    put(store, "a")
    listener = Listener(store)
    assert listener.heard() == []
    worker.run_one()
    assert listener.whats() == [("started", "a"), ("done", "a")]


def test_listeners_do_not_take_from_each_other(store: Store, listener: Listener) -> None:
    put(store, "a")
    other = Listener(store)
    put(store, "b")
    assert listener.whats() == [("created", "a"), ("created", "b")]
    assert other.whats() == [("created", "b")]


def test_events_come_in_portions(store: Store, listener: Listener) -> None:
    put(store, *"abcde")
    heard: list[str] = []
    for size in (2, 2, 1, 0):
        batch = listener.read(limit=2)
        assert len(batch.events) == size
        assert not batch.missed
        heard += [event.job for event in batch.events]
    assert heard == list("abcde")


def test_a_long_detail_is_cut_short(store: Store, clock: ManualClock, worker: Worker, listener: Listener) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.report(saying(lease, log=[(clock.steady(), "é" + "語" * 5_000)]))
    detail = listener.heard()[-1].detail
    assert detail == "é" + "語" * ((DETAIL - 2) // 3)


def test_names_of_all_kinds_are_told_as_they_are(store: Store, worker: Worker, listener: Listener) -> None:
    put(store, "ü 1", task="モジュール.task", queue="a:b")
    (event,) = listener.heard()
    assert (event.job, event.task, event.queue) == ("ü 1", "モジュール.task", "a:b")


def test_a_slow_reader_misses_the_oldest_and_is_told(store: Store, listener: Listener) -> None:
    quick = Listener(store)
    put(store, "first")
    assert quick.whats() == [("created", "first")]
    for batch in range(13):
        store.run(store.put([NewJob(id=f"{batch} {i}", task="t", body=b"") for i in range(1_000)]))
        assert not quick.read().missed
    batch = listener.read(limit=20_000)
    assert batch.missed
    assert 10_000 <= len(batch.events) < 13_000
    assert batch.events[-1].job == "12 999"
    put(store, "last")
    assert listener.read() == Batch([EventRecord(batch.events[-1].at, "created", "last", "task", "default")],
                                    listener.cursor)  # fmt: skip


def test_only_known_words_are_used(store: Store, worker: Worker, listener: Listener) -> None:
    for i, kind in enumerate((Kind.DONE, Kind.AGAIN, Kind.FAILED, Kind.BROKEN, Kind.RELEASED, Kind.CRASHED)):
        put(store, str(i))
        worker.run_one(kind, delay=10**6)
        store.run(store.cancel([str(i)]))
    assert {event.what for event in listener.heard()} <= set(EVENT_KINDS)


# -- nobody listens --


def test_nothing_is_kept_for_nobody(store: Store, worker: Worker, leftovers: Callable[[Store], dict[str, int]]) -> None:
    put(store, "a")
    put(store, "b", delay=1)
    worker.run_one()
    store.run(store.delete(["a", "b"]))
    assert leftovers(store) == {}


def test_a_reader_that_was_away_too_long_is_told_so(entry: Entry, store: Store, clock: ManualClock) -> None:
    if entry.name == "redis":
        pytest.skip("the server's own clock decides: tests/store/redis/test_events.py")
    listener = Listener(store)
    clock.advance(59_999)
    put(store, "a")
    assert listener.read().events
    clock.advance(60_000)
    put(store, "b")
    put(store, "c", "d")
    batch = listener.read()
    assert (batch.events, batch.missed) == ([], True)
    put(store, "e")
    assert listener.whats() == [("created", "e")]


def test_what_nobody_listens_to_any_more_is_swept(
    entry: Entry, store: Store, clock: ManualClock, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    if entry.name == "redis":
        pytest.skip("the server's own clock decides: tests/store/redis/test_events.py")
    listener = Listener(store)
    put(store, "a")
    store.run(store.delete(["a"]))
    store.run(store.sweep())
    assert listener.whats() == [("created", "a"), ("deleted", "a")]
    clock.advance(60_000)
    store.run(store.sweep())
    assert leftovers(store) == {}
    assert listener.read().missed


# -- ears --


@pytest.fixture
def live(make_store: Callable[..., Store]) -> Store:
    """A store on the real clock: whoever waits, waits."""
    return make_store(SystemClock())


def test_an_ear_hears_of_events_and_of_nothing_else(live: Store) -> None:
    listener = Listener(live)
    with closing(listener.events.event_waiter()) as ear:
        ear.arm()
        assert listener.heard() == []
        assert not ear.wait(0.02)
        put(live, "a")
        assert ear.wait(5)
        assert listener.whats() == [("created", "a")]
        ear.arm()
        put(live, "b")  # between arming and looking
        assert listener.whats() == [("created", "b")]
        ear.wait(0.02)
        quiet = []
        for _ in range(2):  # a false alarm is allowed after a wait that ended by itself
            ear.arm()
            assert listener.heard() == []
            quiet.append(not ear.wait(0.02))
        assert quiet[-1]


def test_progress_alone_wakes_an_ear(live: Store) -> None:
    worker = Worker(live, SystemClock())
    put(live, "a")
    lease = worker.take_one()
    listener = Listener(live)
    with closing(listener.events.event_waiter()) as ear:
        ear.arm()
        worker.report(saying(lease, progress=(1, 2)))
        assert ear.wait(5)
        assert listener.whats() == [("progress", "a")]


def test_an_ear_can_be_poked(live: Store) -> None:
    Listener(live)
    with closing(facet(live, Events).event_waiter()) as ear:
        ear.arm()
        timer = threading.Timer(0.02, ear.poke)
        timer.start()
        began = time.monotonic()
        assert not ear.wait(10)
        assert time.monotonic() - began < 5
        timer.join()


def test_an_ear_on_an_event_loop(live: Store) -> None:
    async def listen() -> list[tuple[str, str]]:
        events = facet(live, Events)
        cursor = await live.arun(events.listen())
        with closing(events.event_waiter()) as ear:
            ear.arm()
            assert not await ear.wait_async(0.02)
            await live.arun(live.put([new("a")]))
            assert await ear.wait_async(5)
        batch = await live.arun(events.events(cursor))
        return [(event.what, event.job) for event in batch.events]

    assert asyncio.run(listen()) == [("created", "a")]


PRODUCER = """
import sys
from headrace.records import NewJob
from headrace.store import open_store
store = open_store(sys.argv[1])
for line in sys.stdin:
    store.run(store.put([NewJob(id=line.strip(), task="t", body=b"")]))
"""


def test_a_reader_is_woken_by_another_process(entry: Entry, live: Store) -> None:
    if not entry.shared:
        pytest.skip("this store is of one process")
    listener = Listener(live)
    delays = []
    with (
        subprocess.Popen(
            [sys.executable, "-c", PRODUCER, live.url], stdin=subprocess.PIPE, text=True, env=environment()
        ) as process,
        closing(listener.events.event_waiter()) as ear,
    ):
        producer = cast("Any", process.stdin)
        for i in range(20):
            ear.arm()
            assert listener.heard() == []
            producer.write(f"job {i}\n")
            producer.flush()
            began = time.monotonic()
            while not (heard := listener.whats()):  # a poke may end a wait, and news may be older than the last look
                assert time.monotonic() - began < 20, "no news in 20 s"
                ear.wait(20)
                ear.arm()
            delays.append(time.monotonic() - began)
            assert heard == [("created", f"job {i}")]
        producer.close()
    assert sorted(delays)[10] < 3, "waiters look by themselves after 5 s or more: most were woken before"


def test_a_setting_that_changes_is_an_event_of_no_job(store: Any, clock: ManualClock) -> None:
    cursor = store.run(store.listen())
    store.run(store.set_settings({"jobs-history": 5_000, "max-job-history": None}))
    told = store.run(store.events(cursor)).events
    assert told == [
        EventRecord(clock.now(), "set", "", detail=detail)
        for detail in ("jobs-history 5000", "max-job-history default")
    ]


def test_the_limit_of_a_queue_that_changes_is_an_event_of_no_job(store: Any, clock: ManualClock) -> None:
    cursor = store.run(store.listen())
    store.run(store.limit("mail", 4))
    store.run(store.pause("mail", "me"))
    store.run(store.limit("mail", None))
    told = store.run(store.events(cursor)).events
    assert told == [
        EventRecord(clock.now(), "set", "", detail=detail)
        for detail in ("max-concurrency:mail 4", "max-concurrency:mail default")
    ]
