"""Queues that are paused or limited, and patterns that stand for queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.errors import ConfigurationError, NoWorkers
from headrace.records import Kind, Lane, State, Verdict
from headrace.store.contract import Facet, Store, Waiter
from headrace.store.facets import QueueControl
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, ids, look, new, put, state, woken
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.QUEUES)


def pause(store: Store, queue: str, by: str = "") -> bool:
    return store.run(store.pause(queue, by))


# -- pausing --


def test_nothing_is_handed_out_from_a_paused_queue(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", queue="other")
    assert pause(store, "default", "me")
    assert ids(worker.take(9, 9, "default", "other")) == "b"
    assert ids(worker.take(9, 9, "default", "other", round_robin=True)) == ""
    assert store.run(store.resume("default"))
    assert ids(worker.take(9)) == "a"


@pytest.mark.needs(Trait.PAUSED_BY, witness=True)
def test_who_paused_a_queue_and_when(store: Store, clock: ManualClock) -> None:
    assert store.run(store.controls()) == []
    pause(store, "q", "me")
    at = clock.now()
    clock.advance(5)
    assert not pause(store, "q", "you")
    pause(store, "p")
    assert store.run(store.controls()) == [
        QueueControl(queue="p", paused_by="", paused_at=at + 5),
        QueueControl(queue="q", paused_by="me", paused_at=at),
    ]
    assert store.run(store.resume("q"))
    assert not store.run(store.resume("q"))
    assert not store.run(store.resume("never paused"))
    assert [control.queue for control in store.run(store.controls())] == ["p"]


def test_what_runs_goes_on_in_a_paused_queue(store: Store, worker: Worker) -> None:
    put(store, "a")
    lease = worker.take_one()
    pause(store, "default")
    assert worker.settle(lease) is Verdict.OK


@pytest.mark.needs(Trait.PROMOTION)
def test_scheduled_jobs_of_a_paused_queue_fall_due(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", delay=100)
    pause(store, "default")
    clock.advance(100)
    assert worker.take(9) == []
    assert state(store, "a") is State.READY


# -- limits --


def test_a_queue_hands_out_while_fewer_than_its_limit_run(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abcde")
    store.run(store.limit("default", 2))
    other = Worker(store, clock, "other")
    a, _ = worker.take(9, 9)
    assert other.take(9, 9) == []
    worker.settle(a)
    assert ids(other.take(9)) == "c"
    assert store.run(store.controls()) == [QueueControl(queue="default", limit=2)]
    store.run(store.limit("default", None))
    assert ids(other.take(9)) == "de"
    assert store.run(store.controls()) == []


def test_nothing_of_a_limited_queue_is_spare(store: Store, worker: Worker) -> None:
    put(store, *"abc")
    store.run(store.limit("default", 2))
    put(store, "x", queue="other")
    leases = worker.take(1, 9, "default", "other")
    assert [(lease.id, lease.spare) for lease in leases] == [("a", False), ("x", True)]


def test_limits_hold_in_round_robin(store: Store, worker: Worker) -> None:
    put(store, *"abc")
    put(store, *"xyz", queue="other")
    store.run(store.limit("default", 1))
    assert ids(worker.take(3, 9, "default", "other", round_robin=True)) == "axyz"


def test_lowering_a_limit_leaves_alone_what_runs(store: Store, worker: Worker) -> None:
    put(store, *"abc")
    a, b = worker.take(2)
    store.run(store.limit("default", 1))
    worker.settle(a)
    assert worker.take(9) == []
    worker.settle(b)
    assert ids(worker.take(9)) == "c"


@pytest.mark.parametrize("way", ["again", "delete", "close", "expire", "moved"])
def test_every_way_out_makes_room(store: Store, worker: Worker, clock: ManualClock, way: str) -> None:
    put(store, "a", "b", max_crashes=1)
    store.run(store.limit("default", 1))
    lease = worker.take_one()
    other = Worker(store, clock, "other")
    assert other.take(9) == []
    if way == "again":
        worker.settle(lease, Kind.AGAIN, delay=1_000)
    elif way == "moved":
        worker.settle(lease, Kind.MOVED, queue="elsewhere")
    elif way == "delete":
        store.run(store.delete(["a"]))
    elif way == "close":
        worker.close(None)
    else:
        clock.advance(TIMEOUT)
        store.run(store.sweep())
    assert ids(other.take(9)) == "b"


@pytest.mark.needs(Facet.LANES)
def test_a_limit_and_lanes(store: Store, worker: Worker) -> None:
    put(store, "a", "b", lane=Lane("1"))
    put(store, "x", "y", lane=Lane("2"))
    store.run(store.limit("default", 3))
    assert ids(worker.take(9)) == "axb"


@pytest.mark.needs(Trait.PAUSED_BY)
def test_a_queue_may_be_paused_and_limited(store: Store, clock: ManualClock) -> None:
    pause(store, "q", "me")
    store.run(store.limit("q", 3))
    (control,) = store.run(store.controls())
    assert control == QueueControl(queue="q", limit=3, paused_by="me", paused_at=clock.now())
    store.run(store.resume("q"))
    assert store.run(store.controls()) == [QueueControl(queue="q", limit=3)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_stops_a_queue_is_refused(store: Store, limit: int) -> None:
    with pytest.raises(ConfigurationError):
        store.run(store.limit("q", limit))
    assert store.run(store.controls()) == []


# -- patterns --


@pytest.mark.needs(Trait.PUT_ORDER)
def test_a_pattern_stands_for_the_queues_that_match(store: Store, worker: Worker) -> None:
    for name, queue in zip("abcde", ("mail-b", "mail-a", "mail", "post", "mail-a"), strict=True):
        put(store, name, queue=queue)
    assert ids(worker.take(9, 0, "post", "mail-*", "*")) == "dbeac"


def test_a_pattern_in_its_place_and_each_name_once(store: Store, worker: Worker) -> None:
    for queue in "abc":
        put(store, f"{queue}1", f"{queue}2", queue=queue)
    leases = worker.take(4, 0, "c", "[abc]", "c", round_robin=True)
    assert [lease.id for lease in leases] == ["c1", "a1", "b1", "c2"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("q?", ["q1", "q2", "qx"]),
        ("q[0-9]", ["q1", "q2"]),
        ("q[^0-9]", ["qx"]),
        ("*x", ["qx"]),
        ("Q*", []),
        ("q", ["q"]),
        ("q.*", []),
        ("q[1", []),
        ("q[]-z]", []),
    ],
)
def test_what_a_pattern_matches(store: Store, worker: Worker, pattern: str, matched: list[str]) -> None:
    for queue in ("q", "q1", "q2", "qx", "r"):
        put(store, f"job of {queue}", queue=queue)
    assert [lease.queue for lease in worker.take(9, 0, pattern)] == matched


def test_a_scheduled_job_is_found_by_a_pattern_when_it_falls_due(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", queue="mail", delay=100)
    assert worker.take(9, 0, "m*") == []
    clock.advance(100)
    assert ids(worker.take(9, 0, "m*")) == "a"


def test_a_paused_queue_is_not_found_by_a_pattern(store: Store, worker: Worker) -> None:
    put(store, "a", queue="mail")
    put(store, "b", queue="main")
    pause(store, "mail")
    assert ids(worker.take(9, 0, "m*")) == "b"


@pytest.mark.needs(Facet.ROLL_CALL)
def test_a_session_with_a_pattern_answers_the_roll_call(store: Store, clock: ManualClock) -> None:
    Worker(store, clock, "w", "mail-*")
    put(store, "a", queue="mail-out", require_worker=True)
    with pytest.raises(NoWorkers):
        put(store, "b", queue="post", require_worker=True)


# -- news --


@pytest.fixture
def sleeper(store: Store, clock: ManualClock) -> Worker:
    return Worker(store, clock, "sleeper")


@pytest.fixture
def ear(store: Store, sleeper: Worker) -> Iterator[Waiter]:
    with closing(store.waiter(sleeper.id, ("default",))) as waiter:
        yield waiter


def look_in_vain(ear: Waiter, sleeper: Worker, *queues: str) -> None:
    """Arm, look, and there is nothing: all that is left is to wait."""
    ear.arm()
    assert sleeper.take(1, 0, *queues) == []


def test_resuming_a_queue_is_news(store: Store, sleeper: Worker, ear: Waiter) -> None:
    put(store, "a")
    pause(store, "default")
    look_in_vain(ear, sleeper)
    store.run(store.resume("default"))
    assert woken(ear)


def test_raising_a_limit_is_news(store: Store, worker: Worker, sleeper: Worker, ear: Waiter) -> None:
    put(store, "a", "b")
    store.run(store.limit("default", 1))
    worker.take_one()
    look_in_vain(ear, sleeper)
    store.run(store.limit("default", 2))
    assert woken(ear)


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED])
def test_settling_in_a_limited_queue_is_news(
    store: Store, worker: Worker, sleeper: Worker, ear: Waiter, kind: Kind
) -> None:
    put(store, "a", "b")
    store.run(store.limit("default", 1))
    lease = worker.take_one()
    look_in_vain(ear, sleeper)
    worker.settle(lease, kind)
    assert woken(ear)


@pytest.mark.needs(Facet.LANES)
def test_the_next_of_a_lane_is_news(store: Store, worker: Worker, sleeper: Worker, ear: Waiter) -> None:
    store.run(store.put([new("a", lane=Lane("k", limit=1)), new("b", lane=Lane("k", limit=1))]))
    lease = worker.take_one()
    look_in_vain(ear, sleeper)
    worker.settle(lease)
    assert woken(ear)


@pytest.mark.needs(Facet.RELATIONS)
def test_a_released_dependent_is_news(store: Store, worker: Worker, sleeper: Worker, ear: Waiter) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    lease = worker.take_one()
    look_in_vain(ear, sleeper)
    worker.settle(lease)
    assert woken(ear)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="plain"),
        pytest.param({"unique_key": "k"}, id="unique", marks=pytest.mark.needs(Facet.UNIQUE)),
    ],
)
def test_work_in_a_queue_that_matches_is_news(store: Store, sleeper: Worker, fields: dict[str, str]) -> None:
    with closing(store.waiter(sleeper.id, ("mail-*",))) as waiter:
        look_in_vain(waiter, sleeper, "mail-*")
        put(store, "a", queue="mail-out", **fields)
        assert woken(waiter)
    assert look(store, "a").state is State.READY
