"""What people do to jobs from outside, and what running workers notice of it."""

from __future__ import annotations

import pytest

from headrace.records import Charge, Kind, State, Verdict
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, exists, ids, look, put, state
from .traits import Trait, cases

NEEDED = {
    State.SCHEDULED: Facet.DELAY,
    State.DONE: Trait.DONE,
    State.FAILED: Trait.FAILURES,
    State.CANCELLED: Trait.CANCELLED,
}
"""What a store needs for a job to be seen in a state."""


# -- cancel --


@pytest.mark.parametrize("delay", [None, 100])
@pytest.mark.needs(Trait.CANCELLED)
def test_cancel_of_a_waiting_job_cancels_it_at_once(
    store: Store, worker: Worker, clock: ManualClock, delay: int | None
) -> None:
    put(store, "a", delay=delay)
    clock.advance(5)
    assert store.run(store.cancel(["a"])) == [True]
    job = look(store, "a")
    assert (job.state, job.finished, job.cancelling) == (State.CANCELLED, clock.now(), False)
    clock.advance(1_000)
    assert worker.take(1) == []


@pytest.mark.needs(Trait.CANCELLED)
def test_cancel_of_a_failed_job_cancels_it(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED, error=b"E", group="g")
    assert store.run(store.cancel(["a"])) == [True]
    assert state(store, "a") is State.CANCELLED


@pytest.mark.needs(Trait.CANCELLED)
def test_cancel_of_a_cancelled_job_is_true_and_changes_nothing(store: Store, clock: ManualClock) -> None:
    put(store, "a")
    store.run(store.cancel(["a"]))
    before = look(store, "a")
    clock.advance(5)
    assert store.run(store.cancel(["a"])) == [True]
    assert look(store, "a") == before


@pytest.mark.needs(Trait.DONE)
def test_cancel_of_a_done_job_is_false_and_changes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(result=b"R")
    before = look(store, "a")
    assert store.run(store.cancel(["a"])) == [False]
    assert look(store, "a") == before


def test_cancel_of_an_unknown_job_is_false(store: Store) -> None:
    assert store.run(store.cancel(["nobody"])) == [False]


def test_cancel_answers_in_the_order_of_the_ids(store: Store) -> None:
    put(store, "a", "b")
    assert store.run(store.cancel(["a", "nobody", "b"])) == [True, False, True]


@pytest.mark.needs(Trait.CANCELLED, witness=True)
def test_cancel_of_a_running_job_flags_it(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.take_one()
    for _ in range(2):
        assert store.run(store.cancel(["a"])) == [True]
    job = look(store, "a")
    assert (job.state, job.cancelling, job.finished) == (State.RUNNING, True, None)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.DONE])
@pytest.mark.needs(Trait.CANCELLED)
def test_every_outcome_of_a_cancelling_job_but_done_makes_it_cancelled(
    store: Store, worker: Worker, clock: ManualClock, kind: Kind
) -> None:
    put(store, "a", **{"max_crashes": 1} if kind is Kind.CRASHED else {})
    lease = worker.take_one()
    store.run(store.cancel(["a"]))
    clock.advance(5)
    queue = "next" if kind is Kind.MOVED else None
    assert worker.settle(lease, kind, delay=7, queue=queue) is Verdict.OK
    job = look(store, "a")
    assert (job.state, job.cancelling, job.finished) == (State.CANCELLED, False, clock.now())
    assert job.queue == "default"
    clock.advance(1_000)
    assert worker.take(1, 0, "default", "next") == []


@pytest.mark.needs(Trait.CANCELLED)
def test_done_wins_over_cancelling(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    store.run(store.cancel(["a"]))
    worker.settle(lease, result=b"R")
    job = look(store, "a")
    assert (job.state, job.result, job.cancelling) == (State.DONE, b"R", False)


@pytest.mark.needs(Trait.CANCELLED)
def test_a_cancelled_run_is_charged_and_keeps_its_error_and_data(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    store.run(store.cancel(["a", "b"]))
    worker.settle(a, Kind.AGAIN, charge=Charge.ATTEMPT, error=b"E", data=b"D")
    worker.settle(b, Kind.CRASHED)
    job = look(store, "a")
    assert (job.attempts, job.error, job.data) == (1, b"E", b"D")
    assert look(store, "b").crashes == 1


@pytest.mark.parametrize("crashed", [(), None])
@pytest.mark.needs(Trait.CANCELLED)
def test_a_cancelling_job_is_cancelled_when_its_session_closes(
    store: Store, worker: Worker, crashed: tuple[()] | None
) -> None:
    put(store, "a")
    worker.take_one()
    store.run(store.cancel(["a"]))
    assert worker.close(crashed=crashed) == ["a"]
    assert (state(store, "a"), look(store, "a").crashes) == (State.CANCELLED, 1 if crashed is None else 0)


@pytest.mark.needs(Trait.CANCELLED)
def test_a_cancelling_job_is_cancelled_when_its_session_expires(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    worker.take_one()
    store.run(store.cancel(["a"]))
    clock.advance(TIMEOUT)
    store.run(store.sweep())
    assert (state(store, "a"), look(store, "a").crashes) == (State.CANCELLED, 1)


# -- delete --


@pytest.mark.parametrize(
    "where", cases([State.READY, State.SCHEDULED, State.DONE, State.FAILED, State.CANCELLED], NEEDED)
)
def test_delete_leaves_nothing_of_a_job_in_any_state(store: Store, worker: Worker, where: State) -> None:
    put(store, "a", delay=100 if where is State.SCHEDULED else None)
    if where in (State.DONE, State.FAILED):
        worker.run_one(Kind.DONE if where is State.DONE else Kind.FAILED)
    if where is State.CANCELLED:
        store.run(store.cancel(["a"]))
    assert state(store, "a") is where
    assert store.run(store.delete(["a"])) == [True]
    assert not exists(store, "a")
    if Facet.HISTORY in store.facets:
        assert store.run(store.history("a")) == []
    assert store.run(store.counts()) == []
    assert worker.exchange(take=worker.asks(5)).next_due is None


def test_delete_of_a_running_job_loses_it_to_its_session(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    assert store.run(store.delete(["a"])) == [True]
    assert not exists(store, "a")
    assert list(worker.renew(lease).lost) == ["a"]
    assert worker.settle(lease) is Verdict.STALE


def test_delete_of_an_unknown_job_is_false(store: Store) -> None:
    put(store, "a")
    assert store.run(store.delete(["nobody", "a", "a"])) == [False, True, False]


def test_a_deleted_id_can_be_put_again(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(result=b"R")
    store.run(store.delete(["a"]))
    put(store, "a")
    job = look(store, "a")
    assert (job.state, job.result) == (State.READY, None)


@pytest.mark.needs(Trait.TOKENS)
def test_the_token_of_a_deleted_id_begins_at_zero(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one()
    store.run(store.delete(["a"]))
    put(store, "a")
    assert look(store, "a").token == 0


# -- revive --


@pytest.mark.needs(Facet.REVIVE)
def test_a_failed_job_that_is_revived_is_ready_and_runs_again(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED)
    assert store.run(store.revive(["a"])) == [True]
    assert state(store, "a") is State.READY
    assert ids(worker.take(1)) == "a"


@pytest.mark.parametrize("where", [State.FAILED, State.CANCELLED])
@pytest.mark.needs(Facet.REVIVE)
@pytest.mark.needs(Trait.CRASHES)
def test_revive_puts_a_failed_or_cancelled_job_back_in_line_afresh(
    store: Store, worker: Worker, clock: ManualClock, where: State
) -> None:
    put(store, "a")
    worker.run_one(Kind.CRASHED)
    worker.run_one(Kind.AGAIN, charge=Charge.DEFERRAL)
    lease = worker.take_one()
    if where is State.CANCELLED:
        store.run(store.cancel(["a"]))
    worker.settle(lease, Kind.FAILED, charge=Charge.ATTEMPT, error=b"E", group="g", data=b"D")
    assert state(store, "a") is where
    clock.advance(5)
    assert store.run(store.revive(["a"])) == [True]
    job = look(store, "a")
    assert (job.state, job.due, job.attempts, job.crashes) == (State.READY, clock.now(), 0, 0)
    assert (job.error, job.group, job.finished, job.deferred_since) == (None, None, None, None)
    assert ids(worker.take(1)) == "a"


@pytest.mark.needs(Facet.REVIVE)
@pytest.mark.needs(Trait.OWNER)
def test_revive_keeps_what_it_does_not_clear(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED, data=b"D")
    before = look(store, "a")
    store.run(store.revive(["a"]))
    job = look(store, "a")
    assert (job.data, job.token, job.created, job.worker) == (b"D", 1, before.created, "w")
    assert job.started == before.started


@pytest.mark.needs(Facet.REVIVE)
@pytest.mark.needs(Trait.CANCELLED)
def test_revive_clears_deferred_since_of_a_job_cancelled_while_put_off(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, charge=Charge.DEFERRAL)
    store.run(store.cancel(["a"]))
    store.run(store.revive(["a"]))
    assert look(store, "a").deferred_since is None


@pytest.mark.needs(Facet.REVIVE)
@pytest.mark.needs(Trait.CANCELLED)
def test_revive_stands_where_its_new_due_time_puts_it(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    store.run(store.cancel(["a"]))
    clock.advance(5)
    put(store, "b")
    clock.advance(5)
    store.run(store.revive(["a"]))
    assert ids(worker.take(5)) == "ba"


@pytest.mark.parametrize("where", cases([State.READY, State.SCHEDULED, State.RUNNING, State.DONE], NEEDED))
@pytest.mark.needs(Facet.REVIVE)
def test_revive_of_any_other_state_is_false_and_changes_nothing(store: Store, worker: Worker, where: State) -> None:
    put(store, "a", delay=100 if where is State.SCHEDULED else None)
    if where in (State.RUNNING, State.DONE):
        lease = worker.take_one()
        if where is State.DONE:
            worker.settle(lease)
    before = look(store, "a")
    assert before.state is where
    assert store.run(store.revive(["a"])) == [False]
    assert look(store, "a") == before


@pytest.mark.needs(Facet.REVIVE)
def test_revive_of_an_unknown_job_is_false(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.FAILED)
    assert store.run(store.revive(["nobody", "a", "a"])) == [False, True, False]


@pytest.mark.needs(Facet.REVIVE)
@pytest.mark.needs(Trait.ALREADY)
def test_a_settle_after_a_revive_does_not_settle_again(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.run_one(Kind.FAILED)
    store.run(store.revive(["a"]))
    assert worker.settle(lease) is Verdict.ALREADY
    assert state(store, "a") is State.READY


@pytest.mark.needs(Facet.REVIVE)
@pytest.mark.needs(Trait.CRASHES)
def test_the_crashes_of_a_revived_job_are_counted_afresh(store: Store, worker: Worker) -> None:
    put(store, "a", max_crashes=2)
    worker.run_one(Kind.CRASHED)
    worker.run_one(Kind.CRASHED)
    store.run(store.revive(["a"]))
    worker.run_one(Kind.CRASHED)
    assert (state(store, "a"), look(store, "a").crashes) == (State.READY, 1)
