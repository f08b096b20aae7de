"""How often idle sessions are renewed, counted on a clock that the test moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from headrace import Headrace
from headrace.errors import StoreUnavailable
from headrace.records import ExchangeReply, Renewal, SessionInfo
from headrace.worker.child import Child
from headrace.worker.custody import Custody
from headrace.worker.embedded import Keeper
from headrace.worker.ledger import Ledger
from headrace.worker.lifeline import Lifeline
from headrace.worker.process import Settings
from headrace.worker.pump import Pump
from headrace.worker.renewals import Renewals
from headrace.worker.session import RENEW_AGAIN
from headrace.worker.supervisor import Supervisor

MINUTE = 60_000
INFO = SessionInfo(id="s", name="s", timeout=15_000)


class Hands:
    """A clock that only the test moves, and the renewals that were sent."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.renewals: list[int] = []

    def steady(self) -> int:
        return self.now

    def play(self, renew: Callable[[], int], pump: Callable[[int], None] = lambda now: None, every: int = 0) -> None:
        """A minute in which one side renews when it said it would, and the pump every so many milliseconds."""
        end, come, other = self.now + MINUTE, self.now, self.now
        while self.now < end:
            if every and self.now >= other:
                pump(self.now)
                other += every
            if self.now >= come:
                come = self.now + renew()
            self.now = min(come, other) if every else come


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def app(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headrace]:
    """One on a store that counts renewals."""
    app = Headrace("sqlite:///:memory:")
    app.store.run(app.store.open(INFO))
    renew = app.store.renew

    def counted(*arguments: Any, **more: Any) -> Any:
        hands.renewals.append(hands.now)
        return renew(*arguments, **more)

    monkeypatch.setattr(app.store, "renew", counted)
    yield app
    app.close()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    ledger = Ledger.shared()
    yield ledger
    ledger.close()


@pytest.fixture
def renew(app: Headrace, hands: Hands, ledger: Ledger) -> Callable[[], int]:
    """A supervisor's look at its one process."""
    supervisor = Supervisor(app, Settings(app_path="", store=app.url, queues=("default",), slots=1))
    supervisor._clock = hands  # type: ignore[assignment]
    child = Child(SimpleNamespace(pid=0), INFO, INFO.timeout, ledger, Custody(()), Lifeline())  # type: ignore[arg-type]
    child.renewed = hands.now
    return lambda: supervisor._renew_one(child)


def test_a_process_that_asks_now_and_then_is_renewed_in_between(
    hands: Hands, ledger: Ledger, renew: Callable[[], int]
) -> None:
    """(Thrice within its time-out would make 12.)"""
    hands.play(renew, ledger.renewed, every=15_000)
    assert len(hands.renewals) == 4


@pytest.mark.parametrize("every", [5_000, 10_000])
def test_a_process_that_renews_itself_is_left_alone(
    hands: Hands, ledger: Ledger, renew: Callable[[], int], every: int
) -> None:
    """As on Redis, where one of many idle workers asks every ten seconds, or on SQLite, where it compares."""
    hands.play(renew, ledger.renewed, every=every)
    assert len(hands.renewals) == 1, "but for what only its supervisor tells, twice a minute"


def test_an_idle_session_is_renewed_when_the_answer_comes(app: Headrace, hands: Hands, ledger: Ledger) -> None:
    """The store answers an ask when the wait for work is over. With leases in hand it counts from when it was asked."""
    with closing(Pump(app, INFO.id, queues=["default"], slots=1)) as pump:
        session = pump.session
        session.steady, session._ledger = hands.steady, ledger
        session.is_alive(None, 0, hands.now - 10_000, idle=True)
        assert (session.renewed, ledger.last_renewal) == (hands.now, hands.now)
        assert session.sure_until < hands.now + INFO.timeout - 10_000, "jobs that come with it may be older"
        session.is_alive(None, 0, hands.now - 10_000)
        assert (session.renewed, ledger.last_renewal) == (hands.now - 10_000, hands.now - 10_000)


def test_a_process_that_says_nothing_is_renewed_in_time(hands: Hands, renew: Callable[[], int]) -> None:
    start = hands.now
    hands.play(renew)
    gaps = [after - before for before, after in zip([start, *hands.renewals], hands.renewals, strict=False)]
    assert set(gaps) == {11_000}


def test_a_process_with_jobs_is_renewed_three_times_within_its_time_out(
    hands: Hands, ledger: Ledger, renew: Callable[[], int]
) -> None:
    """Also where it renews itself: the supervisor tells which jobs have been started."""
    ledger.enter(1, hands.now, None)
    hands.play(renew, ledger.renewed, every=1_000)
    assert len(hands.renewals) == 11  # the first is due after 5 seconds


def test_a_renewal_that_says_stop_is_noted_in_the_ledger(
    app: Headrace, hands: Hands, ledger: Ledger, renew: Callable[[], int]
) -> None:
    """Of a supervisor and of a process alike: the supervisor looks there."""
    hands.now += INFO.timeout
    renew()
    assert not ledger.asks_to_stop
    app.store.run(app.store.stop_session(INFO.id))  # type: ignore[attr-defined]
    hands.now += INFO.timeout
    renew()
    assert ledger.asks_to_stop
    with closing(Pump(app, INFO.id, queues=["default"], slots=1)) as pump, closing(Ledger.shared()) as own:
        pump.session._ledger = own
        pump.session.renew([])
        assert own.asks_to_stop


def test_a_renewal_that_failed_is_repeated_soon(
    app: Headrace, hands: Hands, renew: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise StoreUnavailable("no")

    monkeypatch.setattr(app.store, "run", refused)
    hands.now += INFO.timeout
    assert renew() == RENEW_AGAIN


@pytest.mark.parametrize(("seconds", "agreed", "sent"), [(6, False, 0), (10, False, 1), (10, True, 0)])
def test_a_pump_that_holds_nothing_renews_seldom_unless_the_store_has_said_so(
    seconds: int, agreed: bool, sent: int
) -> None:
    """On Redis each ask that finds nothing says so: a renewal after it would be one more request."""
    complete: list[bool] = []

    def renew(held: object, *, complete: bool, asked: list[bool] = complete) -> Renewal:
        asked.append(complete)
        return Renewal(now=0)

    session = SimpleNamespace(timeout=15_000, unanswered=None, store=SimpleNamespace(leases_in_jobs=False), renew=renew)
    renewals = Renewals(session, SimpleNamespace(running={}, waiting=(), outcomes=(), in_hand=0))  # type: ignore[arg-type]
    renewals.checked_at = renewals.compared_at = time.monotonic() - seconds
    if agreed:
        renewals.agree()
    renewals.check_if_due(time.monotonic())
    assert complete == [True] * sent


@pytest.mark.parametrize("in_hand", [0, 1])
def test_a_store_that_knows_of_nothing_agrees_with_a_pump_that_holds_nothing(
    app: Headrace, in_hand: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does hold something asks all the same: it may have lost that."""
    with closing(Pump(app, INFO.id, queues=["default"], slots=1)) as pump:
        monkeypatch.setattr(type(pump.leases), "in_hand", property(lambda _: in_hand))
        pump._renewals.compared_at = 0.0
        pump._apply_reply((), None, ExchangeReply([], [], 0, None, holds_nothing=True))
        assert (pump._renewals.compared_at == 0.0) == bool(in_hand)


@pytest.mark.parametrize(("every", "renewals"), [(15_000, 4), (10_000, 1), (5_000, 1)])
def test_a_worker_without_a_supervisor_counts_what_its_pump_renews(
    app: Headrace, hands: Hands, every: int, renewals: int
) -> None:
    session = SimpleNamespace(id=INFO.id, renewed=0)
    pump = SimpleNamespace(app=app, session=session, leases=SimpleNamespace(running={}))
    keeper = Keeper(pump, INFO.timeout)  # type: ignore[arg-type]
    keeper._steady = hands.steady
    keeper._renewed = hands.now
    hands.play(keeper.renew, lambda now: setattr(session, "renewed", now), every=every)
    assert len(hands.renewals) == renewals
