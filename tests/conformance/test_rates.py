"""Rates of lanes: never more than `rate` starts within any stretch of time of its length, whatever delays starts."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from headrace.records import NO_TIME, Kind, Lane, Lease, State
from headrace.store.contract import Facet, Store
from headrace.store.lanes import LaneSnapshot
from headrace.values.clock import ManualClock
from volume import volume

from .helpers import Worker, ids, look, outcome, put, state

pytestmark = pytest.mark.needs(Facet.LANES)

SLOW = Lane("k", rate=2, per=1_000)
WITHIN = 15
"""How soon a job of this lane starts, if its worker asks for no more."""
WINDOW = 1_000 + 2 * WITHIN
"""From a hand-out on as many others as the rate allows are handed out within this."""


def lane(store: Store, key: str = "k") -> LaneSnapshot:
    found = store.run(store.lane("default", key))
    assert found is not None
    return found


def take(worker: Worker, grace: int) -> list[Lease]:
    asked = worker.asks(9)
    return list(worker.exchange(take=type(asked)(asked.queues, asked.slots, grace=grace)).leases)


def test_a_rate_limits_the_starts_in_any_window(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abcde", lane=SLOW)
    assert ids(worker.take(1)) == "a"
    clock.advance(600)
    assert ids(worker.take(9)) == "b"
    assert (state(store, "c"), look(store, "c").due) == (State.SCHEDULED, clock.now() + WINDOW - 600)
    assert lane(store).next_start == clock.now() + WINDOW - 600
    assert (lane(store).front, lane(store).blocked) == ("c", 2)
    clock.advance(WINDOW - 601)
    assert worker.exchange(take=worker.asks(9)).next_due == clock.now() + 1
    assert worker.take(9) == []
    clock.advance(1)
    assert ids(worker.take(9)) == "c"
    clock.advance(599)
    assert worker.take(9) == []
    clock.advance(1)
    assert ids(worker.take(9)) == "d"


def test_a_slower_rate_holds_for_who_stood_in_line(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", lane=SLOW)
    worker.take(1)
    put(store, "c", lane=Lane("k", rate=1, per=5_000))
    assert worker.take(9) == []
    assert look(store, "b").due == clock.now() + 2 * WITHIN + 5_000


def test_a_rate_counts_starts_and_not_jobs(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=SLOW)
    for _ in range(2):
        lease = worker.take_one()
        worker.settle(lease, Kind.RELEASED, began=clock.steady())
    assert worker.take(9) == []
    clock.advance(WINDOW)
    assert ids(worker.take(9)) == "a"


def test_a_rate_is_remembered_when_all_jobs_are_done(
    store: Store, worker: Worker, clock: ManualClock, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    put(store, "a", "b", lane=SLOW)
    for _ in "ab":
        worker.run_one()
    store.run(store.delete(["a", "b"]))
    assert lane(store).next_start == clock.now() + WINDOW
    clock.advance(WINDOW - 1)
    put(store, "c", lane=SLOW)
    assert state(store, "c") is State.SCHEDULED
    store.run(store.delete(["c"]))
    clock.advance(1)
    assert store.run(store.lane("default", "k")) is None
    store.run(store.sweep())
    assert leftovers(store) == {}


def test_the_front_of_a_rate_can_be_cancelled(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abcd", lane=SLOW)
    worker.take(9)
    store.run(store.cancel(["c"]))
    assert (lane(store).front, lane(store).blocked) == ("d", 0)
    clock.advance(WINDOW)
    assert ids(worker.take(9)) == "d"


def test_limit_and_rate_together(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc", lane=Lane("k", limit=1, rate=1, per=1_000))
    lease = worker.take_one()
    clock.advance(5_000)
    assert worker.take(9) == []
    worker.settle(lease)
    assert ids(worker.take(9)) == "b"


def test_a_sequence_with_a_rate(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", "b", lane=Lane("k", rate=1, per=1_000, sequence=True))
    worker.run_one()
    assert worker.take(9) == []
    assert (state(store, "b"), look(store, "b").due) == (State.SCHEDULED, clock.now() + WINDOW)
    clock.advance(WINDOW)
    assert ids(worker.take(9)) == "b"


# -- how soon a job starts --


@pytest.mark.parametrize(
    ("per", "grace", "within"),
    [
        *((1_000, 0, 15), (60_000, 300, 900), (1_000, 300, 300), (1_000, 9_000, 1_000), (5, 0, 1), (5, 40, 40)),
        *((1, 9_000, 100), (60_000, NO_TIME, 0)),
    ],
)
def test_a_lease_says_how_soon_it_starts(
    store: Store, worker: Worker, clock: ManualClock, per: int, grace: int, within: int
) -> None:
    put(store, "a", "b", lane=Lane("k", rate=1, per=per))
    (lease,) = take(worker, grace)
    assert lease.extras.start_within == within
    assert worker.exchange(take=worker.asks(9), number=worker.number).leases[0].extras.start_within == within
    assert look(store, "b").due == clock.now() + 2 * within + per


def test_only_a_rate_says_how_soon_a_job_starts(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=Lane("k", limit=3))
    assert worker.take_one().extras.start_within is None
    put(store, "b", lane=SLOW)
    lease = worker.take_one()
    assert lease.extras.start_within == WITHIN
    put(store, "c", lane=Lane("k", rate=0))
    worker.settle(lease, Kind.AGAIN)
    assert {lease.id: lease.extras.start_within for lease in worker.take(9)} == {"b": None, "c": None}


def test_what_never_started_is_not_counted(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc", lane=SLOW)
    first, second = worker.take(9)
    clock.advance(5)
    worker.exchange([outcome(lease, Kind.RELEASED) for lease in (first, second)])
    assert lane(store).next_start is None
    assert len(worker.take(9)) == 2
    assert worker.take(9) == []


def test_what_never_started_is_not_counted_when_others_were_handed_out_since(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, *"abcd", lane=SLOW)
    first = worker.take_one()
    clock.advance(5)
    second = worker.take_one()
    worker.settle(first, Kind.RELEASED)
    assert lane(store).next_start is None
    clock.advance(5)
    third = worker.take_one()
    assert worker.take(9) == []
    assert lane(store).next_start == clock.now() - 5 + WINDOW
    worker.exchange([outcome(lease, Kind.RELEASED) for lease in (second, third)])
    assert len(worker.take(9)) == 2


def test_what_a_dead_worker_held_is_counted(store: Store, worker: Worker, clock: ManualClock) -> None:
    """It may have run, and its worker died before it could say so."""
    put(store, *"abc", lane=SLOW)
    worker.take(9)
    worker.close(crashed=())
    assert lane(store).next_start == clock.now() + WINDOW


def test_a_worker_that_needs_long_does_not_let_later_starts_be_forgotten(
    store: Store, worker: Worker, clock: ManualClock
) -> None:
    put(store, *"abc", lane=SLOW)
    asked = worker.asks(1)
    slow = worker.exchange(take=type(asked)(asked.queues, 1, grace=400)).leases
    clock.advance(10)
    quick = worker.take(9)
    assert [lease.extras.start_within for lease in (*slow, *quick)] == [400, 395]
    for lease in (*slow, *quick):
        worker.settle(lease)
    store.run(store.delete(["a", "b", "c"]))
    clock.advance(1_700)
    assert store.run(store.lane("default", "k")) is not None


class Delays:
    """Workers that send, hear of and start everything after random delays; one moment after the other."""

    def __init__(self, store: Store, clock: ManualClock, seed: int, jobs: int) -> None:
        self.store, self.clock, self.random, self.left = store, clock, random.Random(seed), jobs
        self.starts: list[int] = []
        self.given_back = 0
        self._moments: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._tie = itertools.count()

    def later(self, delay: int, what: Callable[..., None], *about: Any) -> None:
        heapq.heappush(self._moments, (self.clock.now() + delay, next(self._tie), what, about))

    def run(self) -> None:
        while self.left:
            moment, _, what, about = heapq.heappop(self._moments)
            self.clock.advance(moment - self.clock.now())
            what(*about)

    def send(self, worker: Worker) -> None:
        self.later(self.random.choice((0, 1, 3, 15, 30)), self.hand_out, worker, self.clock.now())

    def hand_out(self, worker: Worker, sent: int) -> None:
        asked = worker.asks(self.random.choice((1, 2, 5)))
        grace = self.random.choice((0, 0, 0, 35))
        for lease in worker.exchange(take=type(asked)(asked.queues, asked.slots, grace=grace)).leases:
            self.later(self.random.choice((0, 0, 1, 2, 8, 17, 40)), self.start, worker, lease, sent)
        self.later(self.random.choice((3, 10, 40)), self.send, worker)

    def start(self, worker: Worker, lease: Lease, sent: int) -> None:
        assert lease.extras.start_within is not None
        if self.clock.now() - sent > lease.extras.start_within:
            self.given_back += 1
            worker.settle(lease, Kind.RELEASED)
        else:  # and from the look at the clock to the first line of the task it takes a moment, too
            self.starts.append(self.clock.now() + self.random.choice((0, 0, 0, 5, lease.extras.start_within)))
            self.left -= 1
            self.later(self.random.choice((50, 120)), self.done, worker, lease, self.clock.steady())

    def done(self, worker: Worker, lease: Lease, began: int) -> None:
        worker.settle(lease, Kind.DONE, began=began)


@pytest.mark.parametrize("seed", range(volume(4)))
def test_random_delays_never_let_more_start_than_the_rate_allows(store: Store, clock: ManualClock, seed: int) -> None:
    rate, per, jobs = 4, 1_000, 40
    put(store, *(f"j{n}" for n in range(jobs)), lane=Lane("k", rate=rate, per=per))
    world = Delays(store, clock, seed, jobs)
    for name in "uvw":
        world.send(Worker(store, clock, name=name))
    began = clock.now()
    world.run()
    starts = sorted(world.starts)
    assert all(later - earlier >= per for earlier, later in zip(starts, starts[rate:], strict=False))
    assert world.given_back
    assert clock.now() - began < 1.3 * jobs / rate * per
