"""A put hands its job to a worker that sleeps, as the answer to the request that the worker would send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from headrace.records import ExchangeReply, NewJob, Take
from headrace.store.contract import Operation

from .scenes import Aside, Session, connect, jobs, outcome, wait_until

if TYPE_CHECKING:
    import psycopg

    from headrace.store.postgres.store import PostgresStore

READY, RUNNING = 1, 2
LONG_OPTIONS = b'{"headers": {"text": "%s"}}' % (b"x" * 4_000)


@pytest.fixture
def stranger(store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    with closing(connect(store)) as connection:
        yield connection


class Worker:
    """A worker with nothing in hand, in a process of its own as far as the store can tell."""

    def __init__(self, store: PostgresStore, stranger: psycopg.Connection[Any], queue: str = "default") -> None:
        self.store = store
        self.session = Session(store, queues=(queue,))
        self.waiter: Any = store.waiter(self.session.id, [queue])
        self._stranger = stranger
        self._number = 0
        self.request: Operation[ExchangeReply] = self._next()

    def _next(self) -> Operation[ExchangeReply]:
        self._number += 1
        return self.store.exchange(self.session.id, self._number, [], Take(self.session.queues, 5))

    def sleep(self) -> Aside:
        """Ask for work, and sleep until a put has answered, or until it is poked."""
        self.request = self._next()
        aside = Aside(lambda: self.waiter.wait_and_run(self.request, lambda: 20.0))
        query = "SELECT 1 FROM waiter WHERE armed AND about = $1 AND asks = $2"
        wait_until(lambda: bool(self._stranger.execute(query, (self.session.id, self._number)).fetchall()))
        return aside

    def ask(self) -> ExchangeReply:
        """Send the request itself, as a worker does that was not answered."""
        return self.store.run(self.request)


@pytest.fixture
def worker(
    make: Callable[..., PostgresStore], store: PostgresStore, stranger: psycopg.Connection[Any]
) -> Iterator[Worker]:
    worker = Worker(make(store.url), stranger)
    with closing(worker.waiter):
        yield worker


def state_of(stranger: psycopg.Connection[Any], job: NewJob) -> int:
    ((state,),) = stranger.execute("SELECT state FROM job WHERE id = $1", (job.id,)).fetchall()
    return int(state)


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


def test_the_wake_up_brings_the_job_along(store: PostgresStore, worker: Worker, called: list[str]) -> None:
    sleeping = worker.sleep()
    called.clear()
    (job,) = jobs(body=b'{"a": 1}', options=b'{"retries":1}', priority=3, max_crashes=7)
    store.run(store.put([job]))
    (lease,) = sleeping.answer().leases
    assert called == [], "the worker has asked for nothing"
    assert (lease.id, lease.task, lease.queue, lease.priority) == (job.id, "task", "default", 3)
    assert (lease.body, lease.options, lease.max_crashes) == (b'{"a": 1}', b'{"retries":1}', 7)
    assert (lease.attempts, lease.crashes, lease.data, lease.spare) == (0, 0, None, False)


def test_the_lease_is_like_one_that_was_taken(store: PostgresStore, worker: Worker) -> None:
    sleeping = worker.sleep()
    (first,) = jobs()
    store.run(store.put([first]))
    (handed,) = sleeping.answer().leases
    ((known,),) = [worker.ask().leases]  # the same number once more
    assert handed == known
    settled = store.exchange(worker.session.id, 10, [outcome(handed)], None)
    assert ids(store.run(settled)) == []
    (job,) = store.run(store.get([first.id]))
    assert job is not None
    assert job.state == "done"


@pytest.mark.parametrize("lost", [False, True], ids=["its options are long", "its wake-up is lost"])
def test_a_job_that_did_not_come_along_is_the_answer_to_the_request(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any], lost: bool
) -> None:
    sleeping = worker.sleep()
    if lost:
        stranger.execute("UPDATE waiter SET channel = 'nobody'")
        stranger.execute("SELECT pg_advisory_lock(hashtextextended('nobody', 0))")
    (job,) = jobs(options=None if lost else LONG_OPTIONS)
    store.run(store.put([job]))
    assert state_of(stranger, job) == RUNNING
    worker.waiter.poke()
    assert sleeping.answer() is None
    assert ids(worker.ask()) == [job.id]


def test_a_name_that_is_longer_than_a_wake_up(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any]
) -> None:
    """The app refuses such names, but a put must not fail of what it tells others."""
    sleeping = worker.sleep()
    (job,) = jobs(task="\x01" * 1_500)
    store.run(store.put([job]))
    assert state_of(stranger, job) == RUNNING
    assert sleeping.answer() is None
    assert ids(worker.ask()) == [job.id]


def test_a_late_wake_up_hands_nothing_out_twice(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any]
) -> None:
    """The worker was poked, and has asked, before it hears of what the put had answered."""
    sleeping = worker.sleep()
    worker.waiter.poke()
    assert sleeping.answer() is None
    (job,) = jobs()
    store.run(store.put([job]))
    assert state_of(stranger, job) == RUNNING
    assert ids(worker.ask()) == [job.id]
    assert worker.waiter.wait_and_run(worker._next(), lambda: 20.0) is None, "news of what it has"


def test_a_request_that_was_answered_is_not_answered_again(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any]
) -> None:
    """Nothing was there: that is recorded, or a put might hand a job to a request that the worker has forgotten."""
    sleeping = worker.sleep()
    worker.waiter.poke()
    assert sleeping.answer() is None
    assert ids(worker.ask()) == []
    (job,) = jobs()
    store.run(store.put([job]))
    assert state_of(stranger, job) == READY
    assert ids(store.run(worker._next())) == [job.id]


@pytest.mark.parametrize(
    "hinder",
    [
        lambda worker, _: worker.store.run(worker.store.pause("default")),
        lambda worker, _: worker.store.run(worker.store.block("task")),
        lambda worker, _: worker.store.run(worker.store.close_session(worker.session.id)),
        # Its connection has gone, and with it the lock on the name of its channel. Its row stays until the next sweep.
        lambda _, stranger: stranger.execute("UPDATE waiter SET channel = 'of the dead'"),
    ],
    ids=["a paused queue", "a blocked task", "a session that is closed", "a process that died"],
)
def test_what_can_not_be_taken_is_not_handed_over(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any], hinder: Callable[[Worker, Any], object]
) -> None:
    sleeping = worker.sleep()
    hinder(worker, stranger)
    stranger.execute("UPDATE waiter SET armed = TRUE")
    (job,) = jobs()
    store.run(store.put([job]))
    assert state_of(stranger, job) == READY
    worker.waiter.poke()
    assert sleeping.answer() is None


def test_only_what_is_due_and_served_is_handed_over(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any]
) -> None:
    sleeping = worker.sleep()
    elsewhere, later = jobs(queue="other")[0], jobs(delay=60_000)[0]
    store.run(store.put([elsewhere]))
    assert state_of(stranger, elsewhere) == READY
    store.run(store.put([later]))
    assert state_of(stranger, later) == 0
    assert sleeping.answer() is None, "a job that falls due later is news to all"


def test_each_put_finds_another_sleeper(
    make: Callable[..., PostgresStore], store: PostgresStore, stranger: psycopg.Connection[Any]
) -> None:
    with ExitStack() as stack:
        workers = [Worker(make(store.url), stranger) for _ in range(3)]
        for worker in workers:
            stack.enter_context(closing(worker.waiter))
        sleeping = [worker.sleep() for worker in workers]
        put = [job for _ in workers for job in jobs()]
        for job in put:
            store.run(store.put([job]))
        assert sorted(name for aside in sleeping for name in ids(aside.answer())) == sorted(job.id for job in put)
        (surplus,) = jobs()
        store.run(store.put([surplus]))
        assert state_of(stranger, surplus) == READY


def test_a_busy_worker_hears_what_is_said_and_arms_nothing(
    store: PostgresStore, worker: Worker, called: list[str]
) -> None:
    worker.waiter.arm()
    assert called == ["arm"]
    assert not worker.waiter.wait(0)
    store.run(store.put(jobs()))
    wait_until(lambda: worker.waiter.wait(0))
    assert called == ["arm"]


def test_a_worker_in_company_is_told_by_a_thread(
    store: PostgresStore, worker: Worker, stranger: psycopg.Connection[Any]
) -> None:
    assert worker.store._wakeups.thread is None
    sleeping = worker.sleep()
    with closing(worker.store.job_waiter("somebody's")):
        assert worker.store._wakeups.thread is not None
        (job,) = jobs()
        store.run(store.put([job]))
        assert ids(sleeping.answer()) == [job.id]
