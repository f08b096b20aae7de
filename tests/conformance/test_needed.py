"""Ended jobs that others still need: retention leaves them, and their results, until those have ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.records import Filter, IfFailed, Kind, State
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, look, new, outcome, put, state, take_named

pytestmark = pytest.mark.needs(Facet.RELATIONS)

KEEP = 1_000


@pytest.fixture
def store(make_store: Callable[..., Store], clock: ManualClock) -> Store:
    return make_store(clock, keep_done=KEEP, keep_failed=KEEP)


def sweep_later(store: Store, clock: ManualClock) -> int:
    clock.advance(KEEP + 1)
    return store.run(store.sweep()).jobs_purged


def test_a_done_parent_stays_while_its_child_waits_and_runs(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a", "b"))
    worker.run_one(result=b"1")
    b = worker.take_one()
    assert sweep_later(store, clock) == 0
    assert state(store, "c") is State.BLOCKED
    worker.settle(b, result=b"2")
    assert sweep_later(store, clock) == 0
    assert state(store, "c") is State.READY
    c = worker.take_one()
    assert sweep_later(store, clock) == 0
    assert [look(store, i).result for i in c.extras.after] == [b"1", b"2"]
    worker.settle(c)
    assert sweep_later(store, clock) == 3


def test_one_that_was_done_before_the_put_stays(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "plain")
    worker.run_one()
    worker.run_one()
    put(store, "b", after=("a",), delay=10 * KEEP)
    assert sweep_later(store, clock) == 1
    assert exists(store, "a")
    store.run(store.cancel(["b"]))
    assert sweep_later(store, clock) == 2


@pytest.mark.needs(Facet.SETTINGS)
def test_it_stays_beyond_the_number_that_is_kept(store: Store, worker: Worker, clock: ManualClock) -> None:
    store.run(store.set_settings({"jobs-history-count": 0}))
    put(store, "a", "b", "z")
    put(store, "c", after=("a",))
    for _ in range(3):
        worker.run_one()
    assert store.run(store.sweep()).jobs_purged == 2
    assert exists(store, "a")
    for batch in "xyz":
        store.run(store.put([new(f"{batch} {i}", priority=1) for i in range(150)]))
        worker.exchange([outcome(lease) for lease in worker.take(150)])
    assert exists(store, "a")
    while store.run(store.sweep()).jobs_purged:
        pass
    assert [job.id for job in store.run(store.find(Filter())).jobs] == ["c", "a"]
    worker.run_one()
    assert store.run(store.sweep()).jobs_purged == 2


@pytest.mark.needs(Facet.SETTINGS)
def test_its_result_stays(store: Store, worker: Worker, clock: ManualClock) -> None:
    store.run(store.set_settings({"results-history": KEEP // 2}))
    put(store, "a", "b", "plain")
    put(store, "c", after=("a", "b"))
    for size in (1, 5_000, 1):
        worker.run_one(result=bytes(size))
    clock.advance(KEEP // 2 + 1)
    store.run(store.sweep())
    assert [look(store, i).result for i in "ab"] == [bytes(1), bytes(5_000)]
    assert look(store, "plain").result_dropped
    worker.run_one()
    assert sweep_later(store, clock) == 4


def test_a_failed_parent_stays_for_those_who_run_anyway(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a", "b"), if_failed=IfFailed.RUN, delay=KEEP)
    worker.run_one(Kind.FAILED)
    store.run(store.cancel(["b"]))
    assert sweep_later(store, clock) == 0
    c = worker.take_one()
    assert (c.id, sweep_later(store, clock)) == ("c", 0)
    worker.settle(c, Kind.FAILED)
    assert sweep_later(store, clock) == 3


def test_a_failed_parent_is_not_kept_by_one_that_waits_for_its_end(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    put(store, "b", after=("a",), if_failed=IfFailed.WAIT)
    put(store, "c", after=("a", "b"), if_failed=IfFailed.RUN)
    worker.run_one(Kind.FAILED)
    assert sweep_later(store, clock) == 1, "c waits for b, which waits for a"
    assert state(store, "b") is State.FAILED
    assert worker.take_one().id == "c"


def test_a_revived_child_needs_what_is_still_there(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    put(store, "c", after=("a",))
    worker.run_one()
    clock.advance(KEEP)
    worker.settle(take_named(worker, "b"), Kind.FAILED)
    clock.advance(1)
    assert store.run(store.sweep()).jobs_purged == 0
    assert store.run(store.revive(["b"])) == [True]
    worker.settle(take_named(worker, "c"))
    assert sweep_later(store, clock) == 1
    assert exists(store, "a")
    store.run(store.delete(["b"]))
    assert store.run(store.sweep()).jobs_purged == 1


def test_children_stay_for_the_job_that_waited_for_them(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "before")
    put(store, "parent", after=("before",))
    worker.run_one()
    lease = worker.take_one()
    put(store, "x", "y")
    worker.settle(lease, Kind.WAITING, after=("x", "y"))
    worker.run_one()
    worker.run_one()
    assert sweep_later(store, clock) == 1
    assert not exists(store, "before")
    lease = worker.take_one()
    assert (lease.id, lease.extras.after, sweep_later(store, clock)) == ("parent", ("x", "y"), 0)
    worker.settle(lease)
    assert sweep_later(store, clock) == 3


def test_what_a_job_comes_after_no_more_goes(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    put(store, "c", after=("a",), delay=10 * KEEP)
    worker.run_one()
    worker.run_one()
    store.run(store.depend("c", add=["b"], remove=["a"]))
    assert sweep_later(store, clock) == 1
    assert [exists(store, i) for i in "ab"] == [False, True]


def test_people_may_delete_it(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",))
    worker.run_one()
    assert store.run(store.delete(["a"])) == [True]
    assert not exists(store, "a")
    worker.run_one()
    assert sweep_later(store, clock) == 1


def test_many_that_are_needed_do_not_keep_the_others(store: Store, worker: Worker, clock: ManualClock) -> None:
    count = 1_200
    needed = [new(f"needed {i}") for i in range(count)]
    store.run(store.put(needed))
    store.run(store.cancel([job.id for job in needed]))
    put(store, "later", after=tuple(job.id for job in needed), if_failed=IfFailed.RUN, delay=100 * KEEP)
    clock.advance(1)
    put(store, "x", "y")
    store.run(store.cancel(["x", "y"]))
    clock.advance(KEEP + 1)
    for _ in range(4):
        store.run(store.sweep())
    assert not exists(store, "x")
    assert len(store.run(store.find(Filter(limit=2_000))).jobs) == count + 1
    store.run(store.cancel(["later"]))
    clock.advance(KEEP + 1)
    for _ in range(8):
        store.run(store.sweep())
    assert store.run(store.find(Filter())).jobs == []


def test_one_with_many_children_goes_in_bounded_steps(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    children = [new(f"child {i}", after=("a",), if_failed=IfFailed.RUN) for i in range(1_000)]
    store.run(store.put(children))
    worker.run_one()
    store.run(store.cancel([job.id for job in children[:-1]]))
    assert sweep_later(store, clock) > 0
    while store.run(store.sweep()).more:
        pass
    assert exists(store, "a")
    store.run(store.cancel(["child 999"]))
    clock.advance(KEEP + 1)
    for _ in range(12):
        store.run(store.sweep())
    assert store.run(store.find(Filter())).jobs == []
