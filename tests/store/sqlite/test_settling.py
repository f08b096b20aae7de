"""Settling many at once: few statements, and the verdicts of one by one."""

from __future__ import annotations

from typing import Any

from headrace.records import Charge, Kind, Lane, Lease, Outcome, State, Verdict
from headrace.store.sqlite.store import SqliteStore

from .helpers import Session, jobs

OK, ALREADY, STALE = Verdict.OK, Verdict.ALREADY, Verdict.STALE


def done(lease: Lease, **fields: Any) -> Outcome:
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE, **fields)


def states(store: SqliteStore, leases: list[Lease]) -> list[State]:
    return [snapshot.state for snapshot in store.run(store.get([lease.id for lease in leases])) if snapshot]


def test_what_is_already_done_is_told_from_what_is_done_now(store: SqliteStore) -> None:
    session = Session(store)
    store.run(store.put(jobs(6)))
    leases = session.take(6)
    first = [done(lease, began=5, ended=6) for lease in leases[:2]]
    assert list(session.exchange(first).verdicts) == [OK, OK]
    again = [done(lease, began=5, ended=6) for lease in leases]
    assert list(session.exchange(again).verdicts) == [ALREADY, ALREADY, OK, OK, OK, OK]
    assert states(store, leases) == [State.DONE] * 6


def test_a_stale_one_among_many(store: SqliteStore) -> None:
    session, other = Session(store), Session(store, "other")
    store.run(store.put(jobs(5)))
    leases = session.take(4)
    (theirs,) = other.take(1)
    late = [done(leases[0]), done(theirs), done(leases[1], result=b"1"), done(leases[2], data=b"2"), done(leases[3])]
    assert list(session.exchange(late).verdicts) == [OK, STALE, OK, OK, OK]
    assert states(store, [*leases, theirs]) == [State.DONE] * 4 + [State.RUNNING]
    assert [snapshot and snapshot.attempts for snapshot in store.run(store.get([leases[1].id, theirs.id]))] == [0, 0]


def test_of_two_outcomes_of_one_run_the_first_counts(store: SqliteStore) -> None:
    session = Session(store)
    store.run(store.put(jobs(2)))
    one, two = session.take(2)
    failed = Outcome(ref=one.ref, token=one.token, id=one.id, kind=Kind.FAILED, group="g")
    assert list(session.exchange([failed, done(one), done(two), done(two)]).verdicts) == [OK, ALREADY, OK, ALREADY]
    assert states(store, [one, two]) == [State.FAILED, State.DONE]


def test_jobs_of_lanes_among_plain_ones(store: SqliteStore) -> None:
    session = Session(store)
    store.run(store.put([*jobs(2), *jobs(2, lane=Lane("key", sequence=True)), *jobs(1)]))
    leases = session.take(5)
    assert len(leases) == 4, "of a sequence one at a time"
    assert list(session.exchange([done(lease) for lease in leases]).verdicts) == [OK] * 4
    assert len(session.take(5)) == 1, "the next of the sequence"


def test_what_was_undone_left_no_trace(store: SqliteStore) -> None:
    """Settling one by one begins anew: attempts are spent once, and the session's answer is kept once."""
    session = Session(store)
    store.run(store.put(jobs(3)))
    leases = session.take(3)
    outcomes = [done(lease, began=5, ended=6, charge=Charge.ATTEMPT) for lease in leases]
    session.exchange(outcomes[:1])
    request = store.exchange(session.id, 50, outcomes, steady=7)
    turns = [store.run(request), store.run(request)]
    assert [list(turn.verdicts) for turn in turns] == [[ALREADY, OK, OK]] * 2
    assert [snapshot and snapshot.attempts for snapshot in store.run(store.get([x.id for x in leases]))] == [1, 1, 1]
