"""What others lock is waited for a bounded time, keeps nobody else waiting, and is named."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headrace.errors import StoreBusy, StoreUnavailable
from headrace.records import Lane, NewJob
from headrace.store.postgres import database, doctor

from .scenes import Aside, Session, connect, jobs, wait_until, waiting

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

    from .servers import Server

Make = Callable[..., "PostgresStore"]
KINDS: dict[str, Callable[[], list[NewJob]]] = {
    "a plain job": jobs,
    "many plain jobs": lambda: jobs(3),
    "a job with a tag": lambda: jobs(tags=("a",)),
    "a job in a lane": lambda: jobs(lane=Lane("a")),
}


@pytest.fixture
def stranger(store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    with closing(connect(store)) as connection:
        yield connection


# -- locks that others have --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_locked_table_is_waited_for_5_seconds_and_whoever_has_it_is_named(
    store: PostgresStore, stranger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 1.5)
    stranger.execute("SET application_name = 'nightly'")
    stranger.execute("BEGIN")
    stranger.execute("LOCK TABLE job IN SHARE MODE")
    (me,) = stranger.execute("SELECT pg_backend_pid()").fetchone() or ()
    begun = time.monotonic()
    named = rf"It waits for process {me} \(user \w+, nightly, idle in transaction for \d+ s\); pg_terminate_backend"
    with pytest.raises(StoreBusy, match=rf"another transaction holds what this one needs .*{named}"):
        store.run(store.put(KINDS[kind]()))
    assert time.monotonic() - begun < 10
    stranger.execute("ROLLBACK")
    store.run(store.put(KINDS[kind]()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_was_locked_for_a_moment_is_waited_for(
    store: PostgresStore, stranger: psycopg.Connection[Any], kind: str
) -> None:
    stranger.execute("BEGIN")
    stranger.execute("LOCK TABLE job IN SHARE MODE")
    putting = Aside(lambda: store.run(store.put(KINDS[kind]())))
    before = store.database.repeated
    wait_until(lambda: store.database.repeated > before)  # it has given up once
    stranger.execute("ROLLBACK")
    putting.answer()


def test_doctor_names_who_keeps_others_waiting(store: PostgresStore, stranger: psycopg.Connection[Any]) -> None:
    stranger.execute("SET application_name = 'nightly'")
    stranger.execute("BEGIN")
    stranger.execute("LOCK TABLE job IN SHARE MODE")
    (me,) = stranger.execute("SELECT pg_backend_pid()").fetchone() or ()
    with closing(connect(store)) as other:
        waits = Aside(lambda: other.execute("INSERT INTO job SELECT * FROM job"))
        wait_until(lambda: any(f"Process {me} (user" in sentence for sentence in doctor.blocking(store.database)))
        (said,) = doctor.blocking(store.database)
        assert "nightly, idle in transaction) keeps 1 others waiting, the first for " in said
        stranger.execute("ROLLBACK")
        waits.answer()
    assert doctor.blocking(store.database) == []


def test_a_row_that_a_transaction_of_a_user_keeps_holds_up_no_rule_but_its_own(
    store: PostgresStore, make: Make, stranger: psycopg.Connection[Any]
) -> None:
    """With the lock of the rules a transaction waits for a second at a time, and lets others pass."""
    (kept,) = jobs(lane=Lane("kept"))
    store.run(store.put([kept]))
    stranger.execute("BEGIN")
    stranger.execute("UPDATE job SET priority = 1 WHERE id = $1", (kept.id,))
    cancelling = Aside(lambda: store.run(store.cancel([kept.id])))
    wait_until(lambda: waiting(stranger) == 1)
    other = make(store.url)
    begun = time.monotonic()
    other.run(other.put(jobs(lane=Lane("other"))))
    assert time.monotonic() - begun < 3
    stranger.execute("COMMIT")
    assert cancelling.answer() == [True]


# -- twins in open transactions ----------------------------------------------------------------------------


def test_the_same_put_inside_an_open_transaction_and_outside_of_it_holds_up_no_other(
    store: PostgresStore, make: Make, stranger: psycopg.Connection[Any]
) -> None:
    job, *_ = twin = jobs()
    url = store.url.partition("&schema=")[0]
    with closing(psycopg.connect(url)) as caller:
        store.run(store.put_within(caller, twin))
        outside = Aside(lambda: store.run(store.put(twin)))
        wait_until(lambda: waiting(stranger) == 1)
        other = make(store.url)
        with closing(other.waiter(Session(other).id, ["default"])) as waiter:
            begun = time.monotonic()
            waiter.arm()
            other.run(other.put(jobs()))
            assert waiter.wait(20.0)
            assert time.monotonic() - begun < 3
        caller.commit()
        assert [put.id for put in outside.answer()] == [job.id]


def test_a_deadlock_of_two_callers_is_told_in_words(store: PostgresStore) -> None:
    """Each has put what the other puts next."""
    one, two = jobs(unique_key="one"), jobs(unique_key="two")
    url = store.url.partition("&schema=")[0]
    with closing(psycopg.connect(url)) as first, closing(psycopg.connect(url)) as second:
        store.run(store.put_within(first, one))
        store.run(store.put_within(second, two))

        def put(connection: psycopg.Connection[Any], twins: list[NewJob]) -> str:
            try:
                store.run(store.put_within(connection, jobs(unique_key=twins[0].unique_key)))
            except StoreBusy as error:
                return str(error)
            finally:
                connection.rollback()
            return ""

        asides = [Aside(lambda: put(first, two)), Aside(lambda: put(second, one))]
        (said,) = [words for words in (aside.answer() for aside in asides) if words]
    assert "your transaction and another one wait for each other, so this call was given up: nothing was enq" in said


# -- restarts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_puts_during_a_restart_of_the_server_wait_and_succeed(
    make: Make, private: Callable[..., Server], kind: str
) -> None:
    server = private()
    store = make(server.url())
    over, put = threading.Event(), list[str]()

    def produce() -> None:
        while not over.is_set():
            batch = KINDS[kind]()
            store.run(store.put(batch))
            put.extend(job.id for job in batch)

    producers = [Aside(produce) for _ in range(3)]
    for _ in range(2):
        before = len(put)
        wait_until(lambda before=before: len(put) > before + 20)
        server.kill(signal.SIGINT)
        server.start()
    before = len(put)
    wait_until(lambda: len(put) > before + 20)
    over.set()
    for producer in producers:
        producer.answer()
    assert all(store.run(store.get(put)))


def test_a_server_that_was_never_there_is_not_waited_for(make: Make) -> None:
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        make("postgresql://me@/db?host=/nonexistent")
    assert time.monotonic() - begun < 2
