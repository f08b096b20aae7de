"""Jobs that are due later: scheduled, promoted by a take, told by `next_due`."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.records import Kind, Lane, State
from headrace.store.contract import Facet, Store
from headrace.store.facets import Edit
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, look, new, put, state
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.DELAY)


def test_a_delayed_job_is_scheduled(store: Store, clock: ManualClock) -> None:
    put(store, "a", delay=1_000)
    assert (state(store, "a"), look(store, "a").due) == (State.SCHEDULED, clock.now() + 1_000)


def test_a_job_with_a_time_is_scheduled(store: Store, clock: ManualClock) -> None:
    put(store, "a", run_at=clock.now() + 1_000)
    assert (state(store, "a"), look(store, "a").due) == (State.SCHEDULED, clock.now() + 1_000)


@pytest.mark.needs(Trait.MOMENTS, witness=True)
def test_a_job_may_be_due_at_any_millisecond(store: Store, clock: ManualClock) -> None:
    put(store, "a", delay=101)
    assert look(store, "a").due == clock.now() + 101


@pytest.mark.parametrize("ago", [0, 1_000, 100_000])
@pytest.mark.needs(Trait.DUE)
def test_a_job_whose_time_has_come_is_ready_with_that_time(store: Store, clock: ManualClock, ago: int) -> None:
    put(store, "a", run_at=clock.now() - ago)
    assert (state(store, "a"), look(store, "a").due) == (State.READY, clock.now() - ago)


def test_no_delay_at_all_is_now(store: Store, clock: ManualClock) -> None:
    put(store, "a", delay=0)
    assert (state(store, "a"), look(store, "a").due) == (State.READY, clock.now())


def test_a_job_is_not_handed_out_before_it_is_due_and_is_when_it_is(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", delay=1_000)
    clock.advance(999)
    assert worker.take(1) == []
    clock.advance(1)
    assert ids(worker.take(1)) == "a"


@pytest.mark.needs(Trait.PROMOTION)
def test_a_take_promotes_what_is_due_in_every_queue(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", delay=1_000)
    put(store, "x", delay=1_000, queue="other")
    put(store, "y", delay=2_000, queue="other")
    clock.advance(1_000)
    worker.take(1)
    assert [state(store, i) for i in "abxy"] == [
        State.RUNNING,
        State.READY,
        State.READY,
        State.SCHEDULED,
    ]


@pytest.mark.needs(Trait.PROMOTION, witness=True)
def test_an_exchange_that_takes_nothing_promotes_nothing(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", delay=1_000)
    clock.advance(1_000)
    assert worker.exchange().next_due == clock.now()
    assert state(store, "a") is State.SCHEDULED


@pytest.mark.needs(Trait.PROMOTION)
def test_a_take_promotes_at_most_a_thousand(store: Store, worker: Worker, clock: ManualClock) -> None:
    store.run(store.put([new(f"job {i}", delay=i + 1) for i in range(1_003)]))
    clock.advance(2_000)
    assert worker.take_one().id == "job 0"
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.RUNNING: 1, State.READY: 999, State.SCHEDULED: 3}
    worker.take_one()
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.RUNNING: 2, State.READY: 1_001}


@pytest.mark.needs(Trait.PROMOTION)
def test_next_due_is_the_earliest_scheduled_job_of_whatever_queue(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    assert worker.exchange(take=worker.asks()).next_due is None
    put(store, "a", delay=3_000)
    assert worker.exchange(take=worker.asks()).next_due == clock.now() + 3_000
    put(store, "b", delay=2_000, queue="other")
    assert worker.exchange(take=worker.asks()).next_due == clock.now() + 2_000
    assert worker.exchange().next_due == clock.now() + 2_000


@pytest.mark.needs(Trait.PROMOTION)
def test_next_due_leaves_out_what_was_promoted_and_what_is_gone(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", "b", delay=1_000)
    put(store, "c", delay=2_000)
    put(store, "d", delay=3_000)
    store.run(store.cancel(["c"]))
    clock.advance(1_000)
    assert worker.exchange(take=worker.asks(1)).next_due == clock.now() + 2_000
    store.run(store.delete(["d"]))
    assert worker.exchange(take=worker.asks(0)).next_due is None


def test_again_with_a_delay_is_scheduled(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, delay=1_000)
    assert (state(store, "a"), look(store, "a").due) == (State.SCHEDULED, clock.now() + 1_000)
    assert worker.take(1) == []
    clock.advance(1_000)
    assert ids(worker.take(1)) == "a"


def test_again_at_a_time_is_scheduled_or_ready_if_it_has_come(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    worker.run_one(Kind.AGAIN, at=clock.now() + 1_000)
    worker.run_one(Kind.AGAIN, at=clock.now())
    assert [(state(store, i), look(store, i).due - clock.now()) for i in "ab"] == [
        (State.SCHEDULED, 1_000),
        (State.READY, 0),
    ]


def test_a_time_counts_more_than_a_delay(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    worker.run_one(Kind.AGAIN, at=clock.now() + 1_000, delay=5_000)
    assert look(store, "a").due == clock.now() + 1_000


@pytest.mark.parametrize("how", [{"delay": 1_000}, {"at": 1_700_000_001_000}])
@pytest.mark.needs(Facet.MOVE)
def test_moved_may_be_delayed(store: Store, worker: Worker, clock: ManualClock, how: dict[str, int]) -> None:
    assert clock.now() == 1_700_000_000_000
    put(store, "a")
    worker.run_one(Kind.MOVED, queue="next", **how)
    assert (state(store, "a"), look(store, "a").due) == (State.SCHEDULED, clock.now() + 1_000)
    clock.advance(1_000)
    assert ids(worker.take(1, 0, "next")) == "a"


@pytest.mark.needs(Trait.DUE)
def test_a_promoted_job_keeps_its_due_time_when_given_back(store: Store, worker: Worker, clock: ManualClock) -> None:
    due = clock.now() + 1_000
    put(store, "a", delay=1_000)
    clock.advance(1_500)
    worker.take_one()
    worker.close(crashed=None)
    assert (state(store, "a"), look(store, "a").due) == (State.READY, due)


def test_due_times_are_on_the_wall_clock_even_when_it_jumps(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", delay=1_000)
    clock.jump(-5_000)
    clock.advance(1_000)
    assert worker.take(1) == []
    clock.jump(5_000)
    assert ids(worker.take(1)) == "a"


@pytest.mark.needs(Trait.PROMOTION)
def test_a_job_once_promoted_stays_ready_when_the_wall_clock_is_set_back(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", "b", delay=1_000)
    clock.advance(1_000)
    worker.take(1)
    clock.jump(-5_000)
    assert ids(worker.take(1)) == "b"


@pytest.mark.parametrize("act", ["edit", "depend", "block"])
@pytest.mark.parametrize("lane", [None, Lane("k", 1)], ids=["plain", "lane"])
@pytest.mark.needs(Facet.BLOCKS)
def test_a_job_that_was_due_stays_so_when_it_leaves_its_place_after_the_wall_clock_was_set_back(
    store: Any, worker: Worker, clock: ManualClock, act: str, lane: Lane | None
) -> None:
    put(store, "parent", queue="other")
    put(store, "a", lane=lane)
    clock.jump(-3_600_000)
    if act == "edit":
        store.run(store.edit(["a"], Edit(priority=1)))
    elif act == "depend":
        store.run(store.depend("a", add=["parent"]))
        assert state(store, "a") is State.BLOCKED
        store.run(store.edit(["a"], Edit(priority=1)))
        store.run(store.depend("a", remove=["parent"]))
    else:
        store.run(store.block("task", "why", "me"))
        assert worker.take(1) == []
        store.run(store.unblock("task"))
    assert state(store, "a") is State.READY
    assert worker.run_one().id == "a"


@pytest.mark.needs(Facet.BLOCKS)
def test_a_job_put_for_later_keeps_its_time_while_it_waits_for_others(
    store: Any, worker: Worker, clock: ManualClock
) -> None:
    put(store, "parent", queue="other")
    at = clock.now() + 5_000
    put(store, "a", run_at=at, after=("parent",))
    put(store, "b", run_at=at)
    store.run(store.depend("b", add=["parent"]))
    for name in "ab":
        store.run(store.edit([name], Edit(priority=1)))
        store.run(store.depend(name, remove=["parent"]))
        assert (state(store, name), look(store, name).due) == (State.SCHEDULED, at)
