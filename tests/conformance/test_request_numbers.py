"""The numbers of a session's requests: repeats, lost replies, and requests that come late."""

from __future__ import annotations

import pytest

from headrace.errors import StaleRequest
from headrace.records import Charge, Kind, State, Verdict
from headrace.store.contract import Store
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, ids, look, outcome, put, saying, state

# -- numbers: repeats and lost replies --


def test_a_take_repeated_gives_the_same_leases(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    first = worker.exchange(take=worker.asks(1, 1))
    again = worker.exchange(take=worker.asks(1, 1), number=worker.number)
    assert again == first
    assert state(store, "c") is State.READY


@pytest.mark.parametrize("round_robin", [False, True])
def test_a_take_repeated_gives_the_leases_in_the_same_order(store: Store, worker: Worker, round_robin: bool) -> None:
    put(store, "a", "b", queue="q")
    put(store, "x", "y", queue="r", priority=1)
    take = worker.asks(2, 2, "q", "r", round_robin=round_robin)
    first = worker.exchange(take=take)
    assert worker.exchange(take=take, number=worker.number) == first


def test_a_take_repeated_leaves_out_leases_no_longer_held(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    worker.take(2)
    store.run(store.delete(["a"]))
    again = worker.exchange(take=worker.asks(2), number=worker.number)
    assert ids(again.leases) == "b"


def test_a_take_repeated_tells_that_a_lease_was_cancelled_meanwhile(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.take(1)
    store.run(store.cancel(["a"]))
    (lease,) = worker.exchange(take=worker.asks(1), number=worker.number).leases
    assert lease.cancelled


def test_a_take_that_came_back_empty_is_empty_when_repeated(store: Store, worker: Worker) -> None:
    assert worker.take(1) == []
    put(store, "a")
    assert list(worker.exchange(take=worker.asks(1), number=worker.number).leases) == []
    assert ids(worker.take(1)) == "a"


def test_a_settle_repeated_gives_the_verdicts_as_recorded(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    a, b = worker.take(2)
    store.run(store.delete(["b"]))
    outcomes = [outcome(a, Kind.AGAIN, charge=Charge.ATTEMPT), outcome(b)]
    first = worker.exchange(outcomes)
    settled = look(store, "a")
    again = worker.exchange(outcomes, number=worker.number)
    assert list(again.verdicts) == list(first.verdicts) == [Verdict.OK, Verdict.STALE]
    assert look(store, "a") == settled


def test_a_repeat_does_not_settle_what_was_handed_out_since(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    turn = worker.exchange([outcome(lease, Kind.RELEASED)], worker.asks(1))
    again = worker.exchange([outcome(lease, Kind.RELEASED)], worker.asks(1), number=worker.number)
    assert again == turn
    assert look(store, "a").token == 2


def test_a_repeat_marks_the_session_as_seen(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT - 1)
    worker.exchange(take=worker.asks(1), number=worker.number)
    clock.advance(TIMEOUT - 1)
    worker.renew()


def test_a_repeated_report_marks_the_session_as_seen(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    worker.report()
    clock.advance(TIMEOUT - 1)
    worker.report(number=worker.number)
    clock.advance(TIMEOUT - 1)
    worker.renew()


def test_a_lower_number_is_stale_and_changes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    lease = worker.take_one()
    worker.exchange()
    with pytest.raises(StaleRequest):
        worker.exchange([outcome(lease)], worker.asks(1), number=worker.number - 1)
    assert (state(store, "a"), state(store, "b")) == (State.RUNNING, State.READY)


def test_numbers_may_leave_gaps(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.number = 41
    assert ids(worker.take(1)) == "a"
    with pytest.raises(StaleRequest):
        worker.exchange(number=41)


def test_exchanges_and_reports_share_the_numbering(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.report(saying(lease, data=b"1"))
    with pytest.raises(StaleRequest):
        worker.exchange([outcome(lease)], number=worker.number - 1)
    worker.exchange()
    with pytest.raises(StaleRequest):
        worker.report(saying(lease, data=b"2"), number=worker.number - 1)
    assert (state(store, "a"), look(store, "a").data) == (State.RUNNING, b"1")


def test_sessions_number_their_requests_each_for_itself(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.number = 100
    worker.exchange()
    assert ids(Worker(store, clock, "other").take(1)) == "a"
