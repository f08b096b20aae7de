"""A wake-up is not lost, wherever a put and a waiter that goes to sleep meet.

Transactions are parked by locks that the test holds; what the server says about who waits for whom tells that they are
where the test wants them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Headrace
from headrace.store.postgres.statements import PUTS
from headrace.store.postgres.wakeup import Sleeper

from .scenes import Aside, Session, connect, jobs, sleep_until_news, wait_until, waiting

if TYPE_CHECKING:
    import psycopg

    from headrace.store.postgres.store import PostgresStore

LONG = 20.0


@pytest.fixture
def stranger(store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    with closing(connect(store)) as connection:
        yield connection


def lock(store: PostgresStore, shared: bool = False) -> str:
    return store.database.lock(PUTS, shared=shared)


def test_a_put_that_commits_after_a_waiter_began_to_arm_is_seen_by_its_look(
    store: PostgresStore, stranger: psycopg.Connection[Any]
) -> None:
    """The put has looked for sleepers and found none: the waiter waits until it has committed, and then looks."""
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        store.run(store.put(jobs()))
        assert waiter.wait(LONG), "it was armed; now it is not"
        lease = session.take(2)
        stranger.execute("BEGIN")
        stranger.execute(lock(store, shared=True))  # as a put does before it looks
        stranger.execute(
            "INSERT INTO job (id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, "
            "flags, body) VALUES ('late', 'task', 'default', 1, 0, 0, 0, 0, 0, 0, 3, 0, '')"
        )
        assert stranger.execute("SELECT count(*) FROM waiter WHERE armed").fetchall() == [(0,)]
        sleeping = sleep_until_news(waiter)
        wait_until(lambda: waiting(stranger) == 1)
        assert not sleeping.done
        stranger.execute("COMMIT")
        assert sleeping.answer()
        assert [job.id for job in session.settle(*lease, slots=1)] == ["late"]


def test_a_put_that_comes_while_a_waiter_arms_waits_and_wakes_it(
    store: PostgresStore, stranger: psycopg.Connection[Any]
) -> None:
    """The waiter has the lock alone and is not committed: a put that looked now would not see it."""
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        stranger.execute("BEGIN")
        stranger.execute("UPDATE waiter SET armed = FALSE")
        stranger.execute("COMMIT")
        stranger.execute("BEGIN")
        stranger.execute(lock(store))
        stranger.execute("UPDATE waiter SET armed = TRUE")
        putting = Aside(lambda: store.run(store.put(jobs())))
        wait_until(lambda: waiting(stranger) == 1)
        stranger.execute("COMMIT")
        putting.answer()
        assert waiter.wait(LONG)


def test_a_put_after_a_waiter_has_armed_wakes_it_before_it_waits(store: PostgresStore) -> None:
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        assert session.take() == []
        store.run(store.put(jobs()))
        assert waiter.wait(LONG)


def test_puts_do_not_wait_for_each_other(store: PostgresStore, stranger: psycopg.Connection[Any]) -> None:
    stranger.execute("BEGIN")
    stranger.execute(lock(store, shared=True))
    store.run(store.put(jobs()))
    stranger.execute("ROLLBACK")


def test_a_put_that_is_rolled_back_wakes_nobody(store: PostgresStore, stranger: psycopg.Connection[Any]) -> None:
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        stranger.execute("BEGIN")
        stranger.execute("SELECT wake('{default}', '{1}', '{}', 0, 0)")
        stranger.execute("ROLLBACK")
        assert not waiter.wait(0.05)
        store.run(store.put(jobs()))
        assert waiter.wait(LONG), "it is still armed"


def test_as_many_sleepers_are_woken_as_there_are_jobs(store: PostgresStore, stranger: psycopg.Connection[Any]) -> None:
    sessions = [Session(store) for _ in range(4)]
    waiters = [store.waiter(session.id, ["default"]) for session in sessions]
    for waiter in waiters:
        waiter.arm()
    for expected in (3, 2):
        store.run(store.put(jobs()))
        assert stranger.execute("SELECT count(*) FROM waiter WHERE armed").fetchall() == [(expected,)]
    store.run(store.put(jobs(1, queue="other")))
    assert stranger.execute("SELECT count(*) FROM waiter WHERE armed").fetchall() == [(2,)]
    store.run(store.put(jobs(5)))
    assert stranger.execute("SELECT count(*) FROM waiter WHERE armed").fetchall() == [(0,)]
    for waiter in waiters:
        waiter.close()
    assert stranger.execute("SELECT count(*) FROM waiter").fetchall() == [(0,)]


def test_a_put_notifies_only_if_there_is_a_sleeper(store: PostgresStore, stranger: psycopg.Connection[Any]) -> None:
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        store.run(store.put(jobs()))
        assert waiter.wait(LONG)
        stranger.execute(f'LISTEN "{store._wakeups.channel}"')
        store.run(store.put(jobs(3)))
        stranger.execute("SELECT 1")
        assert stranger.pgconn.notifies() is None


def test_a_waiter_whose_connection_is_cut_listens_again(
    store: PostgresStore, stranger: psycopg.Connection[Any]
) -> None:
    session = Session(store)
    listener = store._wakeups
    with closing(store.waiter(session.id, ["default"])) as waiter:
        waiter.arm()
        before = listener.pid
        stranger.execute("SELECT pg_terminate_backend($1::bigint::integer)", (before,))
        waiter.wait(LONG)  # ended by the loss
        wait_until(lambda: listener.pid not in (0, before))
        sleeping = sleep_until_news(waiter)
        armed = "SELECT 1 FROM waiter WHERE armed AND pid = $1"
        wait_until(lambda: stranger.execute(armed, (listener.pid,)).fetchall() != [])
        store.run(store.put(jobs()))
        assert sleeping.answer()


def test_waiters_of_processes_that_died_are_forgotten_by_sweeps(
    store: PostgresStore, stranger: psycopg.Connection[Any]
) -> None:
    stranger.execute("SELECT arm(1, 'nobody', 0, 0, 0, '{default}', '{}', NULL, NULL, NULL)")
    store.run(store.sweep())
    assert stranger.execute("SELECT count(*) FROM waiter").fetchall() == [(0,)]


def test_a_process_has_one_connection_that_listens(
    store: PostgresStore, stranger: psycopg.Connection[Any], make: Callable[..., PostgresStore]
) -> None:
    other = make(store.url)
    session = Session(other)
    waiters = [
        other.waiter(session.id, ["default"]),
        other.job_waiter("a"),
        other.job_waiter("b"),
        other.event_waiter(),
    ]
    listening = "query LIKE 'LISTEN \"headrace%' AND datname = current_database()"
    query = f"SELECT count(*) FROM pg_stat_activity WHERE {listening}"
    assert stranger.execute(query).fetchall() == [(1,)]
    for waiter in waiters:
        waiter.close()


def test_where_nothing_can_be_heard_a_full_worker_learns_that_a_job_is_to_stop(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.postgres.wakeup.Wakeups._connect", lambda _: False)
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        store.run(store.put(jobs(3)))
        one, two = session.take(2)  # it can take no more
        assert not waiter.wait(0.05)
        for lease in (one, two):
            sleeping = sleep_until_news(waiter)
            store.run(store.cancel([lease.id]))
            assert sleeping.answer()
        assert not waiter.wait(0.05), "both are known"


def test_where_nothing_can_be_heard_waiters_poll(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.store.postgres.wakeup.Wakeups._connect", lambda _: False)
    session = Session(store)
    with closing(store.waiter(session.id, ["default"])) as waiter:
        assert store._wakeups.deaf
        waiter.arm()
        assert not waiter.wait(0.05)
        sleeping = sleep_until_news(waiter)
        store.run(store.put(jobs()))
        assert sleeping.answer()


def test_an_idle_worker_waits_in_the_thread_that_runs_what_comes(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: set[str] = set()
    wait_and_run = Sleeper.wait_and_run

    def noted(self: Sleeper, request: Any, meanwhile: Callable[[], float | None]) -> Any:
        waited.add(threading.current_thread().name)
        return wait_and_run(self, request, meanwhile)

    monkeypatch.setattr(Sleeper, "wait_and_run", noted)
    app = Headrace(store.url)
    where = app.task(name="where")(lambda: threading.current_thread().name)
    with closing(app), app.worker():
        wait_until(lambda: any(name.startswith("headrace-job") for name in waited))
        assert where.enqueue().result(timeout=LONG) in waited
