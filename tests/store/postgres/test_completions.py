"""`complete` in a caller's transaction: nothing but that one job waits for it, and the job ends once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import StoreBusy
from headrace.records import Kind, Lease, Outcome, State, Verdict
from headrace.store.postgres import statements

from .scenes import Session, connect, jobs, outcome

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

LARGE = b'"%s"' % (b"x" * 5_000)


@pytest.fixture
def caller(store: PostgresStore) -> Iterator[Any]:
    """A connection of a caller, with a transaction that is open."""
    with closing(connect(store)) as connection:
        connection.execute("BEGIN")
        yield connection


@pytest.fixture
def session(store: PostgresStore) -> Session:
    return Session(store)


@pytest.fixture
def lease(store: PostgresStore, session: Session, caller: Any) -> Lease:
    """Of a job that a caller is about to complete."""
    store.run(store.put(jobs()))
    (lease,) = session.take()
    assert store.run(store.complete(key_of(lease), b"1", caller))
    return lease


def key_of(lease: Lease) -> tuple[Any, int, str]:
    return lease.ref, lease.token, lease.id


def said(lease: Lease, kind: Kind = Kind.DONE, **more: Any) -> Outcome:
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind, completes=True, **more)


def look(store: PostgresStore, lease: Lease) -> Any:
    return store.run(store.get([lease.id]))[0]


def rows(store: PostgresStore) -> int:
    with closing(connect(store)) as connection:
        ((number,),) = connection.execute("SELECT count(*) FROM completion").fetchall()
    return int(number)


def test_everything_else_goes_on_while_it_is_open(store: PostgresStore, session: Session, lease: Lease) -> None:
    other = Session(store)
    store.run(store.put(jobs(2, tags=("red",), unique_key=None)))
    (second,) = session.take()
    assert store.run(store.renew(session.id, [key_of(lease), key_of(second)], started=[lease.ref], memory=1)).lost == []
    assert store.run(store.tag([lease.id], ["blue"])) == [True]
    assert store.run(store.update(lease.id, None, b"{}"))
    session.exchange([outcome(second, Kind.FAILED)], slots=1)
    assert len(other.take(5)) == 0
    store.run(store.sweep())
    assert look(store, lease).state is State.RUNNING


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED, Kind.AGAIN])
@pytest.mark.parametrize("commits", [True, False])
def test_the_run_is_settled_when_the_transaction_has_ended(
    store: PostgresStore, session: Session, caller: Any, lease: Lease, kind: Kind, commits: bool
) -> None:
    request = session.request([said(lease, kind, result=None, group="late")])
    assert list(request().verdicts) == [Verdict.LATER]
    assert look(store, lease).state is State.RUNNING
    caller.execute("COMMIT" if commits else "ROLLBACK")
    assert list(request().verdicts) == [Verdict.LATER], "a repeat gets what was recorded"
    assert list(session.request([said(lease, kind, group="late")])().verdicts) == [Verdict.OK]
    ends = {Kind.DONE: State.DONE, Kind.FAILED: State.FAILED, Kind.AGAIN: State.READY}
    job = look(store, lease)
    assert (job.state, job.result) == ((State.DONE, b"1") if commits else (ends[kind], None))
    assert rows(store) == 0


def test_a_dead_worker_leaves_the_job_until_the_transaction_has_ended(
    store: PostgresStore, session: Session, caller: Any, lease: Lease
) -> None:
    store.run(store.put(jobs()))
    (other,) = session.take()
    assert store.run(store.close_session(session.id, crashed=[lease.ref])) == [other.id]
    assert look(store, lease).state is State.RUNNING
    assert look(store, other).state is State.READY
    store.run(store.sweep())
    assert look(store, lease).state is State.RUNNING
    caller.execute("COMMIT")
    store.run(store.sweep())
    job = look(store, lease)
    assert (job.state, job.result, job.crashes) == (State.DONE, b"1", 0)
    assert rows(store) == 0


@pytest.mark.parametrize("crashed", [True, False, None])
def test_a_rollback_gives_the_job_of_a_dead_worker_back_and_charges_it(
    store: PostgresStore, session: Session, caller: Any, lease: Lease, crashed: bool | None
) -> None:
    refs = None if crashed is None else [lease.ref] if crashed else []
    assert store.run(store.close_session(session.id, crashed=refs)) == []
    caller.execute("ROLLBACK")
    store.run(store.sweep())
    job = look(store, lease)
    assert (job.state, job.crashes) == (State.READY, 0 if crashed is False else 1)
    assert len(Session(store).take()) == 1


def test_a_lease_that_was_taken_away_is_not_completed(store: PostgresStore, session: Session, caller: Any) -> None:
    store.run(store.put(jobs()))
    (lost,) = session.take()
    store.run(store.take_back([lost.id]))
    assert not store.run(store.complete(key_of(lost), b"1", caller))
    (again,) = session.take()
    assert store.run(store.complete(key_of(again), b"2", caller))
    caller.execute("COMMIT")
    session.exchange([said(again)])
    assert look(store, again).result == b"2"


@pytest.mark.parametrize("name", ["delete", "take_back"])
def test_what_would_take_the_run_away_says_that_it_is_busy(
    store: PostgresStore, session: Session, caller: Any, lease: Lease, name: str
) -> None:
    words = rf"Job {lease.id} is being completed in a transaction that is still open\. Try again when that has ended\."
    with pytest.raises(StoreBusy, match=words):
        store.run(getattr(store, name)([lease.id]))
    caller.execute("COMMIT")
    assert store.run(getattr(store, name)([lease.id])) == [True]
    assert rows(store) == 0


def test_it_can_be_completed_once(store: PostgresStore, caller: Any, lease: Lease) -> None:
    assert not store.run(store.complete(key_of(lease), b"2", caller))
    caller.execute("COMMIT")
    assert not store.run(store.complete(key_of(lease), b"3"))


def test_a_large_result_arrives(store: PostgresStore, session: Session, caller: Any) -> None:
    store.run(store.put(jobs()))
    (lease,) = session.take()
    assert store.run(store.complete(key_of(lease), LARGE, caller))
    caller.execute("COMMIT")
    assert store.run(store.is_completed(key_of(lease)))
    session.exchange([said(lease, Kind.FAILED)])
    assert look(store, lease).result == LARGE


@pytest.mark.parametrize(("set_to", "then"), [("0", "1min"), ("2h", "1min"), ("5s", "5s")])
def test_the_server_ends_a_transaction_that_stands_still(
    store: PostgresStore, session: Session, set_to: str, then: str
) -> None:
    store.run(store.put(jobs()))
    (lease,) = session.take()
    with closing(connect(store)) as caller:
        caller.execute(f"SET idle_in_transaction_session_timeout = '{set_to}'")
        caller.execute("BEGIN")
        assert store.run(store.complete(key_of(lease), b"1", caller))
        shown = "SELECT current_setting('idle_in_transaction_session_timeout')"
        assert caller.execute(shown).fetchall() == [(then,)]
    assert statements.COMPLETES_WITHIN == 60_000


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED])
def test_what_was_committed_counts_whatever_the_outcome_says(
    store: PostgresStore, session: Session, caller: Any, lease: Lease, kind: Kind
) -> None:
    caller.execute("COMMIT")
    session.exchange([outcome(lease, kind)])
    assert (look(store, lease).state, look(store, lease).result) == (State.DONE, b"1")


def test_what_is_left_of_runs_that_are_over_is_forgotten(store: PostgresStore, session: Session, caller: Any) -> None:
    """The task has called `complete`, its worker does not say so, and the commit comes after the run."""
    store.run(store.put(jobs()))
    (lease,) = session.take()
    assert store.run(store.complete(key_of(lease), b"1", caller))
    session.exchange([outcome(lease)])
    caller.execute("COMMIT")
    assert rows(store) == 1
    store.run(store.sweep())
    assert rows(store) == 0
    assert look(store, lease).state is State.DONE
