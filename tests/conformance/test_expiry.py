"""Jobs that fail unless they have started by a moment, or within a time after they are due."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.records import Charge, Expiry, IfFailed, Kind, Lane, State
from headrace.store.contract import Facet, Store
from headrace.store.facets import Edit
from headrace.store.limits import PASSED_IN_A_STEP
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, look, new, outcome, put, state, told, why, woken

SOON = Expiry(after=1_000)
EXPIRED = (State.FAILED, "expired", "It had not started when it expired.")


def sweep(store: Store) -> None:
    while store.run(store.sweep()).more:
        pass


def states(store: Store, *names: str) -> list[State]:
    return [state(store, name) for name in names]


# -- a take --


@pytest.mark.parametrize(("later", "taken"), [(1_000, "ab"), (1_001, "")])
def test_a_job_is_handed_out_until_then_and_not_after(
    store: Store, worker: Worker, clock: ManualClock, later: int, taken: str
) -> None:
    put(store, "a", expires=SOON)
    put(store, "b", expires=Expiry(at=clock.now() + 1_000))
    clock.advance(later)
    assert ids(worker.take(5)) == taken


def test_a_take_fails_what_has_expired_and_goes_on_behind_it(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "c", expires=SOON)
    put(store, "b", "d")
    clock.advance(1_001)
    assert ids(worker.take(1, 1)) == "bd"
    assert why(store, "a") == why(store, "c") == EXPIRED
    job = look(store, "a")
    assert (job.attempts, job.crashes, job.started, job.finished) == (0, 0, None, clock.now())


@pytest.mark.needs(Facet.QUEUES)
@pytest.mark.parametrize("round_robin", [False, True])
def test_so_does_a_take_of_several_queues(store: Store, worker: Worker, clock: ManualClock, round_robin: bool) -> None:
    put(store, "a", "b", queue="q", expires=SOON)
    put(store, "c", "d", queue="r")
    put(store, "e", "f", queue="s")
    clock.advance(1_001)
    taken = ids(worker.take(3, 1, "q", "[rs]", round_robin=round_robin))
    assert taken == ("cedf" if round_robin else "cdef")
    assert states(store, "a", "b") == [State.FAILED] * 2


def test_more_than_one_step_fails_keep_only_their_own_line_waiting(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    many = [f"late {number}" for number in range(PASSED_IN_A_STEP + 50)]
    put(store, *many, expires=SOON)
    put(store, "z")
    put(store, "y", queue="other")
    clock.advance(1_001)
    first = worker.exchange(take=worker.asks(2, 0, "default", "other"))
    assert ids(first.leases) == "y"
    assert first.next_due == clock.now()
    assert ids(worker.take(2)) == "z"
    assert set(states(store, *many)) == {State.FAILED}


def test_what_runs_does_not_expire(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    lease = worker.take_one()
    clock.advance(5_000)
    worker.renew(lease)
    sweep(store)
    assert state(store, "a") is State.RUNNING
    worker.settle(lease)
    assert look(store, "a").expires == SOON


# -- a sweep --


@pytest.mark.needs(Facet.QUEUES)
@pytest.mark.needs(Facet.LANES)
@pytest.mark.needs(Facet.RELATIONS)
def test_a_sweep_fails_them_wherever_they_wait(store: Store, clock: ManualClock) -> None:
    soon = Expiry(at=clock.now() + 1_000)
    put(store, "r", expires=SOON)
    put(store, "s", delay=5_000, expires=soon)
    put(store, "p", queue="paused", expires=SOON)
    store.run(store.pause("paused"))
    put(store, "l", "m", lane=Lane("k", limit=1), expires=SOON)
    put(store, "o", "q", lane=Lane("o", sequence=True), expires=SOON)
    put(store, "b", after=("x", "r"), if_failed=IfFailed.WAIT, expires=soon)
    waiting = "rsplmoqb"
    clock.advance(1_000)
    sweep(store)
    assert State.FAILED not in states(store, *waiting)
    clock.advance(1)
    sweep(store)
    assert [why(store, name) for name in waiting] == [EXPIRED] * len(waiting)


def test_a_sweep_fails_so_many_in_one_step(store: Store, clock: ManualClock) -> None:
    many = [f"late {number}" for number in range(PASSED_IN_A_STEP + 1)]
    put(store, *many, expires=SOON)
    clock.advance(1_001)
    assert store.run(store.sweep()).more
    assert states(store, *many).count(State.READY) == 1
    sweep(store)
    assert set(states(store, *many)) == {State.FAILED}


def test_nothing_remains_of_them(
    store: Store, clock: ManualClock, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    put(store, "a", "b", "c", expires=SOON)
    store.run(store.delete(["a"]))
    clock.advance(1_001)
    sweep(store)
    store.run(store.delete(["b", "c"]))
    assert leftovers(store) == {}


# -- since when a duration counts --


def test_a_duration_counts_from_when_a_job_is_due(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", delay=10_000, expires=SOON)
    put(store, "b", run_at=clock.now() + 10_000, expires=SOON)
    clock.advance(10_900)
    sweep(store)
    assert ids(worker.take(5)) == "ab"


@pytest.mark.needs(Facet.RELATIONS)
def test_a_job_that_waits_for_others_is_not_due(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",), expires=SOON)
    put(store, "c", after=("a",), delay=2_000, expires=SOON)
    clock.advance(60_000)
    sweep(store)
    worker.run_one()
    clock.advance(900)
    assert ids(worker.take(5)) == "b"
    clock.advance(2_101)
    assert ids(worker.take(5)) == ""
    assert why(store, "c") == EXPIRED


@pytest.mark.needs(Facet.EDIT)
def test_another_time_is_another_expiry(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c", expires=SOON)
    put(store, "d")
    store.run(store.edit(["a"], Edit(delay=5_000)))
    store.run(store.edit(["b"], Edit(expires=Expiry(at=clock.now() + 9_000))))
    store.run(store.edit(["d"], Edit(expires=Expiry(after=2_000))))
    clock.advance(1_001)
    sweep(store)
    assert states(store, *"abcd") == [State.SCHEDULED, State.READY, State.FAILED, State.READY]
    clock.advance(1_000)
    sweep(store)
    assert state(store, "d") is State.FAILED
    assert told(store, "d") == ["created", "edited", "failed"]
    clock.advance(4_000)
    assert ids(worker.take(5)) == "b"
    assert why(store, "a") == EXPIRED


@pytest.mark.needs(Facet.LANES)
def test_what_a_lane_makes_of_the_due_time_does_not_count(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", lane=Lane("k", rate=1, per=5_000), expires=SOON)
    assert ids(worker.take(5)) == "a"
    assert look(store, "b").due > clock.now()
    clock.advance(1_001)
    sweep(store)
    assert why(store, "b") == EXPIRED


# -- what has started --


@pytest.mark.parametrize(
    ("kind", "fields", "expires"),
    [
        (Kind.RELEASED, {}, SOON),
        (Kind.AGAIN, {}, SOON),
        (Kind.AGAIN, {"charge": Charge.DEFERRAL}, SOON),
        (Kind.AGAIN, {"charge": Charge.ATTEMPT}, None),
        (Kind.CRASHED, {}, None),
        (Kind.MOVED, {"queue": "default"}, None),
    ],
)
def test_a_run_that_was_charged_has_started(
    store: Store, worker: Worker, clock: ManualClock, kind: Kind, fields: dict[str, object], expires: Expiry | None
) -> None:
    put(store, "a", expires=SOON)
    worker.run_one(kind, **fields)
    assert look(store, "a").expires == expires
    clock.advance(1_001)
    sweep(store)
    assert state(store, "a") is (State.FAILED if expires else State.READY)


@pytest.mark.needs(Facet.RELATIONS)
def test_a_job_that_waited_for_children_has_started(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    lease = worker.take_one()
    put(store, "child")
    worker.settle(lease, Kind.WAITING, after=("child",))
    worker.run_one()
    clock.advance(60_000)
    assert ids(worker.take(5)) == "a"


def test_a_session_that_dies_gives_back_what_still_expires(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", expires=SOON)
    spare = worker.take(1, 1)[1]
    worker.close([spare.ref])
    assert look(store, "a").expires == SOON
    assert look(store, spare.id).expires is None
    clock.advance(1_001)
    sweep(store)
    assert states(store, "a", "b") == [State.FAILED, State.READY]


@pytest.mark.needs(Facet.REVIVE)
def test_a_revived_job_expires_no_more(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    put(store, "b", expires=Expiry(at=clock.now()))
    clock.advance(1_001)
    sweep(store)
    assert store.run(store.revive(["a", "b"])) == [True, True]
    clock.advance(60_000)
    sweep(store)
    assert look(store, "a").expires is None
    assert ids(worker.take(5)) == "ab"


@pytest.mark.needs(Facet.RELATIONS)
def test_a_job_that_comes_back_with_its_parent_still_expires(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",), expires=SOON)
    put(store, "c", after=("a",), expires=Expiry(at=clock.now() + 5_000))
    worker.run_one(Kind.FAILED)
    store.run(store.revive(["a"]))
    clock.advance(5_001)
    sweep(store)
    assert states(store, "b", "c") == [State.BLOCKED, State.FAILED]
    worker.run_one()
    clock.advance(1_001)
    sweep(store)
    assert why(store, "b") == EXPIRED


# -- as any failure --


@pytest.mark.needs(Facet.RELATIONS)
def test_what_comes_after_it_fails_with_it(store: Store, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    put(store, "b", after=("a",))
    put(store, "c", after=("a",), if_failed=IfFailed.RUN)
    clock.advance(1_001)
    sweep(store)
    assert why(store, "b")[:2] == (State.FAILED, "dependency")
    assert state(store, "c") is State.READY
    store.run(store.revive(["a"]))
    assert states(store, "a", "b") == [State.READY, State.BLOCKED]


@pytest.mark.needs(Facet.RELATIONS)
def test_the_exchange_that_fails_it_tells_when_what_comes_after_it_is_due(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", expires=Expiry(after=10))
    put(store, "b", after=("a",), if_failed=IfFailed.RUN, delay=5_000)
    clock.advance(11)
    reply = worker.exchange(take=worker.asks(1))
    assert not reply.leases
    assert reply.next_due == clock.now() + 5_000


@pytest.mark.needs(Facet.LANES)
def test_its_lane_goes_on(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=Lane("k", limit=1), expires=SOON)
    put(store, "b", lane=Lane("k", limit=1))
    clock.advance(1_001)
    assert ids(worker.take(5)) == "b"


@pytest.mark.needs(Facet.STATISTICS)
@pytest.mark.needs(Facet.EVENTS)
def test_statistics_history_and_events(store: Store, clock: ManualClock) -> None:
    cursor = store.run(store.listen())
    put(store, "a", expires=SOON)
    clock.advance(1_001)
    sweep(store)
    assert store.run(store.failures()) == [("expired", 1)]
    assert store.run(store.stats("default", clock.now() // 86_400_000)).failures == 1
    assert [(line.what, line.detail) for line in store.run(store.history("a"))] == [
        ("created", ""),
        ("failed", "expired"),
    ]
    events = store.run(store.events(cursor)).events
    assert [(event.what, event.detail, event.worker) for event in events] == [
        ("created", "", ""),
        ("failed", "expired", ""),
    ]


def test_a_client_that_waits_is_woken(store: Store, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    waiter = store.job_waiter("a")
    waiter.arm()
    clock.advance(1_001)
    sweep(store)
    assert woken(waiter)
    waiter.close()


@pytest.mark.needs(Facet.WHY)
def test_circumstances_tell_when_a_job_expires(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    put(store, "b")
    told_of = [store.run(store.circumstances(name)) for name in "ab"]
    assert [around.expires for around in told_of] == [clock.now() + 1_000, None]
    worker.take_one()
    assert store.run(store.circumstances("a")).expires is None


def test_a_put_that_is_repeated_changes_no_expiry(store: Store, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    clock.advance(500)
    store.run(store.put([new("a", expires=SOON), new("b")]))
    clock.advance(501)
    sweep(store)
    assert states(store, "a", "b") == [State.FAILED, State.READY]


def test_a_repeated_exchange_gets_the_same_leases(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", expires=SOON)
    lease = worker.take_one()
    clock.advance(1_001)
    again = worker.exchange(take=worker.asks(1), number=worker.number)
    assert ids(again.leases) == "a"
    assert worker.exchange([outcome(lease)]).verdicts
