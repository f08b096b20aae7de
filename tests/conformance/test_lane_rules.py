"""What a lane goes by: what its puts say, and what an operator has set."""

from __future__ import annotations

import pytest

from headrace.errors import ConfigurationError
from headrace.records import Kind, Lane, Put, State
from headrace.store.contract import Facet, Store
from headrace.store.lanes import LaneChange, LaneListed, LaneRule, LaneSnapshot
from headrace.values.clock import ManualClock

from .helpers import Worker, exists, ids, look, new, put, state

pytestmark = pytest.mark.needs(Facet.LANES)

SILENT = Lane("k")
SECOND = 1_000
WITHIN = 30
"""How long after its hand-out a start counts with a rate of one second."""


def lane(store: Store, key: str = "k", queue: str = "default") -> LaneSnapshot:
    found = store.run(store.lane(queue, key))
    assert found is not None
    return found


def set_lane(store: Store, limit: int | None = None, rate: int | None = None, per: int = SECOND, by: str = "") -> None:
    store.run(store.set_lane("default", "k", limit=limit, rate=rate, per=per, by=by))


def figures(store: Store, queue: str = "default", limit: int = 100) -> list[LaneListed]:
    found: dict[str, LaneListed] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = store.run(store.lanes(queue, cursor, limit))
        found |= {each.lane.key: each for each in page.lanes}
        cursor = page.cursor
    return [found[key] for key in sorted(found)]


# -- puts --


@pytest.mark.parametrize(
    "rules", [Lane("k", limit=4), Lane("k", rate=4, per=9 * SECOND), Lane("k", limit=2, rate=3, weight=5)], ids=str
)
def test_a_put_that_says_nothing_changes_nothing(store: Store, worker: Worker, rules: Lane) -> None:
    put(store, *"abcd", lane=rules)
    before = lane(store).lane
    assert store.run(store.put([new("e", lane=SILENT)])) == [Put("e", True)]
    assert (lane(store).lane, lane(store).change) == (before, None)
    assert look(store, "e").lane == SILENT
    assert len(worker.take(9)) == min(rules.limit or 9, rules.rate or 9)


def test_four_at_once_stay_four_when_a_fifth_says_nothing(store: Store, worker: Worker) -> None:
    put(store, *"abcd", lane=Lane("k", limit=4))
    put(store, "e", lane=SILENT)
    assert ids(worker.take(9)) == "abcd"
    assert state(store, "e") is State.BLOCKED


def test_a_put_changes_only_what_it_says(store: Store) -> None:
    put(store, "a", lane=Lane("k", limit=4, rate=9, per=5 * SECOND))
    put(store, "b", lane=Lane("k", weight=3))
    put(store, "c", lane=Lane("k", limit=2))
    assert lane(store).lane == Lane("k", limit=2, rate=9, per=5 * SECOND, weight=3)


def test_nought_lifts_a_limit_and_a_rate(store: Store, worker: Worker) -> None:
    put(store, *"abc", lane=Lane("k", limit=1, rate=1))
    worker.take(9)
    put(store, "d", lane=Lane("k", limit=0))
    assert worker.take(9) == []
    put(store, "e", lane=Lane("k", rate=0))
    assert ids(worker.take(9)) == "bcde"
    assert lane(store).lane == Lane("k", weight=1)


def test_a_change_is_told_and_remembered(store: Store, clock: ManualClock) -> None:
    put(store, "a", lane=Lane("k", limit=4))
    assert lane(store).change is None
    clock.advance(5)
    words = "limit 4 to 5, rate none to 2 in 60000 ms, weight 1 to 3"
    changing = new("b", lane=Lane("k", limit=5, rate=2, per=60 * SECOND, weight=3))
    assert store.run(store.put([new("x"), changing, new("c", lane=Lane("k", limit=5))])) == [
        Put("x", True),
        Put("b", True, words),
        Put("c", True),
    ]
    assert lane(store).change == LaneChange(clock.now(), "b", words)
    assert store.run(store.put([changing])) == [Put("b", True)]  # a repeat


def test_a_lane_begins_anew_when_nothing_is_left_to_remember(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, "a", lane=Lane("k", limit=1, rate=1))
    worker.run_one()
    clock.advance(500)
    put(store, "b", lane=SILENT)
    assert (lane(store).lane.limit, lane(store).lane.rate) == (1, 1)
    clock.advance(SECOND)
    worker.run_one()
    clock.advance(9 * SECOND)
    assert store.run(store.lane("default", "k")) is None
    put(store, "c", lane=SILENT)
    assert lane(store) == LaneSnapshot(queue="default", lane=Lane("k", weight=1), front="c")


def test_a_job_that_comes_back_changes_nothing(store: Store, worker: Worker) -> None:
    put(store, "a", lane=Lane("k", limit=1))
    put(store, "b", lane=Lane("k", limit=3))
    worker.run_one(Kind.FAILED)
    assert store.run(store.revive(["a"])) == [True]
    assert lane(store).lane.limit == 3


# -- what operators set --


def test_what_is_set_wins_over_puts(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc", lane=Lane("k", limit=3))
    set_lane(store, limit=1, by="ada")
    assert ids(worker.take(9)) == "a"
    assert store.run(store.put([new("d", lane=Lane("k", limit=9))])) == [Put("d", True)]
    assert worker.take(9) == []
    found = lane(store)
    assert (found.lane.limit, found.rule) == (1, LaneRule(limit=1, by="ada", at=clock.now()))
    assert found.change is None


def test_what_is_set_can_be_more_than_puts_say(store: Store, worker: Worker) -> None:
    put(store, *"abc", lane=Lane("k", limit=1))
    worker.take(9)
    set_lane(store, limit=0)
    assert ids(worker.take(9)) == "bc"


def test_limit_and_rate_are_set_one_after_the_other(store: Store, clock: ManualClock) -> None:
    put(store, "a", lane=Lane("k", limit=3, rate=3))
    set_lane(store, limit=2, by="ada")
    clock.advance(1)
    set_lane(store, rate=5, per=60 * SECOND, by="bob")
    assert lane(store).rule == LaneRule(limit=2, rate=5, per=60 * SECOND, by="bob", at=clock.now())
    assert lane(store).lane == Lane("k", limit=2, rate=5, per=60 * SECOND, weight=1)


def test_a_rate_that_is_set_holds_starts_back(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc", lane=SILENT)
    set_lane(store, rate=1)
    assert ids(worker.take(9)) == "a"
    assert state(store, "b") is State.SCHEDULED
    clock.advance(SECOND + WITHIN)
    assert ids(worker.take(9)) == "b"
    assert store.run(store.clear_lane("default", "k"))
    assert ids(worker.take(9)) == "c"


def test_what_is_set_outlives_the_lane(store: Store, worker: Worker, clock: ManualClock) -> None:
    set_lane(store, limit=1, rate=5, by="ada")
    rule, at = lane(store).rule, clock.now()
    assert rule == LaneRule(limit=1, rate=5, by="ada", at=at)
    for name in ("ab", "cd"):
        put(store, *name, lane=Lane("k", limit=7))
        (lease,) = worker.take(9)
        assert lease.id == name[0]
        worker.settle(lease)
        worker.run_one()
        clock.advance(60 * SECOND)
        store.run(store.sweep())
        assert lane(store) == LaneSnapshot(queue="default", lane=Lane("k", limit=1, rate=5, weight=1), rule=rule)


def test_what_is_cleared_leaves_what_puts_said(store: Store, worker: Worker) -> None:
    put(store, *"abc", lane=Lane("k", limit=1, weight=2))
    set_lane(store, limit=9, rate=4)
    put(store, "d", lane=Lane("k", limit=2))
    assert store.run(store.clear_lane("default", "k"))
    assert lane(store).lane == Lane("k", limit=2, weight=2)
    assert lane(store).rule is None
    assert ids(worker.take(9)) == "ab"
    assert not store.run(store.clear_lane("default", "k"))


def test_to_clear_a_lane_without_jobs_leaves_nothing(store: Store) -> None:
    assert not store.run(store.clear_lane("default", "k"))
    set_lane(store, limit=1)
    assert store.run(store.clear_lane("default", "k"))
    assert store.run(store.lane("default", "k")) is None
    assert figures(store) == []


def test_a_rate_that_is_cleared_is_forgotten(store: Store, worker: Worker) -> None:
    set_lane(store, rate=1, per=60 * SECOND)
    put(store, "a", lane=SILENT)
    worker.run_one()
    assert lane(store).next_start is not None
    assert store.run(store.clear_lane("default", "k"))
    assert store.run(store.lane("default", "k")) is None


def test_a_rule_is_of_one_lane(store: Store, worker: Worker) -> None:
    set_lane(store, limit=1)
    put(store, *"ab", lane=SILENT)
    put(store, *"cd", lane=Lane("l"))
    put(store, *"ef", lane=SILENT, queue="other")
    assert "".join(sorted(ids(worker.take(9, 0, "default", "other")))) == "acdef"


def test_a_sequence_stays_one_at_a_time(store: Store, worker: Worker) -> None:
    set_lane(store, limit=5)
    put(store, *"ab", lane=Lane("k", sequence=True))
    assert ids(worker.take(9)) == "a"


@pytest.mark.parametrize(
    "wrong", [{}, {"limit": -1}, {"rate": -1}, {"rate": 10_001}, {"rate": 1, "per": 0}, {"limit": 2**48}], ids=str
)
def test_what_can_not_be_set_is_refused(store: Store, wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        store.run(store.set_lane("default", "k", **wrong))
    with pytest.raises(ConfigurationError):
        store.run(store.set_lane("default", "", limit=1))
    assert store.run(store.lane("default", "k")) is None


def test_a_job_that_was_moved_goes_by_what_is_set(store: Store, worker: Worker) -> None:
    store.run(store.set_lane("other", "k", limit=1))
    put(store, *"ab", lane=Lane("k", limit=9))
    for lease in worker.take(9):
        worker.settle(lease, Kind.MOVED, queue="other")
    assert ids(worker.take(9, 0, "other")) == "a"
    assert exists(store, "b")


# -- looking --


def test_lanes_of_a_queue_are_listed(store: Store, worker: Worker, clock: ManualClock) -> None:
    put(store, *"abc", lane=Lane("k", limit=2, rate=5))
    put(store, "d", lane=Lane("l"))
    put(store, "e", lane=Lane("l"), queue="other")
    worker.take(2)
    store.run(store.set_lane("default", "m", limit=4, by="ada"))
    store.run(store.set_lane("default", "k", limit=1))
    now = clock.now()
    wanted = [
        LaneListed(lane=Lane("k", limit=1, rate=5, weight=1), unfinished=3, running=2, rule=LaneRule(limit=1, at=now)),
        LaneListed(lane=Lane("l", weight=1), unfinished=1),
        LaneListed(lane=Lane("m", limit=4, weight=1), rule=LaneRule(limit=4, by="ada", at=now)),
    ]
    found = figures(store)
    running = {each.lane.key: each.running for each in found}
    assert running["k"] + running["l"] == 2
    assert [(each.lane, each.unfinished, each.rule) for each in found] == [
        (each.lane, each.unfinished, each.rule) for each in wanted
    ]
    assert [each.lane.key for each in figures(store, "other")] == ["l"]
    assert figures(store, "nowhere") == []


def test_all_that_is_set_is_listed(store: Store, clock: ManualClock) -> None:
    assert store.run(store.lane_rules()) == []
    store.run(store.set_lane("q: 1", "m:ü", limit=4, by="ada"))
    store.run(store.set_lane("default", "k", rate=0))
    put(store, "a", lane=Lane("l", limit=1))
    assert store.run(store.lane_rules()) == [
        ("default", "k", LaneRule(rate=0, at=clock.now())),
        ("q: 1", "m:ü", LaneRule(limit=4, by="ada", at=clock.now())),
    ]


def test_many_lanes_come_in_pages(store: Store) -> None:
    for number in range(150):
        put(store, f"j{number}", lane=Lane(f"k{number:03}"))
    store.run(store.set_lane("default", "z", limit=1))
    assert [each.lane.key for each in figures(store, limit=40)] == [*(f"k{number:03}" for number in range(150)), "z"]


@pytest.mark.needs(Facet.EVENTS)
def test_changes_are_events(store: Store, clock: ManualClock) -> None:
    put(store, "a", lane=Lane("k", limit=4))
    cursor = store.run(store.listen())
    clock.advance(1)
    put(store, "b", lane=Lane("k", limit=5))
    put(store, "c", lane=SILENT)
    set_lane(store, limit=0, rate=3, per=60 * SECOND)
    store.run(store.clear_lane("default", "k"))
    found = [event for event in store.run(store.events(cursor)).events if event.what == "set"]
    assert [(event.job, event.task, event.queue, event.detail) for event in found] == [
        ("b", "task", "default", "lane k: limit 4 to 5"),
        ("", "", "default", "lane k: limit none, rate 3 in 60000 ms"),
        ("", "", "default", "lane k: cleared"),
    ]
    assert {event.at for event in found} == {clock.now()}
