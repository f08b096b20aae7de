"""Shares of lanes: how many jobs of each are handed out while all have some that wait."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.records import Lane
from headrace.store import limits
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock

from .helpers import Worker, look, new, put

pytestmark = pytest.mark.needs(Facet.LANES)


def fill(store: Store, number: int, **weights: int) -> None:
    """So many jobs in each lane, which are named by letters."""
    for key, weight in weights.items():
        store.run(store.put([new(f"{key}{i}", lane=Lane(key, weight=weight)) for i in range(number)]))


def taken(worker: Worker, *sizes: int, after: int = 0) -> str:
    """The lanes of the jobs that takes of these sizes hand out. `after`: so many milliseconds come before each take."""
    found = []
    for size in sizes:
        worker.clock.advance(after)
        found += [lease.id[0] for lease in worker.take(size)]
    return "".join(found)


def test_of_400_jobs_that_one_take_hands_out_a_lane_of_weight_three_has_300(store: Store, worker: Worker) -> None:
    fill(store, 301, a=3, b=1)
    assert Counter(taken(worker, 400)) == {"a": 300, "b": 100}


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("sizes", [[1] * 24, [7, 5, 1, 11], [2] * 12, [23, 1]], ids=["ones", "odd", "twos", "most"])
def test_shares_are_exact_whatever_the_sizes_of_takes(
    store: Store, worker: Worker, sizes: list[int], after: int
) -> None:
    fill(store, 20, a=3, b=1)
    assert taken(worker, *sizes, after=after) == "aaab" * 6


def test_the_lane_that_came_first_begins(store: Store, worker: Worker) -> None:
    fill(store, 10, b=1, a=2)
    assert taken(worker, 1, 5, 3) == "baabaabaa"


def test_three_lanes_have_their_shares_across_workers(store: Store, worker: Worker, clock: ManualClock) -> None:
    fill(store, 31, a=3, b=2, c=1)
    other = Worker(store, clock, "other")
    found = "".join(taken(worker, 1) + taken(other, 5) for _ in range(10))
    assert Counter(found) == {"a": 30, "b": 20, "c": 10}


def test_lanes_without_weights_take_turns_between_takes_of_one_millisecond(store: Store, worker: Worker) -> None:
    fill(store, 5, a=1, b=1)
    assert taken(worker, *[1] * 10) == "ab" * 5


def test_a_lane_without_jobs_that_wait_loses_the_rest_of_its_round(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    fill(store, 1, a=3)
    clock.advance(1)
    fill(store, 5, b=1)
    assert taken(worker, 1) == "a"
    clock.advance(1)
    put(store, *(f"a{i}" for i in range(1, 5)), lane=Lane("a", weight=3))
    assert taken(worker, 6, after=1) == "baaaba"


def test_a_lane_with_a_limit_goes_on_with_its_round(store: Store, worker: Worker) -> None:
    put(store, *(f"a{i}" for i in range(6)), lane=Lane("a", limit=1, weight=2))
    fill(store, 6, b=1)
    found = []
    for _ in range(6):
        (lease,) = worker.take(1)
        found.append(lease.id[0])
        worker.settle(lease)
    assert "".join(found) == "aabaab"


def test_a_lane_goes_by_the_weight_of_the_newest_put(store: Store, worker: Worker) -> None:
    fill(store, 12, a=1, b=1)
    assert taken(worker, 4) == "abab"
    put(store, "a last", lane=Lane("a", weight=2))
    assert taken(worker, 6) == "aabaab"
    snapshot = store.run(store.lane("default", "a"))
    assert snapshot is not None
    assert snapshot.lane == Lane("a", weight=2)
    assert look(store, "a last").lane == Lane("a", weight=2)
    assert look(store, "a11").lane == Lane("a", weight=1)


def test_a_second_ahead_of_the_clock_shares_are_exact_for_one_round_in_a_millisecond(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    fill(store, 40, a=2, b=1)
    assert taken(worker, 3) == "aab"
    clock.jump(4 - limits.LANES_AHEAD)  # as if there had been so many rounds in this millisecond
    assert taken(worker, 9) == "aab" * 3
    assert taken(worker, 6) == "a" * 6  # in the same millisecond: the lane that came first goes on
    assert Counter(taken(worker, *[3] * 5, after=1)) == {"a": 10, "b": 5}
