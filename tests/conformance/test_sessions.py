"""Sessions: how they open, expire and close, and why a lost reply neither strands a job nor doubles one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import SessionGone, StaleRequest
from headrace.records import Charge, Kind, State, Verdict
from headrace.store.contract import Store
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, exists, look, outcome, put, state
from .stores import NATIVE

Request = Callable[[Worker], object]
REQUESTS: dict[str, Request] = {
    "exchange": lambda worker: worker.take(1),
    "report": lambda worker: worker.report(),
    "renew": lambda worker: worker.renew(),
}


@pytest.fixture(params=REQUESTS)
def request_(request: pytest.FixtureRequest) -> Request:
    return REQUESTS[request.param]


# -- open --


def test_open_answers_with_the_stores_time(store: Store, clock: ManualClock) -> None:
    clock.advance(5)
    assert Worker(store, clock, opened=False).open() == clock.now()


def test_opening_an_open_session_again_changes_nothing(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    lease = worker.take_one()
    clock.advance(TIMEOUT - 1)
    worker.open()
    assert worker.settle(lease) is Verdict.OK
    worker.take_one()
    clock.advance(TIMEOUT - 1)
    worker.open()
    clock.advance(1)
    with pytest.raises(SessionGone):  # opening again does not count as being seen
        worker.renew()


def test_opening_an_expired_session_again_does_not_bring_it_back(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT)
    worker.open()
    with pytest.raises(SessionGone):
        worker.renew()


def test_opening_a_closed_session_raises_session_gone(store: Store, worker: Worker) -> None:
    worker.close()
    with pytest.raises(SessionGone):
        worker.open()


def test_a_request_for_an_unknown_session_raises_session_gone(
    store: Store, clock: ManualClock, request_: Request
) -> None:
    put(store, "a")
    with pytest.raises(SessionGone):
        request_(Worker(store, clock, opened=False))
    assert state(store, "a") is State.READY


def test_a_request_for_a_closed_session_raises_session_gone(store: Store, worker: Worker, request_: Request) -> None:
    put(store, "a")
    worker.close()
    with pytest.raises(SessionGone):
        request_(worker)
    assert state(store, "a") is State.READY


def test_a_guard_can_be_taken_and_let_go(store: Store, clock: ManualClock) -> None:
    worker = Worker(store, clock, opened=False)
    guard = store.guard(worker.id)
    assert all(isinstance(descriptor, int) for descriptor in guard.descriptors)
    worker.open()
    worker.renew()
    guard.close()


def test_a_session_whose_guard_is_held_is_left_alone_by_a_sweep(store: Store, clock: ManualClock) -> None:
    worker = Worker(store, clock, opened=False)
    guard = store.guard(worker.id)
    worker.open()
    put(store, "a")
    lease = worker.take_one()
    assert store.run(store.sweep()).sessions_closed == 0
    assert worker.settle(lease) is Verdict.OK
    guard.close()


# -- expiry --


def test_a_session_with_leases_expires_when_its_time_out_has_passed(
    store: Store, worker: Worker, clock: ManualClock, request_: Request
) -> None:
    put(store, "a", "b")
    worker.take_one()
    clock.advance(TIMEOUT)
    before = [look(store, "a"), look(store, "b")]
    with pytest.raises(SessionGone):
        request_(worker)
    assert [look(store, "a"), look(store, "b")] == before


def test_a_session_lives_until_the_last_millisecond_of_its_time_out(
    store: Store, worker: Worker, clock: ManualClock, request_: Request
) -> None:
    put(store, "a", "b")
    worker.take_one()
    for _ in range(3):  # and each request marks it as seen
        clock.advance(TIMEOUT - 1)
        request_(worker)
    clock.advance(TIMEOUT)
    with pytest.raises(SessionGone):
        request_(worker)


def test_a_settle_by_an_expired_session_counts_until_somebody_ends_it(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    """The tokens of its leases are still the last ones. It is not brought back, and takes nothing."""
    put(store, "a", "b", "c")
    a, b = worker.take(2)
    clock.advance(TIMEOUT)
    assert worker.settle(a) is Verdict.OK
    assert worker.exchange([outcome(a)], number=worker.number).verdicts == [Verdict.OK], "the same answer again"
    assert state(store, "a") is State.DONE
    with pytest.raises(SessionGone):
        worker.renew(b)
    with pytest.raises(SessionGone):
        worker.exchange([outcome(b)], worker.asks())
    assert [state(store, job_id) for job_id in "bc"] == [State.RUNNING, State.READY]
    assert store.run(store.sweep()).jobs_returned == 1
    with pytest.raises(SessionGone):
        worker.settle(b)


def test_an_expired_session_that_has_settled_everything_goes_on(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", "b")
    lease = worker.take_one()
    clock.advance(TIMEOUT)
    assert worker.settle(lease) is Verdict.OK
    assert worker.take_one().id == "b"


def test_a_session_that_has_settled_all_its_leases_has_nothing_to_lose(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    worker.run_one()
    clock.advance(TIMEOUT)
    assert store.run(store.sweep()).sessions_closed == 0
    worker.renew()
    put(store, "b")
    worker.run_one()


def test_time_outs_are_on_the_steady_clock(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    clock.jump(10 * TIMEOUT)
    assert store.run(store.sweep()).sessions_closed == 0
    clock.jump(-20 * TIMEOUT)
    clock.advance(TIMEOUT - 1)
    assert worker.settle(lease) is Verdict.OK


def test_each_session_has_its_own_time_out(store: Store, clock: ManualClock) -> None:
    put(store, "a", "b")
    short, long = Worker(store, clock, "short", timeout=100), Worker(store, clock, "long", timeout=200)
    short.take_one()
    long.take_one()
    clock.advance(100)
    with pytest.raises(SessionGone):
        short.renew()
    long.renew()


def test_a_stale_request_does_not_count_as_being_seen(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT - 1)
    with pytest.raises(StaleRequest):
        worker.exchange(number=worker.number - 1)
    clock.advance(1)
    with pytest.raises(SessionGone):
        worker.renew()


# -- spare leases --


def test_started_spare_leases_are_no_longer_spare(store: Store, worker: Worker) -> None:
    put(store, *"abc")
    _, b, c = worker.take(1, 2)
    worker.exchange(started=[b.ref])
    worker.renew(started=[c.ref])
    worker.close(crashed=None)
    assert [look(store, i).crashes for i in "abc"] == [1, 1, 1]


def test_naming_leases_that_are_not_held_as_started_changes_nothing(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    (lease,) = worker.take(0, 1)
    other = Worker(store, clock, "other")
    other.exchange(started=[lease.ref])
    other.renew(started=[lease.ref])
    worker.close(crashed=None)
    assert look(store, "a").crashes == 0


# -- close --


def test_closing_gives_back_all_leases_uncharged(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c")
    due = clock.now()
    worker.take(1, 1)
    clock.advance(5)
    assert sorted(worker.close()) == ["a", "b"]
    for job in (look(store, "a"), look(store, "b")):
        assert (job.state, job.due, job.attempts, job.crashes) == (State.READY, due, 0, 0)


def test_closing_adds_one_to_the_tokens(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    worker.close()
    assert look(store, "a").token == 2
    assert Worker(store, clock, "other").take_one().token == 3


def test_closing_charges_a_crash_to_the_leases_named(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c", max_crashes=1)
    a, _, c = worker.take(2, 1)
    assert sorted(worker.close(crashed=[a.ref, c.ref])) == ["a", "b", "c"]
    assert [look(store, i).crashes for i in "abc"] == [1, 0, 1]
    assert [state(store, i) for i in "abc"] == [State.FAILED, State.READY, State.FAILED]
    assert look(store, "a").group == "crashed"


def test_closing_with_nobody_knowing_charges_all_that_are_not_spare(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    worker.take(2, 1)
    worker.close(crashed=None)
    assert [look(store, i).crashes for i in "abc"] == [1, 1, 0]


def test_closing_ignores_crashed_leases_that_are_not_held(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    a = worker.take_one()
    other = Worker(store, clock, "other")
    b = other.take_one()
    worker.settle(a)
    worker.close(crashed=[a.ref, b.ref])
    assert [(state(store, i), look(store, i).crashes) for i in "ab"] == [(State.DONE, 0), (State.RUNNING, 0)]


def test_closing_clears_deferred_since(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, charge=Charge.DEFERRAL)
    worker.take_one()
    worker.close()
    assert look(store, "a").deferred_since is None


def test_closing_twice_answers_with_nothing_and_changes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    worker.close()
    before = look(store, "a")
    assert worker.close(crashed=[lease.ref]) == []
    assert look(store, "a") == before


def test_closing_an_unknown_session_answers_with_nothing(store: Store, clock: ManualClock) -> None:
    assert Worker(store, clock, opened=False).close(crashed=None) == []


def test_closing_leaves_the_leases_of_others_alone(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    worker.take_one()
    other = Worker(store, clock, "other")
    lease = other.take_one()
    worker.close(crashed=None)
    assert other.settle(lease) is Verdict.OK


def test_what_was_given_back_can_be_taken_by_another(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    worker.close(crashed=None)
    lease = Worker(store, clock, "other").take_one()
    assert (lease.id, lease.crashes) == ("a", 1)


def test_an_expired_session_can_be_closed_by_who_knows_what_crashed(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", "b")
    a, _ = worker.take(2)
    clock.advance(TIMEOUT)
    assert sorted(worker.close(crashed=[a.ref])) == ["a", "b"]
    assert [look(store, i).crashes for i in "ab"] == [1, 0]


# -- sweep --


def test_a_sweep_ends_expired_sessions_as_crashed(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc")
    worker.take(2, 1)
    clock.advance(TIMEOUT)
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned, swept.jobs_purged, swept.more) == (1, 3, 0, False)
    assert [look(store, i).crashes for i in "abc"] == [1, 1, 0]
    assert [state(store, i) for i in "abc"] == [State.READY] * 3
    assert [look(store, i).token for i in "abc"] == [2, 2, 2]


def test_a_sweep_leaves_live_sessions_alone(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    clock.advance(TIMEOUT - 1)
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned) == (0, 0)
    assert worker.settle(lease) is Verdict.OK


def test_a_session_that_was_swept_is_closed_for_good(
    store: Store, worker: Worker, clock: ManualClock, request_: Request
) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT)
    store.run(store.sweep())
    with pytest.raises(SessionGone):
        request_(worker)
    with pytest.raises(SessionGone):
        worker.open()
    assert worker.close(crashed=None) == []
    assert look(store, "a").crashes == 1


def test_a_second_sweep_has_nothing_to_do(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.take_one()
    clock.advance(TIMEOUT)
    store.run(store.sweep())
    swept = store.run(store.sweep())
    assert (swept.sessions_closed, swept.jobs_returned, swept.more) == (0, 0, False)
    assert look(store, "a").crashes == 1


def test_sweeping_again_while_there_is_more_ends_all(store: Store, clock: ManualClock) -> None:
    count = 60
    put(store, *(f"job {i}" for i in range(count)))
    for i in range(count):
        Worker(store, clock, f"w{i}").take_one()
    clock.advance(TIMEOUT)
    closed = returned = 0
    more = True
    while more:
        swept = store.run(store.sweep())
        closed, returned, more = closed + swept.sessions_closed, returned + swept.jobs_returned, swept.more
        assert swept.sessions_closed or not more
    assert (closed, returned) == (count, count)


def test_a_zombie_learns_that_its_job_went_to_another(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    lease = worker.take_one()
    clock.advance(TIMEOUT)
    store.run(store.sweep())
    other = Worker(store, clock, "other")
    second = other.take_one()
    with pytest.raises(SessionGone):
        worker.settle(lease, result=b"zombie")
    reborn = Worker(store, clock, "reborn")
    assert reborn.settle(lease, result=b"zombie") is Verdict.STALE
    assert other.settle(second, result=b"other") is Verdict.OK
    assert look(store, "a").result == b"other"


def test_deleting_its_last_job_leaves_a_session_with_nothing_to_lose(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    worker.take_one()
    store.run(store.delete(["a"]))
    assert not exists(store, "a")
    assert worker.close(crashed=None) == []


@pytest.mark.needs(NATIVE)
@pytest.mark.parametrize("number", [100, 101, 201])
@pytest.mark.parametrize("expires", [False, True])
def test_no_lease_of_many_is_left_behind(store: Store, clock: ManualClock, number: int, expires: bool) -> None:
    """Stores take them back in hundreds: one more than that must not be forgotten."""
    names = [f"job {i:03}" for i in range(number)]
    put(store, *names)
    first = Worker(store, clock)
    assert len(first.take(number)) == number
    if expires:
        clock.advance(TIMEOUT + 1)
        while store.run(store.sweep()).more:
            pass
    else:
        assert sorted(first.close()) == names
    second = Worker(store, clock, "second")
    assert sorted(lease.id for lease in second.take(number)) == names
