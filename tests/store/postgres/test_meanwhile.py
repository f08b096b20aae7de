"""What a sweep, a purge or an outcome goes by may change until it has the row: it goes by what the row says then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headrace.records import Expiry, Kind, NewJob, State
from headrace.store.sql import edit, put

from .scenes import Aside, Session, connect, jobs, outcome, wait_until, waiting

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

Make = Callable[..., "PostgresStore"]
LONG_AGO = 100_000_000


@pytest.fixture
def stranger(store: PostgresStore) -> Iterator[Any]:
    with closing(connect(store)) as connection:
        yield connection


def state(store: PostgresStore, job: NewJob) -> State | None:
    (found,) = store.run(store.get([job.id]))
    return found and found.state


class Halfway:
    """A transaction with locks on its jobs alone that has written, and stands before its commit."""

    def __init__(self, store: PostgresStore, work: Callable[[Any], Any]) -> None:
        self._there, self._goes_on = threading.Event(), threading.Event()

        def inside(tx: Any) -> Any:
            answer = work(tx)
            tx._run(("SELECT 1", ()))  # sends what was put off
            self._there.set()
            assert self._goes_on.wait(20)
            return answer

        self._aside = Aside(lambda: store.database.write(inside, narrow=True))
        assert self._there.wait(20)

    def finish(self) -> Any:
        self._goes_on.set()
        return self._aside.answer()


@pytest.fixture
def patient(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lets a transaction stand still for longer, as these do."""
    monkeypatch.setattr(store.database, "_settled", (store.database._settled[0].replace("'1000'", "'20000'"), ()))


@pytest.mark.usefixtures("patient")
def test_a_job_that_is_cancelled_meanwhile_does_not_expire(store: PostgresStore, stranger: Any) -> None:
    (job,) = jobs(expires=Expiry(after=1))
    store.run(store.put([job]))
    stranger.execute("UPDATE expiry SET at = 1")
    half = Halfway(store, lambda tx: put.cancel(tx, [job.id]))
    sweeping = Aside(lambda: store.run(store.sweep()))
    wait_until(lambda: waiting(stranger) == 1)
    half.finish()
    sweeping.answer()
    assert state(store, job) is State.CANCELLED


def test_a_job_that_was_taken_meanwhile_does_not_expire(store: PostgresStore, stranger: Any) -> None:
    """As a sweep sees it that has looked for expired jobs just before the take was committed."""
    (job,) = jobs(expires=Expiry(after=3_600_000))
    store.run(store.put([job]))
    assert len(Session(store).take()) == 1
    stranger.execute("UPDATE expiry SET at = 1")
    store.run(store.sweep())
    assert state(store, job) is State.RUNNING


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("what", ["tag", "log"])
def test_nothing_remains_of_a_job_that_was_changed_while_it_was_purged(
    store: PostgresStore, make: Make, stranger: Any, what: str
) -> None:
    (job,) = jobs()
    store.run(store.put([job]))
    session = Session(store)
    session.settle(*session.take())
    columns = ("finished", "due", "created", "started")
    stranger.execute(f"UPDATE job SET {', '.join(f'{name} = {name} - {LONG_AGO}' for name in columns)}")
    acts = {"tag": lambda tx: edit.tag(tx, [job.id], ["red"], []), "log": lambda tx: edit.log(tx, [job.id], "line")}
    half = Halfway(store, acts[what])
    purger = make(store.url, keep_done=0, keep_failed=0, keep_count=0)
    purger.run(purger.sweep())
    half.finish()
    purger.run(purger.sweep())
    assert state(store, job) is None
    assert stranger.execute("SELECT tag FROM tag").fetchall() == []
    assert stranger.execute("SELECT what FROM history").fetchall() == []


@pytest.mark.parametrize("kind", [Kind.AGAIN, Kind.FAILED, Kind.RELEASED])
def test_an_open_completion_counts_whatever_the_outcome_says_of_it(
    store: PostgresStore, stranger: Any, kind: Kind
) -> None:
    """A worker may not know: the outcome was made just before its task called `complete`."""
    (job,) = jobs()
    store.run(store.put([job]))
    session = Session(store)
    (lease,) = session.take()
    with closing(psycopg.connect(stranger.info.dsn)) as caller:
        assert store.run(store.complete((lease.ref, lease.token, lease.id), b"1", caller))
        session.request([outcome(lease, kind)])()
        caller.commit()
    session.request([outcome(lease, kind)])()
    assert state(store, job) is State.DONE


def test_a_row_that_says_it_ended_but_not_when_holds_up_no_other(store: PostgresStore, stranger: Any) -> None:
    """The documented role that only enqueues may write it."""
    (good,) = jobs()
    store.run(store.put([good]))
    columns = "id, task, queue, state, priority, due, created, max_crashes, body"
    stranger.execute(f"INSERT INTO job ({columns}) VALUES ('bad', 't', 'default', 5, 0, 0, 0, 3, '{{}}')")
    assert store.run(store.cancel([good.id, "bad"])) == [True, True]
    assert state(store, good) is State.CANCELLED
