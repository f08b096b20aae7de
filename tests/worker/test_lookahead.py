"""How many leases a worker holds ready, in numbers: no clock, no store."""

from __future__ import annotations

import math
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.records import Kind, Lease, Outcome
from headrace.worker import leases
from headrace.worker.executors import line_up
from headrace.worker.leases import Lookahead
from headrace.worker.run import Run
from headrace.worker.session import Asking


def settled(ahead: Lookahead, rate: float, exchange: float) -> int:
    """What it comes to when jobs end at this rate, and exchanges take this long."""
    spare = 0
    for _ in range(30):
        jobs = max(spare, 1)
        ahead.pace.exchanged(exchange)
        ahead.ended(jobs, jobs / rate, ran_out=True)
        spare = ahead.spare()
    return spare


@pytest.mark.parametrize(
    ("rate", "exchange", "spare"),
    [
        (1_000, 0.001, 10),
        (1_000, 0.003, 10),
        (1_000, 0.006, 18),
        (1_000, 0.100, 25),
        (50_000, 0.001, 350),
        (20_000, 0.001, 200),
        (50, 0.001, 0),
    ],
)
def test_as_much_work_as_is_held_ready(rate: float, exchange: float, spare: int) -> None:
    """Ten milliseconds of it; as much as three exchanges take, up to 25 ms; no more jobs than the store's batch."""
    assert settled(Lookahead(slots=4, batch=350), rate, exchange) in (spare, spare - 1)


def test_nothing_is_held_ready_before_anything_has_ended() -> None:
    ahead = Lookahead(slots=4, batch=350)
    ahead.pace.exchanged(0.001)
    assert ahead.spare() == 0


def test_what_is_held_ready_doubles_when_it_runs_out_and_stays_when_it_does_not() -> None:
    ahead = Lookahead(slots=4, batch=350)
    grown = []
    for ran_out in (True, True, False, True):
        ahead.ended(1_000, 0.01, ran_out=ran_out)
        grown.append(ahead.spare())
    assert grown == [4, 8, 8, 16]


def test_a_job_that_takes_no_time_by_the_clock_took_some() -> None:
    ahead = Lookahead(slots=4, batch=350)
    ahead.ended(1, -0.0004, ran_out=True)
    assert ahead.pace.rate == 1_000


def test_nothing_is_held_ready_behind_slow_jobs() -> None:
    ahead = Lookahead(slots=4, batch=350)
    assert settled(ahead, 10_000, 0.001) > 0
    ahead.stuck()
    assert ahead.spare() == 0


def test_less_is_held_ready_for_a_while_after_jobs_of_several_priorities_came() -> None:
    """7 ms of work, or as much as an exchange takes; quick jobs are also exchanged for others within that time."""
    ahead = Lookahead(slots=4, batch=500)
    assert settled(ahead, 1_000, 0.001) in (9, 10)
    ahead.replied({0}, 0)
    assert not ahead.mixed
    ahead.replied({9}, 0)
    assert ahead.seconds == 0.007
    assert settled(ahead, 1_000, 0.001) in (6, 7)
    assert settled(ahead, 1_000, 0.010) in (9, 10)
    assert settled(ahead, 50_000, 0.001) == pytest.approx(175, rel=0.1)  # one takes 20 µs, and its exchange as long
    for _ in range(30):
        ahead.pace.exchanged(0.005, leases=500)
    assert settled(ahead, 50_000, 0.001) == pytest.approx(233, rel=0.1)  # which was found to take 10 µs
    ahead.replied_at += 11
    assert ahead.seconds == 0.010


@pytest.mark.parametrize(
    ("answers", "above", "seconds"),
    [
        ([{0}, {0}], 0, 0.025),
        ([{0}, {9}], 0, 0.025),
        ([{0, 9}, {9}], 0, 0.025),
        ([{0, 9}, {9}, {9}], 9, 0.025),
        ([{-5}, {-5}], -5, 0.010),
        ([{-5}, {0}], -5, 0.007),
    ],
    ids=str,
)
def test_much_is_held_ready_where_the_store_rings_for_urgent_jobs(
    answers: list[set[int]], above: int, seconds: float
) -> None:
    """Unless jobs of the usual priority are the urgent ones: nothing rings for these."""
    ahead = Lookahead(slots=4, batch=500, rings=True)
    for priorities in answers:
        ahead.replied(priorities, 0)
    assert (ahead.above, ahead.seconds) == (above, seconds)


@pytest.mark.parametrize(("brought", "at_once"), [({0}, True), ({9, 0}, False)], ids=str)
def test_a_ring_after_an_exchange_that_brought_urgent_jobs_was_most_likely_for_these(
    brought: set[int], at_once: bool
) -> None:
    ahead = Lookahead(slots=4, batch=500, rings=True)
    ahead.replied({0}, 0)
    ahead.replied(brought, 0)
    assert ahead._took_urgent_at == (-math.inf if at_once else ahead.replied_at)
    ahead.rung()
    assert at_once or ahead.urgent_at == ahead.replied_at + leases.RING_SECONDS


class Exchanges:
    """A pump's exchanges with a store, by a clock of their own: each takes this long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slots: int, seconds: float, *, overlaps: bool = False) -> None:
        self.now = 0.0
        monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.ahead = Lookahead(slots, batch=500, rings=overlaps, overlaps=overlaps)
        self.slots, self.seconds = slots, seconds
        self.hand = self.idle = 0.0

    def work(self, seconds: float, pace: float) -> int:
        """Jobs end at this pace as long as there are any. Returns how many did."""
        done = min(self.hand, seconds * pace)
        self.hand -= done
        self.now += seconds
        if not self.hand:
            self.idle += seconds - done / pace
            self.ahead.rested(seconds - done / pace)
        return round(done)

    def exchange(self, ended: int, pace: float) -> int:
        """Settle, and take what is wanted. Returns how many jobs have ended meanwhile."""
        free = self.slots - round(self.hand)
        wanted = max(free, 0) + self.ahead.wanted(ended, free)
        meanwhile = self.work(self.seconds, pace)
        self.ahead.pace.exchanged(self.seconds)
        self.ahead.replied({0} if wanted else set(), round(self.hand))
        self.hand += wanted
        return meanwhile


def test_a_line_that_is_empty_when_leases_come_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although some still ran when they were asked for: two of eight, then six, then two again, for ever."""
    exchanges = Exchanges(monkeypatch, slots=8, seconds=0.0004)
    exchanges.hand = 2
    ended = 6
    for _ in range(20):
        ended = exchanges.exchange(ended, pace=50_000)
        assert exchanges.hand > 0
    assert exchanges.ahead.spare() > 20, "so many end during an exchange"


@pytest.mark.parametrize(("pace", "exchange"), [(4_000, 0.003), (4_000, 0.008), (20_000, 0.002), (1_000, 0.030)])
def test_the_pace_is_that_of_the_work_however_long_exchanges_take(
    pace: int, exchange: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that end while an exchange is under way took its time, and those that there are none of took none."""
    exchanges = Exchanges(monkeypatch, slots=8, seconds=exchange)
    ended = 0
    for _ in range(100):
        ended = exchanges.exchange(ended, pace)
        ended += exchanges.work(max(0.0, exchanges.ahead.due_at - exchanges.now), pace)
    assert exchanges.ahead.pace.rate == pytest.approx(pace, rel=0.15)
    seconds = min(max(0.010, 3 * exchange), 0.025)
    assert exchanges.hand <= 8 + pace * seconds * 1.15, "the work in hand is bounded by the pace"


@pytest.mark.parametrize(("overlaps", "idle"), [(True, 0.0), (False, 0.3)])
def test_jobs_run_while_a_store_elsewhere_hands_out_more(
    overlaps: bool, idle: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More are asked for when as many are left as end meanwhile. What is in hand stays bounded by the pace."""
    pace = 40_000
    exchanges = Exchanges(monkeypatch, slots=8, seconds=0.005, overlaps=overlaps)
    ahead = exchanges.ahead
    ended = 0
    for number in range(60):
        if number == 40:
            exchanges.idle, began = 0.0, exchanges.now
        ended = exchanges.exchange(ended, pace)
        assert exchanges.hand <= 8 + pace * leases.MOST_SECONDS
        ended += exchanges.work(max(1, exchanges.hand - ahead.low) / pace, pace)
    assert (ahead.low > 8) == overlaps
    assert exchanges.idle / (exchanges.now - began) == pytest.approx(idle, abs=0.05)


def test_two_batches_are_held_ready_where_one_is_handed_out_while_the_other_runs() -> None:
    ahead = Lookahead(slots=4, batch=350, rings=True, overlaps=True)
    assert settled(ahead, 50_000, 0.002) == 700
    assert ahead.low == pytest.approx(4 + 100, abs=1), "so many end in 2 ms"
    assert settled(ahead, 50_000, 0.020) == 700
    assert ahead.low == 4 + 350, "no more than a batch is left when the next is asked for"
    assert ahead.wanted(0, 4 - 100 - 4) == 350, "nor are more than that asked for at once"


def waiting(*jobs: str) -> list[Run]:
    """Leases of a queue each, with a priority: `a9`."""
    return [
        Run(Lease(number, 1, job, "task", job[0], b"", priority=int(job[1:])), cast("Any", None), cast("Any", None))
        for number, job in enumerate(jobs)
    ]


@pytest.mark.parametrize(
    ("hand", "new", "order"),
    [
        (["a0", "a0"], ["a0"], "a0 a0 a0"),
        (["a0", "a0"], ["a9"], "a9 a0 a0"),
        (["a9", "a5", "a0"], ["a9", "a5", "a1", "a0"], "a9 a9 a5 a5 a1 a0 a0"),
        (["a0", "b0", "a0"], ["b9"], "a0 b9 a0 b0"),
        (["a0", "a0"], ["b9"], "a0 a0 b9"),
    ],
)
def test_a_lease_of_higher_priority_goes_before_those_in_hand(hand: list[str], new: list[str], order: str) -> None:
    """Of its own queue: which queue comes first is up to the worker."""
    line = deque(waiting(*hand))
    line_up(line, waiting(*new))
    assert " ".join(run.id for run in line) == order


def grace_after(*takes: list[int]) -> int:
    """What a worker asks for after takes whose jobs of a lane with a rate started so many milliseconds later."""
    asking = Asking(["default"], round_robin=False)
    for number, delays in enumerate(takes):
        asked = 10_000 * number
        for delay in delays:
            asking.started(asked, Outcome(ref=1, token=1, id="1", kind=Kind.DONE, began=asked + delay))
    return asking.take(1, 0).grace


def test_one_late_take_costs_the_rate_nothing() -> None:
    """Twice the time that a worker asks for is lost to the rate: it must not grow because a machine was busy once."""
    assert grace_after([300]) == 0
    assert grace_after([3], [3], [110, 111, 112, 110], [3]) == 4


def test_a_worker_that_is_always_late_asks_for_the_time_that_it_needs() -> None:
    assert grace_after([40], [50]) == 60
    assert grace_after(*[[50, 40]] * 20) == 75
    assert grace_after(*[[9_000]] * 3) == 1_000


def test_a_worker_that_was_slow_forgets_it() -> None:
    assert grace_after(*[[50]] * 9, *[[2]] * 4) == 3
