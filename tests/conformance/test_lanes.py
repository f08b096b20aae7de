"""Jobs that share a key: turns, limits, sequences."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from headrace.errors import ConfigurationError
from headrace.records import Charge, Kind, Lane, State, Verdict
from headrace.store.contract import Facet, Store
from headrace.store.facets import Edit
from headrace.store.lanes import LaneSnapshot
from headrace.values.clock import ManualClock

from .helpers import TIMEOUT, Worker, exists, ids, look, new, outcome, put, state

pytestmark = pytest.mark.needs(Facet.LANES)

FAIR = Lane("k")
ONE = Lane("k", limit=1)
TWO = Lane("k", limit=2)
ORDER = Lane("k", sequence=True)
HOUR = 3_600_000


def states(store: Store, names: str) -> list[State]:
    return [state(store, name) for name in names]


def lane(store: Store, key: str = "k", queue: str = "default") -> LaneSnapshot:
    found = store.run(store.lane(queue, key))
    assert found is not None
    return found


# -- turns --


def test_a_lane_with_no_rules_takes_turns_with_others(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c", lane=Lane("1"))
    clock.advance(5)
    put(store, "x", "y", lane=Lane("2"))
    clock.advance(5)
    assert ids(worker.take(9)) == "axbyc"


def test_only_the_front_stands_in_line(store: Store) -> None:
    put(store, "a", "b", "c", lane=FAIR)
    assert states(store, "abc") == [State.READY, State.BLOCKED, State.BLOCKED]
    assert look(store, "b").lane == FAIR
    assert lane(store) == LaneSnapshot(queue="default", lane=Lane("k", weight=1), front="a", blocked=2)


def test_the_next_one_stands_behind_those_who_are_there(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", lane=FAIR)
    clock.advance(5)
    put(store, "x", "y")
    clock.advance(5)
    assert ids(worker.take(1)) == "a"
    assert (state(store, "b"), look(store, "b").due) == (State.READY, clock.now() + 1)
    clock.advance(5)
    assert ids(worker.take(9)) == "xyb"


def test_one_exchange_may_hand_out_several_of_a_lane(store: Store, worker: Worker) -> None:
    put(store, *"abcd", lane=TWO)
    assert ids(worker.take(9)) == "ab"
    assert lane(store).running == ("a", "b")


def test_a_lanes_own_line_is_ordered_by_priority_due_and_arrival(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", lane=ONE)
    clock.advance(5)
    put(store, "b", lane=ONE)
    put(store, "c", lane=ONE, run_at=clock.now() - 100)
    put(store, "d", lane=ONE)
    put(store, "e", lane=ONE, priority=1)
    assert "".join(worker.run_one().id for _ in range(5)) == "aecbd"


def test_the_same_key_in_another_queue_is_another_lane(store: Store, worker: Worker) -> None:
    put(store, "a", lane=ONE)
    put(store, "b", lane=ONE, queue="other")
    assert ids(worker.take(9, 0, "default", "other")) == "ab"


def test_jobs_of_a_lane_are_never_spare(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=FAIR)
    clock.advance(1)
    put(store, "b")
    assert worker.take(0, 5) == []
    put(store, "c", queue="other")
    assert [(lease.id, lease.spare) for lease in worker.take(0, 5, "default", "other")] == [("c", True)]
    assert [(lease.id, lease.spare) for lease in worker.take(1, 5)] == [("a", False), ("b", True)]


def test_lanes_and_plain_jobs_share_a_line_and_round_robin(store: Store, worker: Worker) -> None:
    put(store, "a", "b", lane=FAIR, queue="q")
    put(store, "c", "d", queue="r")
    assert ids(worker.take(9, 0, "q", "r", round_robin=True)) == "acbd"


def test_a_repeated_take_answers_the_same_leases(store: Store, worker: Worker) -> None:
    put(store, "a", "b", lane=FAIR)
    take = worker.asks(9)
    first = worker.exchange(take=take)
    again = worker.exchange(take=take, number=worker.number)
    assert sorted(ids(first.leases)) == sorted(ids(again.leases)) == ["a", "b"]


# -- limits --


@pytest.mark.parametrize(
    "kind", [Kind.DONE, Kind.FAILED, Kind.BROKEN, Kind.RELEASED, Kind.CRASHED, Kind.AGAIN, Kind.MOVED]
)
def test_every_outcome_makes_room(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a", "b", lane=ONE)
    lease = worker.take_one()
    assert worker.take(1) == []
    assert worker.settle(lease, kind, queue="other" if kind is Kind.MOVED else None, delay=9) is Verdict.OK
    assert len(worker.take(9)) == 1


def test_delete_of_a_running_job_makes_room(store: Store, worker: Worker) -> None:
    put(store, "a", "b", lane=ONE)
    worker.take_one()
    store.run(store.delete(["a"]))
    assert ids(worker.take(9)) == "b"


@pytest.mark.parametrize("closed", [True, False])
def test_a_dead_session_makes_room(store: Store, worker: Worker, clock: ManualClock, closed: bool) -> None:
    put(store, "a", "b", "c", lane=TWO, max_crashes=1)
    worker.take(2)
    if closed:
        worker.close(None)
    else:
        clock.advance(TIMEOUT)
        store.run(store.sweep())
    other = Worker(store, clock, "other")
    assert ids(other.take(9)) == "c"
    assert states(store, "ab") == [State.FAILED] * 2


def test_cancel_and_delete_of_the_front_let_the_next_one_through(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c", lane=ONE)
    store.run(store.cancel(["a"]))
    assert states(store, "bc") == [State.READY, State.BLOCKED]
    store.run(store.delete(["b"]))
    assert state(store, "c") is State.READY


def test_cancel_and_delete_of_blocked_ones_change_nothing_else(store: Store, worker: Worker) -> None:
    put(store, *"abcd", lane=ONE)
    store.run(store.cancel(["b"]))
    store.run(store.delete(["c"]))
    assert lane(store).blocked == 1
    assert "".join(worker.run_one().id for _ in range(2)) == "ad"


def test_a_retry_with_a_delay_waits_outside(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c", lane=ONE)
    worker.run_one(Kind.AGAIN, delay=1_000, charge=Charge.ATTEMPT)
    assert states(store, "abc") == [State.SCHEDULED, State.READY, State.BLOCKED]
    clock.advance(1_000)
    assert ids(worker.take(9)) == "b"
    assert states(store, "abc") == [State.BLOCKED, State.RUNNING, State.BLOCKED]


def test_a_scheduled_job_enters_its_lane_when_it_falls_due(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=ONE, delay=1_000)
    assert state(store, "a") is State.SCHEDULED
    put(store, "b", "c", lane=ONE)
    assert states(store, "bc") == [State.READY, State.BLOCKED]
    clock.advance(1_000)
    worker.take(1)
    assert states(store, "abc") == [State.BLOCKED, State.RUNNING, State.BLOCKED]


def test_a_released_job_goes_back_into_its_lanes_line(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c", lane=TWO, priority=1)
    a, b = worker.take(9)
    assert worker.settle(b, Kind.RELEASED) is Verdict.OK
    front = lane(store).front
    assert [state(store, i) for i in "bc"].count(State.READY) == 1
    assert ids(worker.take(9)) == front
    assert worker.settle(a) is Verdict.OK
    assert len(worker.take(9)) == 1


def test_a_revived_job_goes_through_its_lane(store: Store, worker: Worker) -> None:
    put(store, "a", "b", lane=ONE)
    store.run(store.cancel(["a"]))
    worker.take_one()
    store.run(store.revive(["a"]))
    assert state(store, "a") is State.BLOCKED


@pytest.mark.needs(Facet.RELATIONS)
def test_a_job_that_waited_for_another_then_waits_for_its_turn(store: Store, worker: Worker) -> None:
    put(store, "a")
    put(store, "b", lane=ONE, after=("a",))
    put(store, "c", lane=ONE)
    assert states(store, "bc") == [State.BLOCKED, State.READY]
    a, _ = worker.take(2)
    worker.settle(a)
    assert state(store, "b") is State.BLOCKED
    assert lane(store).blocked == 1


@pytest.mark.needs(Facet.RELATIONS)
def test_a_job_that_waits_for_children_makes_room(store: Store, worker: Worker) -> None:
    put(store, "a", "b", lane=ONE)
    lease = worker.take_one()
    put(store, "x")
    worker.settle(lease, Kind.WAITING, after=("x",))
    assert sorted(ids(worker.take(9))) == ["b", "x"]


# -- a lane is what the newest put says that says something: see test_lane_rules --


def test_raising_the_limit_lets_more_through(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c", lane=ONE)
    worker.take(9)
    put(store, "d", lane=TWO, delay=1_000)
    assert ids(worker.take(9)) == "b"
    assert lane(store).lane == replace(TWO, weight=1)


def test_lowering_the_limit_holds_back_who_stood_in_line(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c", lane=TWO)
    worker.take(1)
    assert state(store, "b") is State.READY
    put(store, "d", lane=ONE)
    assert states(store, "bcd") == [State.BLOCKED] * 3
    assert worker.take(9) == []


def test_a_lane_is_a_sequence_or_not_as_long_as_it_has_jobs(store: Store, worker: Worker) -> None:
    put(store, "a", lane=ONE)
    with pytest.raises(ConfigurationError):
        store.run(store.put([new("x"), new("b", lane=ORDER)]))
    with pytest.raises(ConfigurationError):
        store.run(store.put([new("x", lane=Lane("l")), new("b", lane=Lane("l", sequence=True))]))
    assert not exists(store, "x")
    worker.run_one()
    put(store, "b", lane=ORDER)
    assert lane(store).lane.sequence


@pytest.mark.parametrize(
    "wrong",
    [
        *(Lane(""), Lane("k", limit=-1), Lane("k", rate=-1), Lane("k", rate=10_001), Lane("k", rate=1, per=0)),
        *(Lane("k", per=0), Lane("k", rate=0, per=0), Lane("k", weight=0), Lane("k", weight=1_001)),
    ],
    ids=str,
)
def test_a_lane_that_makes_no_sense_is_refused(store: Store, wrong: Lane) -> None:
    with pytest.raises(ConfigurationError):
        store.run(store.put([new("x"), new("a", lane=wrong)]))
    assert not exists(store, "x")


# -- sequences --


def test_a_sequence_is_done_one_by_one_in_the_order_of_puts(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=ORDER)
    put(store, "b", lane=ORDER, priority=5, run_at=clock.now() - 5_000)
    put(store, "c", lane=ORDER, priority=9)
    assert states(store, "abc") == [State.READY, State.BLOCKED, State.BLOCKED]
    a = worker.take(9)
    assert ids(a) == "a"
    assert worker.take(9) == []
    worker.settle(a[0])
    assert "".join(worker.run_one().id for _ in range(2)) == "bc"


def test_a_scheduled_one_holds_up_a_sequence(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=ORDER, delay=1_000)
    put(store, "b", lane=ORDER)
    put(store, "c", lane=ORDER, delay=9_000)
    assert states(store, "abc") == [State.SCHEDULED, State.BLOCKED, State.BLOCKED]
    assert worker.take(9) == []
    assert lane(store) == LaneSnapshot(
        queue="default", lane=replace(ORDER, weight=1), running=("a",), runs=1, blocked=2
    )
    clock.advance(1_000)
    worker.run_one()
    worker.run_one()
    assert (state(store, "c"), look(store, "c").due) == (State.SCHEDULED, clock.now() + 8_000)


@pytest.mark.parametrize("kind", [Kind.AGAIN, Kind.RELEASED, Kind.CRASHED])
def test_a_job_of_a_sequence_keeps_its_turn(store: Store, worker: Worker, clock: ManualClock, kind: Kind) -> None:
    put(store, "a", "b", lane=ORDER)
    worker.run_one(kind, delay=1_000)
    assert state(store, "b") is State.BLOCKED
    clock.advance(1_000)
    assert ids(worker.take(9)) == "a"


@pytest.mark.parametrize("end", ["done", "failed", "cancel", "delete", "moved"])
def test_every_end_passes_the_turn_on(store: Store, worker: Worker, end: str) -> None:
    put(store, "a", "b", "c", lane=ORDER)
    if end in ("cancel", "delete"):
        store.run(getattr(store, end)(["a"]))
    else:
        kind = {"done": Kind.DONE, "failed": Kind.FAILED, "moved": Kind.MOVED}[end]
        worker.run_one(kind, queue="other" if end == "moved" else None)
    assert states(store, "bc") == [State.READY, State.BLOCKED]


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_sequence_put_for_now_goes_on_after_the_wall_clock_was_set_right(
    store: Store, worker: Worker, clock: ManualClock, in_one_batch: bool
) -> None:
    clock.jump(HOUR)
    for names in ("abc",) if in_one_batch else "abc":
        put(store, *names, lane=ORDER)
    clock.jump(-HOUR)
    assert [worker.run_one().id for _ in "abc"] == ["a", "b", "c"]


def test_a_job_of_a_sequence_put_for_later_waits_for_its_time_by_any_clock(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    clock.jump(HOUR)
    put(store, "a", lane=ORDER)
    put(store, "b", lane=ORDER, delay=1_000)
    put(store, "c", lane=ORDER)
    clock.jump(-HOUR)
    worker.run_one()
    assert (state(store, "b"), look(store, "b").due) == (State.SCHEDULED, clock.now() + HOUR + 1_000)
    assert worker.take(5) == []
    clock.advance(HOUR + 1_000)
    assert [worker.run_one().id for _ in "bc"] == ["b", "c"]


def test_a_job_of_a_sequence_whose_time_came_while_it_waited_is_not_put_off_again(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", lane=ORDER)
    put(store, "b", lane=ORDER, delay=1_000)
    lease = worker.take_one()
    clock.advance(1_000)
    worker.settle(lease)
    assert state(store, "b") is State.READY
    clock.jump(-HOUR)
    store.run(store.edit(["b"], Edit(priority=1)))
    assert worker.run_one().id == "b"


def test_a_revived_job_joins_its_sequence_by_arrival(store: Store, worker: Worker) -> None:
    put(store, *"abcd", lane=ORDER)
    worker.run_one(Kind.FAILED)
    store.run(store.cancel(["c"]))
    store.run(store.revive(["c", "a"]))
    assert states(store, "abcd") == [State.BLOCKED, State.READY, State.BLOCKED, State.BLOCKED]
    assert "".join(worker.run_one().id for _ in range(4)) == "bacd"


def test_a_job_of_a_schedule_can_not_stand_in_a_sequence(store: Store) -> None:
    with pytest.raises(ConfigurationError):
        put(store, "a", lane=ORDER, schedule="s")
    assert not exists(store, "a")


# -- moving --


def test_a_moved_job_is_in_the_lane_of_its_new_queue(store: Store, worker: Worker) -> None:
    put(store, "x", lane=ONE, queue="other")
    put(store, "a", "b", lane=ONE)
    worker.run_one(Kind.MOVED, queue="other")
    assert (state(store, "a"), look(store, "a").queue, look(store, "a").lane) == (State.BLOCKED, "other", ONE)
    assert state(store, "b") is State.READY
    assert lane(store, queue="other").blocked == 1


# -- nothing remains --


def test_an_empty_lane_is_forgotten(store: Store, worker: Worker, leftovers: Callable[[Store], dict[str, int]]) -> None:
    put(store, "a", "b", "c", lane=TWO)
    worker.take(2)
    store.run(store.delete(["a", "b", "c"]))
    assert store.run(store.lane("default", "k")) is None
    assert leftovers(store) == {}


def test_a_lane_whose_jobs_have_ended_is_forgotten(store: Store, worker: Worker) -> None:
    put(store, "a", lane=ONE)
    assert lane(store).front == "a"
    worker.run_one()
    assert store.run(store.lane("default", "k")) is None
    assert look(store, "a").lane == ONE


def test_settling_many_at_once(store: Store, worker: Worker) -> None:
    put(store, *"ab", lane=TWO)
    put(store, *"xyz")
    put(store, *"cd", lane=TWO)
    leases = worker.take(9)
    assert sorted(ids(leases)) == list("abxyz")
    turn = worker.exchange([outcome(lease) for lease in leases], worker.asks(9))
    assert turn.verdicts == [Verdict.OK] * 5
    assert ids(turn.leases) == "cd"
