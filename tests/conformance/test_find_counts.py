"""Looking for jobs, and counting them."""

from __future__ import annotations

import pytest

from headrace.records import Counts, Filter, Kind, State
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, look, put
from .traits import Trait


def find(store: Store, **wanted: object) -> str:
    """The ids found, page after page."""
    pages, cursor = [], None
    while True:
        page = store.run(store.find(Filter(**wanted, after=cursor)))
        pages.append("".join(job.id for job in page.jobs))
        if (cursor := page.cursor) is None:
            return "|".join(pages)


def one_in_each_state(store: Store, worker: Worker) -> None:
    """a done, b failed in g, c cancelled, d running, e ready, f scheduled; d and f are of another task and queue."""
    put(store, *"abc")
    put(store, "d", queue="other", task="special")
    worker.clock.advance(1)
    worker.run_one()
    worker.run_one(Kind.FAILED, group="g")
    store.run(store.cancel(["c"]))
    worker.take(1, 0, "other")
    put(store, "e")
    put(store, "f", queue="other", task="special", delay=1_000)


@pytest.mark.needs(Trait.NEWEST_FIRST)
def test_find_answers_newest_put_first(store: Store, clock: ManualClock) -> None:
    for job_id in "abc":
        put(store, job_id)
        clock.advance(1)
    put(store, "d", "e")
    assert find(store) == "edcba"


@pytest.mark.needs(Facet.DELAY)
@pytest.mark.needs(Trait.QUEUES)
@pytest.mark.needs(Trait.CANCELLED)
def test_find_answers_with_whole_snapshots(store: Store, worker: Worker) -> None:
    one_in_each_state(store, worker)
    page = store.run(store.find(Filter()))
    assert page.jobs == [look(store, job_id) for job_id in "fedcba"]


def test_find_in_an_empty_store_is_one_empty_page(store: Store) -> None:
    page = store.run(store.find(Filter()))
    assert (page.jobs, page.cursor) == ([], None)


@pytest.mark.needs(Facet.DELAY)
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param({"states": (State.DONE,)}, "a", marks=pytest.mark.needs(Trait.DONE)),
        ({"states": (State.FAILED,)}, "b"),
        pytest.param({"states": (State.CANCELLED,)}, "c", marks=pytest.mark.needs(Trait.CANCELLED)),
        ({"states": (State.RUNNING,)}, "d"),
        ({"states": (State.READY,)}, "e"),
        ({"states": (State.SCHEDULED,)}, "f"),
        pytest.param({"states": (State.DONE, State.SCHEDULED)}, "fa", marks=pytest.mark.needs(Trait.DONE)),
        ({"states": (State.BLOCKED,)}, ""),
        ({"queue": "other"}, "fd"),
        pytest.param({"task": "task"}, "ecba", marks=pytest.mark.needs(Trait.CANCELLED)),
        pytest.param({"group": "g"}, "b", marks=pytest.mark.needs(Trait.ERRORS)),
        ({"group": "h"}, ""),
        ({"queue": "other", "states": (State.RUNNING, State.DONE)}, "d"),
        ({"queue": "nowhere"}, ""),
    ],
)
@pytest.mark.needs(Trait.QUEUES)
def test_find_by_state_queue_task_and_group(
    store: Store, worker: Worker, wanted: dict[str, object], found: str
) -> None:
    one_in_each_state(store, worker)
    assert find(store, **wanted) == found


@pytest.mark.parametrize(("limit", "pages"), [(1, "f|e|d|c|b|a"), (4, "fedc|ba"), (6, "fedcba"), (3, "fed|cba")])
@pytest.mark.needs(Trait.NEWEST_FIRST)
def test_find_goes_page_by_page_and_the_last_has_no_cursor(store: Store, limit: int, pages: str) -> None:
    put(store, *"abcdef")
    assert find(store, limit=limit) == pages


@pytest.mark.needs(Trait.QUEUES)
@pytest.mark.needs(Trait.NEWEST_FIRST)
def test_pages_go_together_with_filters(store: Store) -> None:
    put(store, *"abc", queue="q")
    put(store, *"xyz", queue="r")
    put(store, *"de", queue="q")
    assert find(store, queue="q", limit=2) == "ed|cb|a"


@pytest.mark.needs(Trait.NEWEST_FIRST, witness=True)
def test_jobs_put_between_two_pages_do_not_shift_the_second(store: Store) -> None:
    put(store, *"abcd")
    first = store.run(store.find(Filter(limit=2)))
    put(store, *"xyz")
    store.run(store.delete(["d"]))
    second = store.run(store.find(Filter(limit=2, after=first.cursor)))
    assert [job.id for job in second.jobs] == ["b", "a"]


@pytest.mark.needs(Trait.NEWEST_FIRST)
def test_a_job_that_ran_again_does_not_become_newer(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b")
    clock.advance(5)
    worker.run_one(Kind.AGAIN)
    worker.run_one(Kind.MOVED, queue="next")
    assert find(store) == "ba"


# -- counts --


def test_an_empty_store_counts_nothing(store: Store) -> None:
    assert store.run(store.counts()) == []


@pytest.mark.needs(Facet.DELAY)
@pytest.mark.needs(Trait.QUEUES)
@pytest.mark.needs(Trait.CANCELLED)
def test_counts_are_per_queue_by_name_without_zeros(store: Store, worker: Worker) -> None:
    one_in_each_state(store, worker)
    put(store, "x", "y", queue="also")
    assert store.run(store.counts()) == [
        Counts("also", {State.READY: 2}),
        Counts("default", {State.READY: 1, State.DONE: 1, State.FAILED: 1, State.CANCELLED: 1}),
        Counts("other", {State.RUNNING: 1, State.SCHEDULED: 1}),
    ]


@pytest.mark.needs(Facet.MOVE)
def test_counts_follow_a_moved_job(store: Store, worker: Worker) -> None:
    put(store, "a")
    worker.run_one(Kind.MOVED, queue="next")
    assert store.run(store.counts()) == [Counts("next", {State.READY: 1})]


@pytest.mark.needs(Trait.QUEUES)
def test_a_queue_that_has_no_jobs_left_is_not_counted(store: Store) -> None:
    put(store, "a")
    put(store, "b", queue="other")
    store.run(store.delete(["a"]))
    assert store.run(store.counts()) == [Counts("other", {State.READY: 1})]
