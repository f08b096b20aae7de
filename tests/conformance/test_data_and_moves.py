"""Data that a job carries from run to run, and jobs that go on in another queue."""

from __future__ import annotations

import pytest

from headrace.records import Charge, Kind, State
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, look, put
from .traits import Trait


@pytest.mark.needs(Facet.DATA)
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.MOVED])
def test_data_is_replaced_if_given_and_carried_to_the_next_run(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, data=b"1")
    worker.run_one(Kind.AGAIN)
    lease = worker.take_one()
    assert lease.data == look(store, "a").data == b"1"
    worker.settle(lease, kind, data=b"")
    assert look(store, "a").data == b""


@pytest.mark.needs(Facet.DATA)
@pytest.mark.needs(Facet.MOVE)
@pytest.mark.needs(Trait.PUT_ORDER)
def test_moved_takes_data_along(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    worker.run_one(Kind.MOVED, queue="next", data=b"D")
    worker.run_one(Kind.MOVED, queue="next")
    assert [lease.data for lease in worker.take(2, 0, "next")] == [b"D", None]


@pytest.mark.needs(Facet.MOVE)
@pytest.mark.needs(Trait.DUE)
def test_moved_goes_to_another_queue_with_counters_afresh(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, charge=Charge.ATTEMPT)
    worker.run_one(Kind.CRASHED)
    clock.advance(1_000)
    worker.run_one(Kind.MOVED, queue="next")
    job = look(store, "a")
    assert (job.state, job.queue, job.attempts, job.crashes) == (State.READY, "next", 0, 0)
    assert (job.task, job.body, job.due) == ("task", b"body of a", clock.now())
    assert worker.take(1) == []
    assert ids(worker.take(1, 0, "next")) == "a"


@pytest.mark.needs(Facet.MOVE)
def test_moved_takes_task_and_body_along_if_given(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.MOVED, queue="next", task="stage 2", body=b"")
    (lease,) = worker.take(1, 0, "next")
    assert (lease.task, lease.body) == ("stage 2", b"")


@pytest.mark.needs(Facet.MOVE)
def test_moved_without_a_queue_stays_in_its_own(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.MOVED, task="stage 2")
    assert (look(store, "a").queue, look(store, "a").task) == ("default", "stage 2")


@pytest.mark.needs(Facet.MOVE)
def test_moved_counts_no_attempt_even_when_charged(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.MOVED, queue="next", charge=Charge.ATTEMPT)
    assert look(store, "a").attempts == 0
