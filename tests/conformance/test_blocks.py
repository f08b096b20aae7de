"""Tasks that are blocked: their jobs leave their lines when they are met, and come back when the block is lifted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.records import Expiry, Kind, Lane, State
from headrace.store.blocking import Block
from headrace.store.contract import Facet, Store
from headrace.store.facets import Edit
from headrace.store.limits import PASSED_IN_A_STEP
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, look, put, state, told, woken
from .stores import Entry


def block(store: Store, task: str = "bad", reason: str = "") -> bool:
    return store.run(store.block(task, reason, "me"))


def unblock(store: Store, task: str = "bad") -> bool:
    return store.run(store.unblock(task))


def states(store: Store, names: str) -> set[State]:
    return {state(store, name) for name in names}


# -- the list --


def test_tasks_are_listed_with_reason_name_time_and_jobs(store: Store, worker: Worker, clock: ManualClock) -> None:
    assert store.run(store.blocks()) == []
    assert block(store, "later", "It is broken.")
    began = clock.now()
    clock.advance(5)
    assert block(store, "bad")
    put(store, "a", "b", task="later")
    worker.take(5)
    assert store.run(store.blocks()) == [
        Block("bad", "", "me", clock.now()),
        Block("later", "It is broken.", "me", began, jobs=2),
    ]
    assert unblock(store, "bad")
    assert [found.task for found in store.run(store.blocks())] == ["later"]


def test_a_task_that_is_blocked_again_gets_the_new_reason(store: Store, clock: ManualClock) -> None:
    assert block(store, reason="Old.")
    since = clock.now()
    clock.advance(5)
    assert not block(store, reason="New.")
    assert store.run(store.blocks()) == [Block("bad", "New.", "me", since)]


def test_a_task_that_is_not_blocked_is_not_unblocked(store: Store) -> None:
    assert not unblock(store)


# -- a take --


def test_a_take_goes_on_behind_them(store: Store, worker: Worker) -> None:
    put(store, "a", "c", task="bad")
    put(store, "b", "d")
    block(store)
    assert ids(worker.take(1, 1)) == "bd"
    assert states(store, "ac") == {State.BLOCKED}
    job = look(store, "a")
    assert (job.attempts, job.crashes, job.token, job.started) == (0, 0, 0, None)


@pytest.mark.parametrize("round_robin", [False, True])
def test_so_does_a_take_of_several_queues(store: Store, worker: Worker, round_robin: bool) -> None:
    put(store, "a", "b", queue="q", task="bad")
    put(store, "c", "d", queue="r")
    put(store, "e", "f", queue="s")
    block(store)
    taken = ids(worker.take(3, 1, "q", "[rs]", round_robin=round_robin))
    assert taken == ("cedf" if round_robin else "cdef")
    assert states(store, "ab") == {State.BLOCKED}


def test_one_that_falls_due_is_kept_back_then(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", task="bad", delay=1_000)
    block(store)
    assert worker.take(1) == []
    assert state(store, "a") is State.SCHEDULED
    clock.advance(1_000)
    assert worker.take(1) == []
    assert state(store, "a") is State.BLOCKED


def test_a_paused_queue_is_left_as_it_is(store: Store, worker: Worker) -> None:
    put(store, "a", task="bad")
    store.run(store.pause("default"))
    block(store)
    assert worker.take(1) == []
    assert state(store, "a") is State.READY


def test_what_runs_is_left_alone_until_it_wants_to_run_again(store: Store, worker: Worker) -> None:
    put(store, "a", "b", task="bad")
    first, second = worker.take(2)
    block(store)
    assert worker.renew(first, second).lost == []
    worker.settle(first)
    worker.settle(second, Kind.AGAIN)
    assert (state(store, "a"), state(store, "b")) == (State.DONE, State.READY)
    assert worker.take(1) == []
    assert state(store, "b") is State.BLOCKED


def test_more_than_one_step_takes_keep_only_their_own_line_waiting(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    many = [f"bad {number}" for number in range(PASSED_IN_A_STEP + 50)]
    put(store, *many, task="bad")
    put(store, "z")
    put(store, "y", queue="other")
    block(store)
    first = worker.exchange(take=worker.asks(2, 0, "default", "other"))
    assert ids(first.leases) == "y"
    assert first.next_due == clock.now()
    assert ids(worker.take(2)) == "z"
    assert {job.state for job in store.run(store.get(many))} == {State.BLOCKED}
    assert unblock(store)
    assert {job.state for job in store.run(store.get(many))} == {State.READY}


def test_a_repeated_take_gets_the_same_jobs(store: Store, worker: Worker) -> None:
    put(store, "a", task="bad")
    put(store, "b", "c")
    block(store)
    asked = worker.asks(2)
    assert ids(worker.exchange(take=asked).leases) == "bc"
    assert ids(worker.exchange(take=asked, number=worker.number).leases) == "bc"


# -- coming back --


def test_they_come_back_to_their_places(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", task="bad")
    put(store, "b", task="bad", priority=5)
    due = clock.now()
    clock.advance(10)
    put(store, "c")
    block(store)
    assert ids(worker.take(1)) == "c"
    clock.advance(10)
    put(store, "d")
    unblock(store)
    assert look(store, "a").due == look(store, "b").due == due
    assert ids(worker.take(5)) == "bad"
    assert told(store, "a") == ["created", "started"]


def test_their_coming_back_wakes_workers(store: Store, worker: Worker) -> None:
    put(store, "a", task="bad")
    block(store)
    waiter = store.waiter(worker.id, worker.queues)
    waiter.arm()
    assert worker.take(1) == []
    unblock(store)
    assert woken(waiter)
    assert ids(worker.take(1)) == "a"
    waiter.close()


def test_sweeps_go_on_where_unblocking_was_cut_short(entry: Entry, store: Store, worker: Worker) -> None:
    if entry.name == "model":
        pytest.skip("its operations are one step")
    put(store, "a", task="bad")
    block(store)
    worker.take(1)
    store.run(next(store.unblock("bad").begin()))
    assert (store.run(store.blocks()), state(store, "a")) == ([], State.BLOCKED)
    while store.run(store.sweep()).more:
        pass
    assert state(store, "a") is State.READY


def test_a_task_that_is_blocked_anew_keeps_its_jobs(store: Store, worker: Worker) -> None:
    put(store, "a", task="bad")
    block(store)
    worker.take(1)
    unblock(store)
    block(store)
    assert worker.take(1) == []
    assert state(store, "a") is State.BLOCKED
    assert not store.run(store.sweep()).more
    assert state(store, "a") is State.BLOCKED


# -- other ways out --


def test_they_can_be_cancelled_deleted_and_revived(
    store: Store, worker: Worker, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    put(store, "a", "b", task="bad")
    block(store)
    worker.take(5)
    assert store.run(store.cancel(["a"])) == [True]
    assert store.run(store.delete(["b"])) == [True]
    assert store.run(store.blocks())[0].jobs == 0
    assert store.run(store.revive(["a"])) == [True]
    assert worker.take(1) == []
    assert state(store, "a") is State.BLOCKED
    unblock(store)
    assert ids(worker.take(1)) == "a"
    store.run(store.delete(["a"]))
    assert leftovers(store) == {}


def test_one_that_is_edited_stands_in_line_until_it_is_met_again(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", "b", task="bad")
    block(store)
    worker.take(5)
    store.run(store.edit(["a", "b"], Edit(body=b"other")))
    assert states(store, "ab") == {State.BLOCKED}
    store.run(store.edit(["a"], Edit(queue="q")))
    store.run(store.edit(["b"], Edit(delay=1_000)))
    assert (state(store, "a"), state(store, "b")) == (State.READY, State.SCHEDULED)
    clock.advance(1_000)
    assert worker.take(5, 0, "q", "default") == []
    assert states(store, "ab") == {State.BLOCKED}


def test_one_that_comes_to_wait_for_another_job_does_that_alone(store: Store, worker: Worker) -> None:
    put(store, "a", task="bad")
    put(store, "p", queue="q")
    block(store)
    worker.take(5)
    store.run(store.depend("a", ["p"]))
    assert store.run(store.blocks())[0].jobs == 0
    unblock(store)
    assert state(store, "a") is State.BLOCKED
    worker.settle(worker.take(1, 0, "q")[0])
    assert ids(worker.take(1)) == "a"


def test_they_expire_while_they_are_kept_back(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", task="bad", expires=Expiry(after=1_000))
    block(store)
    worker.take(5)
    clock.advance(1_000)
    unblock(store)
    assert ids(worker.take(1)) == "a"
    block(store)
    worker.take(1)
    clock.advance(1)
    store.run(store.sweep())
    assert (state(store, "b"), look(store, "b").group) == (State.FAILED, "expired")
    assert store.run(store.blocks())[0].jobs == 0


def test_a_unique_job_that_is_kept_back_can_be_replaced(store: Store, worker: Worker) -> None:
    put(store, "a", task="bad", unique_key="k")
    block(store)
    worker.take(1)
    put(store, "b", task="bad", unique_key="k", replace=True)
    assert store.run(store.get(["a"])) == [None]
    assert store.run(store.blocks())[0].jobs == 0


# -- lanes --


@pytest.mark.parametrize("lane", [Lane("k"), Lane("k", limit=1), Lane("k", rate=1, per=60_000)])
def test_a_lane_goes_on_with_its_other_jobs(store: Store, worker: Worker, clock: ManualClock, lane: Lane) -> None:
    put(store, "a", "b", task="bad", lane=lane)
    due = clock.now()
    clock.advance(10)
    put(store, "c", lane=lane)
    block(store)
    assert ids(worker.take(1)) == "c"
    assert states(store, "ab") == {State.BLOCKED}
    assert look(store, "a").due == look(store, "b").due == due


def test_a_sequence_waits_for_the_one_that_has_the_turn(store: Store, worker: Worker) -> None:
    lane = Lane("k", sequence=True)
    put(store, "a", task="bad", lane=lane)
    put(store, "b", lane=lane)
    block(store)
    assert worker.take(2) == []
    assert store.run(store.lane("default", "k")).running == ("a",)
    put(store, "c", lane=lane)
    assert worker.take(2) == []
    unblock(store)
    lease = worker.take_one()
    assert lease.id == "a"
    worker.settle(lease)
    assert ids(worker.take(2)) == "b"


def test_a_sequence_goes_on_when_the_one_that_has_the_turn_is_deleted(store: Store, worker: Worker) -> None:
    lane = Lane("k", sequence=True)
    put(store, "a", task="bad", lane=lane)
    put(store, "b", lane=lane)
    block(store)
    worker.take(2)
    store.run(store.delete(["a"]))
    assert ids(worker.take(2)) == "b"


# -- why --


@pytest.mark.needs(Facet.WHY)
def test_circumstances_tell_of_the_block(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", task="bad")
    put(store, "c")
    block(store, reason="It is broken.")
    expected = Block("bad", "It is broken.", "me", clock.now())
    assert store.run(store.circumstances("a")).block == expected
    assert ids(worker.take(1)) == "c"
    found = store.run(store.circumstances("a"))
    assert found.block == Block("bad", "It is broken.", "me", clock.now(), jobs=2)
    assert (found.unmet, found.ahead) == (0, None)
    assert store.run(store.circumstances("c")).block is None
