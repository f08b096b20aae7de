"""The leases in hand: from the store's answer to their outcomes, which wait here for the next exchange."""

from __future__ import annotations

import time
from collections import deque

from headrace import crashpoints
from headrace.records import Kind, Outcome, Ref
from headrace.store.contract import Waiter
from headrace.worker.deadlines import Deadlines
from headrace.worker.ledger import Ledger
from headrace.worker.lookahead import Asking, Lookahead
from headrace.worker.outcomes import release
from headrace.worker.run import Run
from headrace.worker.session import Session


class Leases:
    """Filled and emptied by the pump; executors call `begin`, `enter` and `end`, in any thread."""

    def __init__(
        self,
        session: Session,
        waiter: Waiter,
        asking: Asking,
        ledger: Ledger | None,
        *,
        slots: int,
        max_jobs: int | None,
    ) -> None:
        self.slots = slots
        self.left = max_jobs
        """How many more jobs this process may start."""
        self.stopping = False
        """Nothing more is to be taken."""
        self.closed = False
        """The pump has ended. What still runs is settled late."""
        self.waiting: dict[Run, bool] = {}
        """Leases that no executor has started yet. A thread that pops a True owns it."""
        self.running: dict[Run, bool] = {}
        """By run, not by job: one that was taken away and came back runs anew while its old run still ends."""
        self.outcomes: deque[Outcome] = deque()
        self.ahead = Lookahead(slots, session.store.batch)
        self.deadlines = Deadlines(session.steady)
        self.asleep = False
        """Whether the pump sleeps, and is to be woken."""
        self.moved = 0
        """When leases last came or one of them was started, on the steady clock."""
        self._waiter = waiter
        self._session = session
        self._asking = asking
        self._ledger = ledger
        self.steady = session.steady

    @property
    def in_hand(self) -> int:
        """Leases held and not yet settled by an executor."""
        return len(self.waiting) + len(self.running)

    @property
    def room(self) -> int:
        """How many more jobs may start. Below zero while spare leases wait."""
        room = 0 if self.stopping or self._session.gone else self.slots - self.in_hand
        return room if self.left is None else min(room, self.left)

    def ripe(self) -> bool:
        """Whether outcomes are worth a round trip: while spare leases wait for a quick thread, more come at once.

        As long as there is time for a round trip each, none waits: what waits runs again should this process be killed.
        """
        ahead = self.ahead
        return bool(self.outcomes) and (
            ahead.calm or self.in_hand <= self.slots or ahead.hurried or time.monotonic() >= ahead.due_at
        )

    def idle(self) -> float:
        """For how many seconds there has been nothing to run since the last outcome."""
        last = None if self.in_hand or not self.outcomes else self.outcomes[-1].ended
        return 0.0 if last is None else (self.steady() - last) / 1000

    def wake(self) -> None:
        """End the pump's sleep."""
        if self.asleep:
            self.asleep = False
            self._waiter.poke()

    # -- for executors --

    def begin(self, run: Run, *, entering: bool = True) -> bool:
        """May this run start? Not if the pump has given it back, or others may have it: the process, or its machine,
        may have slept until its lease had run out. `entering`: its function comes next.
        """
        run.beat = self.moved = now = self.steady()
        self.running[run] = True  # first, so that it is in one of the two at any moment
        if not self.waiting.pop(run, False):
            del self.running[run]
            return False
        session = self._session
        if session.gone or now > (run.sure_until or session.sure_until):
            # Other workers may have it. (Asked when it is in `running`: `stop_all` finds it there, or is seen here.)
            del self.running[run]
            self._give_back(run)
            return False
        limit = None
        options = run.lease.options  # most jobs with some have no time-out of their own: a look spares decoding them
        if (options is not None and b'"timeout"' in options) or (run.task is not None and run.task.limited):
            limit = run.time_limit
            self.deadlines.watch(run)
            self.wake()
        if entering and self._ledger is not None:
            run.place = self._ledger.enter(run.lease.ref, now, limit)
        if crashpoints.armed:
            crashpoints.reach("run.begin")
        return True

    def enter(self, run: Run) -> bool:
        """A run that took time to prepare enters its function: from here on a crash is its own. False: it may not."""
        now, session = self.steady(), self._session
        if session.gone or now > (run.sure_until or session.sure_until):
            return False
        run.began = run.beat = now
        if self._ledger is not None:
            run.place = self._ledger.enter(run.lease.ref, now, run.time_limit)
        return True

    def end(self, run: Run, outcome: Outcome) -> None:
        """A run has ended."""
        if crashpoints.armed:
            crashpoints.reach("run.end")
        if self._ledger is not None:
            self._ledger.leave(run.place)
        if run.start_by is not None:
            self._learn_start(run, run.start_by, outcome)
        self.outcomes.append(outcome)
        self.running.pop(run, None)
        if self.asleep and self.ripe():
            self.wake()

    def _learn_start(self, run: Run, start_by: int, outcome: Outcome) -> None:
        self._asking.started(start_by - (run.lease.start_within or 0), outcome)
        if self.left is not None and outcome.kind is Kind.RELEASED and outcome.began is None:
            self.left += 1

    # -- for the pump --

    def take_outcomes(self, most: int) -> list[Outcome]:
        return [self.outcomes.popleft() for _ in range(min(len(self.outcomes), most))]

    def started_spares(self) -> list[Ref]:
        """Spare leases that have been running for a while: no longer spare, should this process die."""
        started = []
        horizon = self.steady() - 100
        for run in tuple(self.running):
            if run.lease.spare and run.began is not None and run.began <= horizon:
                run.lease.spare = False
                started.append(run.lease.ref)
        return started

    def release(self, run: Run) -> bool:
        """Give back a lease that no executor has started. False: one has."""
        if not self.waiting.pop(run, False):
            return False
        self._give_back(run)
        return True

    def _give_back(self, run: Run) -> None:
        self.outcomes.append(release(run))
        if self.left is not None:
            self.left += 1

    def release_waiting(self) -> None:
        for run in tuple(self.waiting):
            self.release(run)

    def stop_all(self, reason: str) -> None:
        """Give back what waits, and stop what runs."""
        self.release_waiting()
        for run in tuple(self.running):
            run.stop(reason)
