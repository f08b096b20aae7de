"""How many leases a worker holds ready, in numbers: no clock, no store."""

from __future__ import annotations

import pytest

from headrace.records import Kind, Outcome
from headrace.worker.lookahead import Asking, Lookahead


def settled(ahead: Lookahead, rate: float, exchange: float) -> int:
    """What it comes to when jobs end at this rate, and exchanges take this long."""
    spare = 0
    for _ in range(30):
        jobs = max(spare, 1)
        ahead.exchanged(exchange)
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
    ahead.exchanged(0.001)
    assert ahead.spare() == 0


def test_what_is_held_ready_doubles_when_it_runs_out_and_stays_when_it_does_not() -> None:
    ahead = Lookahead(slots=4, batch=350)
    grown = []
    for ran_out in (True, True, False, True):
        ahead.ended(1_000, 0.01, ran_out=ran_out)
        grown.append(ahead.spare())
    assert grown == [4, 8, 8, 16]


def test_nothing_is_held_ready_behind_slow_jobs() -> None:
    ahead = Lookahead(slots=4, batch=350)
    assert settled(ahead, 10_000, 0.001) > 0
    ahead.stuck()
    assert ahead.spare() == 0


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
