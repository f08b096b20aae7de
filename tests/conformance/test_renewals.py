"""Renewals: what a session has lost, what is cancelled, and what it holds without knowing."""

from __future__ import annotations

from headrace.records import Kind, Outcome, State, Verdict
from headrace.store.contract import Store
from headrace.store.limits import MOST_STRAYS
from headrace.values.clock import ManualClock

from .helpers import Worker, put, state

# -- what the worker does not know --


def test_a_renewal_tells_what_the_session_holds_beyond_what_it_names(store: Store, worker: Worker) -> None:
    """As after a store has gone back to a time when these were held: the worker gives them back."""
    put(store, *"abcd")
    a, b, c, d = worker.take(4)
    strays = worker.renew(b, complete=worker.number).strays
    assert list(strays) == [(lease.ref, lease.token, lease.id) for lease in (a, c, d)]
    assert list(worker.renew(a, b, c, d, complete=worker.number).strays) == []
    given_back = [Outcome(ref=ref, token=token, id=job_id, kind=Kind.RELEASED) for ref, token, job_id in strays]
    assert worker.exchange(given_back).verdicts == [Verdict.OK] * 3
    assert [state(store, job_id) for job_id in "abcd"] == [State.READY, State.RUNNING, State.READY, State.READY]
    assert list(worker.renew(b, complete=worker.number).strays) == []


def test_no_strays_are_looked_for_unless_the_worker_has_named_all(store: Store, worker: Worker) -> None:
    """What a later request has handed out may be on its way."""
    put(store, "a")
    before = worker.number
    lease = worker.take_one()
    assert list(worker.renew().strays) == []
    assert list(worker.renew(complete=before).strays) == []
    assert [job_id for _, _, job_id in worker.renew(complete=worker.number + 1).strays] == [lease.id]


def test_a_renewal_tells_of_a_bounded_number_of_strays(store: Store, worker: Worker) -> None:
    put(store, *(f"j{number:03}" for number in range(MOST_STRAYS + 5)))
    leases = worker.take(MOST_STRAYS + 5)
    assert len(worker.renew(complete=worker.number).strays) == MOST_STRAYS
    assert len(worker.renew(*leases[:10], complete=worker.number).strays) == MOST_STRAYS - 5


# -- renew --


def test_renew_answers_with_the_stores_time(store: Store, worker: Worker, clock: ManualClock) -> None:
    clock.advance(5)
    assert worker.renew().now == clock.now()


def test_renew_tells_which_leases_are_lost(store: Store, worker: Worker) -> None:
    put(store, *"abc")
    a, b, c = worker.take(3)
    store.run(store.delete(["a"]))
    worker.settle(b)
    renewal = worker.renew(a, b, c)
    assert (sorted(renewal.lost), list(renewal.cancelled)) == (["a", "b"], [])


def test_a_lease_is_lost_when_its_token_was_passed_on(store: Store, worker: Worker) -> None:
    put(store, "a")
    old = worker.run_one(Kind.RELEASED)
    fresh = worker.take_one()
    assert list(worker.renew(old).lost) == ["a"]
    assert list(worker.renew(fresh).lost) == []


def test_a_lease_of_another_session_is_lost_to_this_one(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    assert list(Worker(store, clock, "other").renew(lease).lost) == ["a"]


def test_renew_tells_what_is_cancelled_again_and_again_until_settled(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    store.run(store.cancel(["a"]))
    for _ in range(3):
        renewal = worker.renew(a, b)
        assert (list(renewal.lost), list(renewal.cancelled)) == ([], ["a"])
    worker.settle(a, Kind.FAILED)
    assert list(worker.renew(b).cancelled) == []
