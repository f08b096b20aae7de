"""The fence: an outcome counts once, and only with the token of the lease that its session holds."""

from __future__ import annotations

import pytest

from headrace.records import Charge, Kind, State, Take, Verdict
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, look, outcome, put, state
from .test_core import SETTLED
from .traits import Trait, cases


@pytest.mark.parametrize(
    "kind",
    cases(
        [Kind.DONE, Kind.AGAIN, Kind.FAILED, Kind.BROKEN, Kind.RELEASED, Kind.CRASHED],
        SETTLED,
        dict.fromkeys([Kind.DONE, Kind.FAILED, Kind.BROKEN], Trait.ALREADY),
    ),
)
def test_a_second_settle_with_the_same_token_is_already_recorded(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a")
    lease = worker.run_one(kind)
    settled = look(store, "a")
    assert worker.settle(lease, Kind.FAILED, error=b"late", charge=Charge.ATTEMPT) is Verdict.ALREADY
    assert look(store, "a") == settled


@pytest.mark.needs(Trait.ATTEMPTS)
def test_the_same_outcome_twice_in_one_exchange_counts_once(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    again = outcome(lease, Kind.AGAIN, charge=Charge.ATTEMPT)
    assert list(worker.exchange([again, again]).verdicts) == [Verdict.OK, Verdict.ALREADY]
    assert look(store, "a").attempts == 1


def test_a_settle_with_a_token_passed_on_is_stale_and_changes_nothing(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    lease = worker.run_one(Kind.RELEASED)
    clock.advance(1)
    other = Worker(store, clock, "other")
    other.take_one()
    running = look(store, "a")
    assert worker.settle(lease, Kind.DONE, result=b"late", data=b"late") is Verdict.STALE
    assert look(store, "a") == running


def test_a_settle_with_an_old_token_of_ones_own_is_stale(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    old = worker.run_one(Kind.RELEASED)
    clock.advance(1)
    worker.take_one()
    assert worker.settle(old) is Verdict.STALE
    assert state(store, "a") is State.RUNNING


def test_a_settle_with_a_token_that_was_never_handed_out_is_stale(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    lease.token = 2
    assert worker.settle(lease) is Verdict.STALE
    assert state(store, "a") is State.RUNNING


def test_a_settle_by_a_session_that_does_not_hold_the_lease_is_stale(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    lease = worker.take_one()
    other = Worker(store, clock, "other")
    assert other.settle(lease) is Verdict.STALE
    assert state(store, "a") is State.RUNNING
    assert worker.settle(lease) is Verdict.OK
    assert other.settle(lease) is Verdict.STALE


def test_a_settle_of_a_deleted_job_is_stale(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    store.run(store.delete(["a"]))
    assert worker.settle(lease) is Verdict.STALE
    assert not exists(store, "a")


@pytest.mark.parametrize("successor", ["a", "b"])
def test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it(
    store: Store, worker: Worker, clock: ManualClock, successor: str
) -> None:
    put(store, "a")
    old = worker.take_one()
    store.run(store.delete(["a"]))
    put(store, successor)
    fresh = worker.take_one()
    assert worker.settle(old, result=b"old") is Verdict.STALE
    assert state(store, successor) is State.RUNNING
    assert worker.settle(fresh, result=b"new") is Verdict.OK
    if Facet.RESULT in store.facets:
        assert look(store, successor).result == b"new"


@pytest.mark.parametrize("successor", ["a", "b"])
def test_a_settle_of_a_deleted_job_by_a_worker_reborn_under_a_new_session_is_stale(
    store: Store, worker: Worker, clock: ManualClock, successor: str
) -> None:
    put(store, "a")
    old = worker.take_one()
    store.run(store.delete(["a"]))
    clock.advance(1)
    put(store, successor)
    reborn = Worker(store, clock, "reborn")
    reborn.take_one()
    assert reborn.settle(old, result=b"old") is Verdict.STALE
    assert list(reborn.renew(old).lost) == ["a"]
    assert state(store, successor) is State.RUNNING


@pytest.mark.needs(Trait.DONE, witness=True)
def test_stale_outcomes_do_not_keep_the_others_from_being_settled(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    store.run(store.delete(["a"]))
    turn = worker.exchange([outcome(a), outcome(b)], Take(("default",), 1))
    assert list(turn.verdicts) == [Verdict.STALE, Verdict.OK]
    assert state(store, "b") is State.DONE
