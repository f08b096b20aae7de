"""How many leases a worker holds ready, in numbers: no clock, no store."""

from __future__ import annotations

import pytest

from headrace.worker.lookahead import Lookahead


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
