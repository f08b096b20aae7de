"""How often many idle workers ask for a sweep, counted on a clock that the test moves."""

from __future__ import annotations

import heapq
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.store.contract import Swept
from headrace.worker import upkeep
from headrace.worker.upkeep import SWEEP_EVERY, Upkeep

ASK_SECONDS = 10.1
"""How often one of many idle workers looks for work, at most: see the waiter on Redis."""


class Fleet:
    """Idle workers of a store that remembers when it was last swept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
        self.now, self.requests, self.sweeps = 1_000.0, 0, [1_000.0]
        self.again_in = round(SWEEP_EVERY * min(max(1, workers / 4), 20))
        chance = random.Random(7)
        monkeypatch.setattr(upkeep, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(upkeep, "random", chance)
        store = SimpleNamespace(sweep=lambda every: every, run=self._sweep)
        ticker = SimpleNamespace(expect=lambda ticks_in: None)
        self.workers = [
            Upkeep(cast("Any", store), cast("Any", ticker), monitor=True, max_memory=None) for _ in range(workers)
        ]
        self.asks = [(self.now + chance.uniform(0, ASK_SECONDS), place) for place in range(workers)]
        heapq.heapify(self.asks)

    def _sweep(self, every: int) -> Swept:
        self.requests += 1
        if self.age() >= every:
            self.sweeps.append(self.now)
        return Swept(again_in=self.again_in)

    def age(self) -> float:
        return 1000 * (self.now - self.sweeps[-1])

    def play(self, seconds: float, *, heard: bool) -> None:
        """`heard`: a look for work says how long ago there was a sweep."""
        end = self.now + seconds
        while self.now < end:
            first = min(self.workers, key=lambda each: each.due_at)
            if self.asks[0][0] <= first.due_at:
                self.now, place = self.asks[0]
                heapq.heapreplace(self.asks, (self.now + ASK_SECONDS, place))
                if heard:
                    self.workers[place].was_swept(round(self.age()))
            else:
                self.now = max(self.now, first.due_at)
                first.do()


def test_idle_workers_that_hear_of_sweeps_do_not_ask_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, 200)
    fleet.play(20, heard=True)
    fleet.requests, before = 0, len(fleet.sweeps)
    fleet.play(20, heard=True)
    swept = len(fleet.sweeps) - before
    assert swept >= 18, "about one a second"
    assert fleet.requests <= 1.5 * swept, "the first that hears that it is time sweeps, and few others ask"
    assert max(after - before for before, after in zip(fleet.sweeps, fleet.sweeps[1:], strict=False)) < 2


def test_those_that_do_not_hear_of_sweeps_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, 200)
    fleet.play(20, heard=False)
    fleet.requests = 0
    fleet.play(20, heard=False)
    assert fleet.requests >= 200


def test_a_few_workers_ask_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """They look for work too seldom to hear of it in time."""
    fleet = Fleet(monkeypatch, 4)
    fleet.play(20, heard=True)
    assert max(after - before for before, after in zip(fleet.sweeps, fleet.sweeps[1:], strict=False)) < 2
    assert len(fleet.sweeps) >= 12
