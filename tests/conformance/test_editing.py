"""Changing jobs that wait, taking away those that run, and looking at a line."""

from __future__ import annotations

from contextlib import closing

import pytest

from headrace.errors import ConfigurationError
from headrace.records import Kind, Lane, State, Verdict
from headrace.store.contract import Facet, Store
from headrace.store.facets import Edit
from headrace.values.clock import ManualClock

from .helpers import Worker, ids, look, put, state, told, woken
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.EDIT)


def edit(store: Store, *names: str, **changes: object) -> list[bool]:
    return store.run(store.edit(names, Edit(**changes)))


def take_back(store: Store, *names: str) -> list[bool]:
    return store.run(store.take_back(names))


# -- edit --


@pytest.mark.needs(Trait.OPTIONS)
def test_edit_changes_what_it_names_and_nothing_else(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", options=b"O")
    before = look(store, "a")
    clock.advance(5)
    assert edit(store, "a", priority=7, body=b"new body", data=b"D") == [True]
    after = look(store, "a")
    assert (after.priority, after.body, after.data, after.options) == (7, b"new body", b"D", b"O")
    assert (after.state, after.due, after.created, after.queue) == (State.READY, before.due, before.created, "default")
    edit(store, "a", options=b"P")
    lease = worker.take_one()
    assert (lease.priority, lease.body, lease.data, lease.options) == (7, b"new body", b"D", b"P")


@pytest.mark.parametrize("sizes", [(10, 5_000), (5_000, 10), (5_000, 6_000)])
def test_bodies_of_any_size_replace_each_other(store: Store, worker: Worker, sizes: tuple[int, int]) -> None:
    put(store, "a", body=b"x" * sizes[0])
    edit(store, "a", body=b"y" * sizes[1])
    assert look(store, "a").body == worker.take_one().body == b"y" * sizes[1]


@pytest.mark.needs(Trait.PUT_ORDER)
def test_edit_moves_a_job_in_its_line(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", "c")
    edit(store, "c", priority=1)
    edit(store, "a", delay=0)
    assert ids(worker.take(9)) == "cab"


@pytest.mark.needs(Trait.DUE)
def test_edit_of_the_time(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    assert edit(store, "a", "b", delay=1_000) == [True, True]
    assert (state(store, "a"), look(store, "a").due) == (State.SCHEDULED, clock.now() + 1_000)
    edit(store, "a", run_at=clock.now() - 5)
    assert (state(store, "a"), look(store, "a").due) == (State.READY, clock.now() - 5)
    assert worker.exchange(take=worker.asks(9)).next_due == clock.now() + 1_000


def test_edit_of_the_queue(store: Store, worker: Worker) -> None:
    put(store, "a")
    edit(store, "a", queue="other")
    assert worker.take(9) == []
    assert ids(worker.take(9, 0, "other")) == "a"


@pytest.mark.parametrize("lane", [None, pytest.param(Lane("k", 1), marks=pytest.mark.needs(Facet.LANES))])
def test_test_traffic_is_edited_into_the_test_line_of_a_queue(store: Store, worker: Worker, lane: Lane | None) -> None:
    put(store, "a", queue="~default", lane=lane)
    put(store, "b", queue="default", lane=lane)
    assert edit(store, "a", "b", queue="other") == [True, True]
    assert (look(store, "a").queue, look(store, "b").queue) == ("~other", "other")
    assert ids(worker.take(9, 0, "other")) == "b"
    assert ids(worker.take(9, 0, "~other")) == "a"


def test_a_job_edited_into_a_queue_is_news_there(store: Store, worker: Worker) -> None:
    put(store, "a", queue="other")
    with closing(store.waiter(worker.id, ("default",))) as waiter:
        waiter.arm()
        edit(store, "a", queue="default")
        assert woken(waiter)


@pytest.mark.needs(Trait.CANCELLED)
def test_edit_is_for_jobs_that_wait(store: Store, worker: Worker) -> None:
    put(store, "a", "b", "c")
    _, done = worker.take(2)
    worker.settle(done)
    store.run(store.cancel(["c"]))
    before = [look(store, i) for i in "abc"]
    assert edit(store, "a", "b", "c", "nobody", priority=3, queue="other") == [False] * 4
    assert [look(store, i) for i in "abc"] == before


def test_edit_says_when_in_one_way(store: Store) -> None:
    put(store, "a")
    with pytest.raises(ConfigurationError):
        edit(store, "a", run_at=1, delay=1)


@pytest.mark.needs(Facet.RELATIONS)
@pytest.mark.needs(Trait.DELAY_AFTER)
def test_a_job_that_waits_for_others_goes_on_waiting(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a")
    put(store, "b", after=("a",), delay=5_000)
    edit(store, "b", priority=3, queue="other")
    assert (state(store, "b"), look(store, "b").priority) == (State.BLOCKED, 3)
    edit(store, "b", delay=1_000)
    clock.advance(10)
    worker.run_one()
    job = look(store, "b")
    assert (job.state, job.due, job.queue) == (State.SCHEDULED, clock.now() + 1_000, "other")


@pytest.mark.needs(Facet.RELATIONS)
@pytest.mark.needs(Trait.DELAY_AFTER)
def test_a_moment_replaces_the_delay_of_a_job_that_waits_for_others(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, "a")
    put(store, "b", after=("a",), delay=5_000)
    run_at = clock.now() + 2_000
    edit(store, "b", run_at=run_at)
    assert state(store, "b") is State.BLOCKED
    worker.run_one()
    assert (state(store, "b"), look(store, "b").due) == (State.SCHEDULED, run_at)


@pytest.mark.needs(Facet.LANES)
def test_an_edited_queue_is_another_lane(store: Store, worker: Worker) -> None:
    lane = Lane("k", limit=1)
    put(store, "a", "b", "c", lane=lane)
    edit(store, "a", "c", queue="other")
    assert [state(store, i) for i in "abc"] == [State.READY, State.READY, State.BLOCKED]
    assert store.run(store.lane("other", "k")).lane == Lane("k", limit=1, weight=1)
    assert ids(worker.take(9, 0, "default", "other")) == "ba"


@pytest.mark.needs(Facet.LANES)
def test_one_put_off_by_a_rate_is_free_in_another_queue(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abcd", lane=Lane("k", rate=1, per=3_600_000))
    due = look(store, "b").due
    worker.take_one()
    clock.advance(10)
    assert [state(store, i) for i in "bc"] == [State.SCHEDULED, State.BLOCKED]
    edit(store, "b", "c", queue="elsewhere")
    assert [state(store, i) for i in "bc"] == [State.READY, State.BLOCKED]
    assert look(store, "c").due == due
    assert (state(store, "d"), look(store, "d").due) == (State.SCHEDULED, clock.now() - 10 + 3_708_000)
    edit(store, "d", queue="elsewhere", priority=-1)
    assert ids(worker.take(1, 0, "elsewhere")) == "b"
    assert state(store, "c") is State.SCHEDULED
    edit(store, "c", delay=0)
    assert state(store, "c") is State.SCHEDULED


@pytest.mark.needs(Facet.LANES)
@pytest.mark.needs(Facet.RELATIONS)
def test_one_put_off_by_a_rate_is_due_when_those_that_it_was_made_to_wait_for_are_done(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, *"ab", lane=Lane("k", rate=1, per=3_600_000))
    put(store, "z")
    due = look(store, "b").due
    worker.take_one()
    store.run(store.depend("b", add=["z"]))
    assert (state(store, "b"), look(store, "b").due) == (State.BLOCKED, due)


@pytest.mark.needs(Facet.LANES)
def test_one_put_off_by_a_rate_keeps_its_place_when_the_rate_changes(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, *"abc", lane=Lane("k", rate=1, per=3_600_000))
    worker.take_one()
    clock.advance(10)
    put(store, "d", lane=Lane("k", rate=1, per=1_000))
    assert [state(store, i) for i in "bc"] == [State.SCHEDULED, State.BLOCKED]


@pytest.mark.needs(Facet.LANES)
def test_an_edited_priority_counts_in_a_lanes_line(store: Store, worker: Worker) -> None:
    put(store, *"abc", lane=Lane("k", limit=1))
    edit(store, "c", priority=1)
    assert "".join(worker.run_one().id for _ in range(3)) == "acb"


@pytest.mark.needs(Facet.LANES)
def test_an_edited_job_keeps_its_turn_in_a_sequence(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", lane=Lane("k", sequence=True))
    edit(store, "a", delay=1_000)
    assert [state(store, i) for i in "ab"] == [State.SCHEDULED, State.BLOCKED]
    edit(store, "b", delay=0, priority=9)
    assert worker.take(9) == []
    edit(store, "a", queue="other")
    assert [state(store, i) for i in "ab"] == [State.SCHEDULED, State.READY]


@pytest.mark.needs(Facet.LANES)
def test_a_new_body_alone_leaves_a_job_where_it_stands(store: Store, clock: ManualClock) -> None:
    put(store, "a", "b", lane=Lane("k"))
    clock.advance(5)
    edit(store, "a", body=b"new")
    assert [state(store, i) for i in "ab"] == [State.READY, State.BLOCKED]


# -- take_back --


@pytest.mark.needs(Trait.TOKENS)
def test_time_out_takes_a_job_away_as_if_given_back(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    lease = worker.take_one()
    due = look(store, "a").due
    clock.advance(5)
    assert take_back(store, "a", "b", "nobody") == [True, False, False]
    job = look(store, "a")
    assert (job.state, job.due, job.attempts, job.crashes) == (State.READY, due, 0, 0)
    assert job.token > lease.token
    assert "taken back" in told(store, "a")
    assert list(worker.renew(lease).lost) == ["a"]
    assert worker.settle(lease) is Verdict.STALE
    assert ids(worker.take(9)) == "ab"


@pytest.mark.needs(Trait.CANCELLED)
def test_a_cancelling_job_that_is_timed_out_is_cancelled(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.take_one()
    store.run(store.cancel(["a"]))
    assert take_back(store, "a") == [True]
    assert state(store, "a") is State.CANCELLED


def test_time_out_is_news_to_the_worker(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.take_one()
    with closing(store.waiter(worker.id, ("nothing here",))) as waiter:
        waiter.arm()
        take_back(store, "a")
        assert woken(waiter)


@pytest.mark.needs(Facet.LANES)
@pytest.mark.parametrize("lane", [Lane("k", limit=1), Lane("k", sequence=True)], ids=["limit", "sequence"])
def test_time_out_in_a_lane(store: Store, worker: Worker, lane: Lane) -> None:
    put(store, "a", lane=lane, priority=1)
    put(store, "b", lane=lane)
    worker.take_one()
    assert take_back(store, "a") == [True]
    assert [state(store, i) for i in "ab"] == [State.READY, State.BLOCKED]


# -- peek --


@pytest.mark.needs(Trait.PUT_ORDER)
def test_peek_shows_the_line_as_it_would_be_handed_out(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    put(store, "c", priority=1)
    put(store, "d", delay=5)
    put(store, "e", queue="other")
    put(store, "f", run_at=clock.now() - 5)
    line = store.run(store.peek("default"))
    assert "".join(job.id for job in line) == "cfab"
    assert line[0] == look(store, "c")
    assert "".join(job.id for job in store.run(store.peek("default", 2))) == "cf"
    assert ids(worker.take(9)) == "cfab"
    assert store.run(store.peek("default")) == []


@pytest.mark.needs(Trait.PUT_ORDER)
def test_peek_and_kinds_of_outcome(store: Store, worker: Worker) -> None:
    put(store, "a", "b")
    worker.run_one(Kind.RELEASED)
    assert [job.id for job in store.run(store.peek("default"))] == ["a", "b"]
