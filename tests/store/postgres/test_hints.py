"""A notification says "look now" and nothing else, whichever role sent it: a put hands nothing over.

NOTIFY needs no right, so a role that may only connect sends whatever it likes to a worker's channel.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headrace import Headrace
from headrace.records import ExchangeReply, NewJob, Take
from headrace.store.contract import Operation
from headrace.store.postgres.wire import Wire

from . import servers
from .scenes import Aside, Session, connect, jobs, outcome, wait_until

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

READY = 1
GUEST = servers.own("guest")


@pytest.fixture
def stranger(store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    with closing(connect(store)) as connection:
        yield connection


@pytest.fixture
def guest(store: PostgresStore, stranger: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """A role that may connect, and nothing else."""
    stranger.execute(f"CREATE ROLE {GUEST} LOGIN")
    url = store.url.partition("&schema=")[0].replace("postgres@", f"{GUEST}@")
    try:
        with closing(psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)) as connection:
            yield connection
    finally:
        stranger.execute(f"DROP ROLE {GUEST}")


class Worker:
    """A worker with nothing in hand, in a process of its own as far as the store can tell."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.session = Session(store)
        self.waiter: Any = store.waiter(self.session.id, ["default"])
        self._watches = threading.Event()
        self._watch_on, store._wakeups.watch = store._wakeups.watch, self._watch  # type: ignore[method-assign]
        self._numbers = itertools.count(1)
        self.request: Operation[ExchangeReply] = self.next()

    def next(self) -> Operation[ExchangeReply]:
        return self.store.exchange(self.session.id, next(self._numbers), [], Take(self.session.queues, 5))

    def sleep(self) -> Aside:
        """Sleep until it is woken, and ask for work then, as the pump does."""
        self.request = self.next()
        self._watches.clear()

        def wait_and_take() -> ExchangeReply:
            assert self.waiter.wait_and_run(self.request, lambda: 20.0) is None
            return self.store.run(self.request)

        aside = Aside(wait_and_take)
        assert self._watches.wait(20), "it has armed, looked, and sleeps now"
        return aside

    def _watch(self, own: int, seconds: float) -> None:
        self._watches.set()
        self._watch_on(own, seconds)


@pytest.fixture
def worker(make: Callable[..., PostgresStore], store: PostgresStore) -> Iterator[Worker]:
    worker = Worker(make(store.url))
    with closing(worker.waiter):
        yield worker


def state_of(stranger: psycopg.Connection[Any], job: NewJob) -> tuple[int, int | None]:
    """The state, and the session that has it."""
    ((state, session),) = stranger.execute("SELECT state, session FROM job WHERE id = $1", (job.id,)).fetchall()
    return int(state), session


def ids(reply: ExchangeReply) -> list[str]:
    return [lease.id for lease in reply.leases]


@pytest.fixture
def called(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that the worker calls from now on."""
    called: list[str] = []
    function = worker.store.database.function
    monkeypatch.setattr(
        worker.store.database, "function", lambda name, values: called.append(name) or function(name, values)
    )
    return called


# -- what a put does ---------------------------------------------------------------------------------------


def test_a_put_leaves_its_job_ready_and_wakes_a_worker_that_asks(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any]
) -> None:
    waiting = Aside(lambda: worker.waiter.wait(20.0))
    wait_until(lambda: bool(stranger.execute("SELECT 1 FROM waiter WHERE armed").fetchall()))
    (job,) = jobs(body=b'{"a": 1}', options=b'{"retries":1}', priority=3)
    store.run(store.put([job]))
    assert waiting.answer()
    assert state_of(stranger, job) == (READY, None), "nobody has it until it asks"
    (lease,) = store.run(worker.request).leases
    assert (lease.id, lease.body, lease.options, lease.priority) == (job.id, b'{"a": 1}', b'{"retries":1}', 3)


def test_a_woken_worker_has_its_job_after_one_round_trip(
    store: PostgresStore, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a statement that is prepared already: the connection is the one that it used last."""
    for _ in range(2):
        sleeping = worker.sleep()
        store.run(store.put(jobs()))
        (lease,) = sleeping.answer().leases
        settled = store.exchange(worker.session.id, next(worker._numbers), [outcome(lease)], None)
        worker.store.run(settled)
    sleeping = worker.sleep()
    trips: list[list[str]] = []
    ran, here = Wire.run, sleeping._thread

    def run(wire: Wire, statements: Any, **options: Any) -> Any:
        if threading.current_thread() is here:
            assert wire._names is not None
            known = {text for text, _ in wire._names}
            assert {text for text, _ in statements} <= known
            trips.append([text for text, _ in statements])
        return ran(wire, statements, **options)

    monkeypatch.setattr(Wire, "run", run)
    (job,) = jobs()
    store.run(store.put([job]))
    assert ids(sleeping.answer()) == [job.id]
    assert [["exchange_plain" in text for text in texts] for texts in trips] == [[True]]


def test_each_put_wakes_another_sleeper(make: Callable[..., PostgresStore], store: PostgresStore) -> None:
    with ExitStack() as stack:
        workers = [Worker(make(store.url)) for _ in range(3)]
        for worker in workers:
            stack.enter_context(closing(worker.waiter))
        sleeping = [worker.sleep() for worker in workers]
        put = [job for _ in workers for job in jobs()]
        for job in put:
            store.run(store.put([job]))
        assert sorted(name for aside in sleeping for name in ids(aside.answer())) == sorted(job.id for job in put)


def test_a_job_whose_worker_was_woken_and_is_frozen_goes_to_another_with_the_next_sweep(
    make: Callable[..., PostgresStore], store: PostgresStore
) -> None:
    with ExitStack() as stack:
        one, two = (Worker(make(store.url)) for _ in range(2))
        for worker in (one, two):
            stack.enter_context(closing(worker.waiter))
        one.waiter.arm()  # and from now on it does nothing
        (job,) = jobs()
        store.run(store.put([job]))
        sleeping = Aside(lambda: two.waiter.wait(20.0) and store.run(two.request))
        store.run(store.sweep())
        assert ids(sleeping.answer()) == [job.id]


def test_a_busy_worker_hears_what_is_said_and_arms_nothing(
    store: PostgresStore, worker: Worker, called: list[str]
) -> None:
    worker.waiter.arm()
    assert called == ["arm"]
    assert not worker.waiter.wait(0)
    store.run(store.put(jobs()))
    wait_until(lambda: worker.waiter.wait(0))
    assert called == ["arm"]


def test_a_worker_in_company_is_woken_by_a_thread(store: PostgresStore, worker: Worker) -> None:
    assert worker.store._wakeups.thread is None
    sleeping = worker.sleep()
    with closing(worker.store.job_waiter("another")):
        assert worker.store._wakeups.thread is not None
        (job,) = jobs()
        store.run(store.put([job]))
        assert ids(sleeping.answer()) == [job.id]


# -- what others send --------------------------------------------------------------------------------------


def forged(job: NewJob) -> list[str]:
    lease = [2, 0, 3, "7b7d", None, 0, 0, 1, 1, job.id, "task", "default"]
    return [
        "", " ", "look", "0", "-1", "9" * 5_000, "١٢", "1e3", "\u2028", "x" * 7_999, "{", "null", "1 [",
        *(f"{number} {json.dumps(lease[:size])}" for number in ("1", "{id}") for size in (0, 5, len(lease))),
    ]  # fmt: skip


@pytest.mark.parametrize("in_company", [False, True], ids=["alone", "with a thread that listens"])
def test_whatever_is_sent_to_a_worker_makes_it_look_and_nothing_else(
    worker: Worker, guest: psycopg.Connection[Any], stranger: psycopg.Connection[Any], in_company: bool
) -> None:
    (job,) = jobs(queue="of another worker")
    worker.store.run(worker.store.put([job]))
    with closing(worker.store.job_waiter("another")) if in_company else ExitStack():
        for payload in forged(job):
            sleeping = worker.sleep()
            text = payload.replace("{id}", str(worker.waiter.id))
            guest.execute("SELECT pg_notify($1, $2)", (worker.store._wakeups.channel, text))
            assert ids(sleeping.answer()) == [], text
        guest.execute("SELECT pg_notify($1, $2)", (f"headrace {worker.store.schema}"[:63], "\x01" * 7_999))
        (real,) = jobs()
        sleeping = worker.sleep()
        worker.store.run(worker.store.put([real]))
        assert ids(sleeping.answer()) == [real.id]
    assert state_of(stranger, job) == (READY, None)


def test_a_number_wakes_its_waiter_and_anything_else_wakes_all_of_the_process(
    store: PostgresStore, guest: psycopg.Connection[Any]
) -> None:
    with closing(store.job_waiter("one")) as one, closing(store.job_waiter("two")) as two:
        waiters: Any = {"one": one, "two": two}

        def hear(payload: str, woken: set[str]) -> None:
            guest.execute("SELECT pg_notify($1, $2)", (store._wakeups.channel, payload))
            wait_until(lambda: all(waiters[name]._news for name in woken))
            assert {name for name, waiter in waiters.items() if waiter.wait(0)} == woken

        hear(str(waiters["one"].id), {"one"})
        hear("look", {"one", "two"})
        hear(str(waiters["two"].id), {"two"})


def test_a_flood_of_notifications_makes_a_worker_look_20_times_a_second_and_work_is_found_at_once(
    store: PostgresStore, worker: Worker, guest: psycopg.Connection[Any], called: list[str]
) -> None:
    looks, over = 0, time.monotonic() + 2
    found: list[str] = []

    def pump() -> None:
        nonlocal looks
        while len(found) < 1:
            request = worker.next()
            worker.waiter.wait_and_run(request, lambda: 20.0)
            found.extend(ids(worker.store.run(request)))
            looks += 1

    pumping, sent = Aside(pump), 0
    while time.monotonic() < over:
        guest.execute("SELECT pg_notify($1, $2)", (worker.store._wakeups.channel, f"flood {sent}"))
        sent += 1
    assert sent > 200
    assert 3 <= looks < 70, f"{looks} looks at {sent} notifications"
    store.run(store.put(jobs()))
    pumping.answer()
    assert worker.waiter.in_vain == 0


def test_a_flood_at_clients_does_not_keep_results_from_them(
    store: PostgresStore, guest: psycopg.Connection[Any]
) -> None:
    app = Headrace(store.url)
    task = app.task(name="late")(lambda: 7)
    with closing(app):
        job = task.enqueue()
        waiting = Aside(lambda: job.result(timeout=20))
        wait_until(lambda: bool(app.store._wakeups.channel))  # type: ignore[attr-defined]
        for number in range(300):
            guest.execute("SELECT pg_notify($1, $2)", (app.store._wakeups.channel, f"flood {number}"))  # type: ignore[attr-defined]
        with app.worker():
            assert waiting.answer() == 7
