"""Outcomes wait for company only when the worker is saturated: what waits runs again if the process is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.records import Kind, Lease, Outcome, SessionInfo
from headrace.worker.leases import Leases
from headrace.worker.lookahead import CALM
from headrace.worker.pump import Pump
from headrace.worker.run import Run


@pytest.fixture
def leases() -> Iterator[Leases]:
    """Of a pump whose spare leases wait while an outcome has come."""
    app = Headrace("sqlite:///:memory:")
    app.store.run(app.store.open(SessionInfo(id="s", name="s", timeout=15_000)))
    pump = Pump(app, "s", queues=["default"], slots=2)
    for number in range(5):
        lease = Lease(number, 1, f"{number}", "task", "default", b"{}")
        pump.leases.waiting[Run(lease, None, pump._reports)] = True
    pump.leases.ahead.filled()
    pump.leases.outcomes.append(Outcome(ref=9, token=1, id="9", kind=Kind.DONE))
    yield pump.leases
    pump.close()
    app.close()


@pytest.mark.parametrize(
    ("rate", "trip", "waits"),
    [
        (0, 0.0, False),  # nothing is known yet
        (500, 0.0003, False),
        (500, 0.001, True),  # a store that is further away
        (50_000, 0.0003, True),
    ],
)
def test_outcomes_wait_only_when_there_is_no_time_for_a_round_trip_each(
    leases: Leases, rate: int, trip: float, waits: bool
) -> None:
    leases.ahead.ended(rate, 1.0, ran_out=False)
    for _ in range(50):
        leases.ahead.exchanged(trip)
    assert waits == (rate * trip > CALM)
    assert leases.ripe() is not waits
