"""Unique jobs: at most one that is not final per key, or one per key and time."""

from __future__ import annotations

import pytest

from headrace.records import Kind, Put, State
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, ids, look, new, put, state

pytestmark = pytest.mark.needs(Facet.UNIQUE)


def test_the_first_of_a_key_is_created(store: Store) -> None:
    assert put(store, "a", unique_key="k") == [Put("a", True)]
    assert look(store, "a").unique_key == "k"


@pytest.mark.parametrize("where", [State.READY, State.SCHEDULED, State.RUNNING])
def test_a_put_with_a_key_that_an_unfinished_job_has_answers_with_that_job(
    store: Store, worker: Worker, where: State
) -> None:
    put(store, "a", unique_key="k", delay=5 if where is State.SCHEDULED else None)
    if where is State.RUNNING:
        worker.take_one()
    before = look(store, "a")
    assert before.state is where
    assert put(store, "b", unique_key="k") == [Put("a", False)]
    assert not exists(store, "b")
    assert look(store, "a") == before


def test_other_keys_and_no_key_do_not_clash(store: Store) -> None:
    put(store, "a", unique_key="k")
    assert put(store, "b", unique_key="l") == [Put("b", True)]
    assert put(store, "c") == [Put("c", True)]


def test_a_key_counts_across_queues_and_tasks(store: Store) -> None:
    put(store, "a", unique_key="k", queue="q")
    assert put(store, "b", unique_key="k", queue="r", task="t") == [Put("a", False)]


def test_a_key_counts_within_a_batch(store: Store) -> None:
    assert put(store, "a", "b", unique_key="k") == [Put("a", True), Put("a", False)]
    assert not exists(store, "b")


def test_a_clash_does_not_keep_the_rest_of_the_batch_out(store: Store) -> None:
    put(store, "a", unique_key="k")
    batch = [new("x"), new("b", unique_key="k"), new("y")]
    assert store.run(store.put(batch)) == [Put("x", True), Put("a", False), Put("y", True)]


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED])
def test_a_finished_job_makes_way_and_loses_the_key(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(kind)
    assert look(store, "a").unique_key == "k"
    assert put(store, "b", unique_key="k") == [Put("b", True)]
    assert (look(store, "a").unique_key, look(store, "b").unique_key) == (None, "k")
    assert state(store, "a").final


def test_a_cancelled_job_makes_way(store: Store) -> None:
    put(store, "a", unique_key="k")
    store.run(store.cancel(["a"]))
    assert put(store, "b", unique_key="k") == [Put("b", True)]


def test_a_deleted_job_makes_way(store: Store) -> None:
    put(store, "a", unique_key="k")
    store.run(store.delete(["a"]))
    assert put(store, "b", unique_key="k") == [Put("b", True)]


@pytest.mark.parametrize("where", [State.READY, State.RUNNING, State.DONE, State.FAILED, State.CANCELLED])
@pytest.mark.parametrize("replace", [False, True])
def test_a_put_that_repeats_changes_nothing(
    store: Store, worker: Worker, clock: ManualClock, where: State, replace: bool
) -> None:
    put(store, "a", unique_key="k", replace=replace)
    if where is State.RUNNING:
        worker.take_one()
    elif where is State.CANCELLED:
        store.run(store.cancel(["a"]))
    elif where is not State.READY:
        worker.run_one(Kind.DONE if where is State.DONE else Kind.FAILED, result=b"R")
    clock.advance(5)
    before, history = look(store, "a"), store.run(store.history("a"))
    assert before.state is where
    assert put(store, "a", unique_key="k", replace=replace) == [Put("a", True)]
    assert (look(store, "a"), store.run(store.history("a"))) == (before, history)


def test_a_put_that_repeats_leaves_the_job_that_has_the_key_now(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(result=b"R")
    put(store, "b", unique_key="k")
    before = [look(store, "a"), look(store, "b")]
    assert put(store, "a", unique_key="k", replace=True) == [Put("a", True)]
    assert [look(store, "a"), look(store, "b")] == before


@pytest.mark.parametrize("kind", [Kind.AGAIN, Kind.RELEASED, Kind.CRASHED])
def test_a_job_that_waits_for_its_next_run_keeps_its_key(store: Store, worker: Worker, kind: Kind) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(kind, delay=5)
    assert put(store, "b", unique_key="k") == [Put("a", False)]


def test_a_moved_job_keeps_its_key(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(Kind.MOVED, queue="next")
    assert put(store, "b", unique_key="k") == [Put("a", False)]


# -- unique_for --


def test_unique_for_holds_the_key_after_the_job_is_finished_until_it_has_run_out(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", unique_key="k", unique_for=1_000)
    clock.advance(400)
    worker.run_one()
    clock.advance(599)
    assert put(store, "b", unique_key="k") == [Put("a", False)]
    clock.advance(1)
    assert put(store, "b", unique_key="k") == [Put("b", True)]


def test_an_unfinished_job_holds_its_key_even_after_unique_for(store: Store, clock: ManualClock) -> None:
    put(store, "a", unique_key="k", unique_for=10)
    clock.advance(1_000)
    assert put(store, "b", unique_key="k") == [Put("a", False)]


# -- replace --


@pytest.mark.parametrize("delay", [None, 1_000])
def test_replace_removes_a_waiting_holder_without_a_trace(store: Store, delay: int | None) -> None:
    put(store, "a", unique_key="k", delay=delay)
    assert put(store, "b", unique_key="k", replace=True) == [Put("b", True)]
    assert not exists(store, "a")
    assert store.run(store.history("a")) == []
    assert look(store, "b").unique_key == "k"


def test_replace_does_not_touch_a_running_holder(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    worker.take_one()
    assert put(store, "b", unique_key="k", replace=True) == [Put("a", False)]
    assert state(store, "a") is State.RUNNING


def test_replace_does_not_touch_a_finished_holder_within_unique_for(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k", unique_for=1_000)
    worker.run_one()
    assert put(store, "b", unique_key="k", replace=True) == [Put("a", False)]


def test_replace_without_a_holder_just_puts(store: Store) -> None:
    assert put(store, "a", unique_key="k", replace=True) == [Put("a", True)]


def test_a_replaced_job_leaves_its_place_in_line(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    put(store, "b")
    put(store, "c", unique_key="k", replace=True)
    assert ids(worker.take(5)) == "bc"


def test_a_put_that_replaces_can_be_repeated(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    for _ in range(2):
        assert put(store, "b", unique_key="k", replace=True) == [Put("b", True)]
    assert ids(worker.take(5)) == "b"


def test_a_put_under_the_id_of_another_job_changes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.take_one()
    put(store, "b", unique_key="k")
    before = [look(store, "a"), look(store, "b")]
    assert put(store, "a", unique_key="k", replace=True) == [Put("a", True)]
    assert [look(store, "a"), look(store, "b")] == before


# -- revive --


def test_a_revived_job_holds_its_key_again(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(Kind.FAILED)
    assert store.run(store.revive(["a"])) == [True]
    assert put(store, "b", unique_key="k") == [Put("a", False)]


def test_a_job_is_not_revived_while_another_unfinished_job_has_its_key(store: Store, worker: Worker) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(Kind.FAILED)
    put(store, "b", unique_key="k")
    before = look(store, "a")
    assert store.run(store.revive(["a"])) == [False]
    assert look(store, "a") == before


@pytest.mark.parametrize("removed", [False, True], ids=["ended", "deleted"])
def test_a_job_that_lost_its_key_takes_it_again_when_the_other_is_finished(
    store: Store, worker: Worker, removed: bool
) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(Kind.FAILED)
    put(store, "b", unique_key="k")
    worker.run_one(Kind.FAILED)
    if removed:
        store.run(store.delete(["b"]))
    assert look(store, "a").unique_key is None
    assert store.run(store.revive(["a"])) == [True]
    assert (state(store, "a"), look(store, "a").unique_key) == (State.READY, "k")
    assert put(store, "c", unique_key="k") == [Put("a", False)]
    assert store.run(store.revive(["b"])) == [False]
    worker.run_one()
    assert put(store, "c", unique_key="k") == [Put("c", True)]


def test_of_two_jobs_with_one_key_the_first_is_revived(store: Store, worker: Worker) -> None:
    for name in "ab":
        put(store, name, unique_key="k")
        worker.run_one(Kind.FAILED)
    assert store.run(store.revive(["b", "a"])) == [False, True]
    assert (look(store, "a").unique_key, look(store, "b").unique_key) == ("k", None)


def test_a_job_is_not_revived_while_unique_for_holds_its_key_for_another(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a", unique_key="k")
    worker.run_one(Kind.FAILED)
    put(store, "b", unique_key="k", unique_for=1_000)
    worker.run_one()
    assert store.run(store.revive(["a"])) == [False]
    clock.advance(1_000)
    assert store.run(store.revive(["a"])) == [True]
    assert put(store, "c", unique_key="k") == [Put("a", False)]
