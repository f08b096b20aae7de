"""complete: a hand-out that its task has completed ends as done, however it ends."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.records import Charge, Kind, Lane, Lease, State, Verdict
from headrace.store.contract import Facet
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, look, outcome, put, state, told


def complete(store: Any, lease: Lease, result: bytes | None = b"1") -> bool:
    """In a transaction of its own. Through a caller's connection: tests/app/test_transactions.py."""
    return bool(store.run(store.complete((lease.ref, lease.token, lease.id), result)))


def taken(store: Any, worker: Worker, **fields: Any) -> Lease:
    put(store, "a", **fields)
    (lease,) = worker.take(1)
    return lease


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.WAITING])
@pytest.mark.parametrize("result", [None, b"1", b'"' + b"x" * 5_000 + b'"'])
def test_every_outcome_counts_as_done(store: Any, worker: Worker, kind: Kind, result: bytes | None) -> None:
    lease = taken(store, worker)
    assert complete(store, lease, result)
    assert state(store, "a") is State.RUNNING
    fields = {"queue": "other"} if kind is Kind.MOVED else {}
    assert worker.settle(lease, kind, result=b'"late"', error=b"{}", group="late", **fields) is Verdict.OK
    job = look(store, "a")
    assert (job.state, job.result, job.error, job.group, job.attempts, job.crashes, job.queue) == (
        State.DONE, result, None, None, 1, 0, "default",
    )  # fmt: skip
    assert told(store, "a")[-1] == "done"
    assert worker.settle(lease) is Verdict.ALREADY


def test_many_settled_at_once(store: Any, worker: Worker) -> None:
    put(store, "a", "b", "c")
    leases = worker.take(3)
    assert complete(store, leases[1], b"2")
    outcomes = [outcome(lease, charge=Charge.ATTEMPT) for lease in leases]
    assert worker.exchange(outcomes).verdicts == [Verdict.OK] * 3
    assert [(look(store, name).state, look(store, name).result) for name in "abc"] == [
        (State.DONE, None), (State.DONE, b"2"), (State.DONE, None),
    ]  # fmt: skip


@pytest.mark.parametrize("crashed", [True, False, None])
def test_a_session_that_ends(store: Any, worker: Worker, crashed: bool | None) -> None:
    lease = taken(store, worker, max_crashes=1)
    assert complete(store, lease)
    refs = None if crashed is None else [lease.ref] if crashed else []
    assert store.run(store.close_session(worker.id, crashed=refs)) == ["a"]
    job = look(store, "a")
    assert (job.state, job.result, job.crashes, job.attempts) == (State.DONE, b"1", 0, 1)


def test_a_session_that_is_swept(store: Any, worker: Worker, clock: ManualClock) -> None:
    lease = taken(store, worker)
    assert complete(store, lease)
    clock.advance(TIMEOUT + 1)
    store.run(store.sweep())
    assert (look(store, "a").state, look(store, "a").result) == (State.DONE, b"1")


def test_a_job_that_is_cancelled(store: Any, worker: Worker) -> None:
    lease = taken(store, worker)
    assert complete(store, lease)
    assert store.run(store.cancel(["a"])) == [True]
    assert worker.settle(lease, Kind.FAILED) is Verdict.OK
    assert state(store, "a") is State.DONE


@pytest.mark.needs(Facet.EDIT)
def test_a_job_that_is_taken_back(store: Any, worker: Worker) -> None:
    lease = taken(store, worker)
    assert complete(store, lease)
    assert store.run(store.take_back(["a"])) == [True]
    assert state(store, "a") is State.DONE


@pytest.mark.needs(Facet.LANES)
@pytest.mark.needs(Facet.RELATIONS)
def test_what_waits_for_it_and_its_lane_go_on(store: Any, worker: Worker) -> None:
    lane = Lane("k", limit=1)
    lease = taken(store, worker, lane=lane)
    put(store, "b", lane=lane)
    put(store, "c", after=("a",))
    assert complete(store, lease)
    assert [state(store, name) for name in "bc"] == [State.BLOCKED, State.BLOCKED]
    worker.settle(lease, Kind.CRASHED)
    assert [state(store, name) for name in "bc"] == [State.READY, State.READY]


@pytest.mark.needs(Facet.EDIT)
def test_a_lease_that_is_gone(store: Any, worker: Worker) -> None:
    lease = taken(store, worker)
    store.run(store.take_back(["a"]))
    assert not complete(store, lease)
    (again,) = worker.take(1)
    assert not complete(store, lease)
    assert complete(store, again)
    worker.settle(again)
    assert not complete(store, again)
    store.run(store.delete(["a"]))
    assert not complete(store, again)


def test_it_can_be_completed_once(store: Any, worker: Worker) -> None:
    lease = taken(store, worker)
    key = (lease.ref, lease.token, lease.id)
    assert not store.run(store.is_completed(key))
    assert complete(store, lease, b"1")
    assert store.run(store.is_completed(key))
    assert not complete(store, lease, b"2")
    worker.settle(lease)
    assert look(store, "a").result == b"1"


def test_nothing_of_a_completed_job_remains(store: Any, worker: Worker, leftovers: Any) -> None:
    lease = taken(store, worker)
    before = leftovers(store)
    assert complete(store, lease, b"x" * 5_000)
    store.run(store.delete(["a"]))
    assert leftovers(store) == {name: rows for name, rows in before.items() if name not in ("job", "jobs")}
