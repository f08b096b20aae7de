"""The leases in hand: from the store's answer to their outcomes, which wait here for the next exchange.

And how many to hold ready: enough for quick jobs not to wait for the store, few enough for other workers.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat, starmap
from typing import TYPE_CHECKING, Any

from headrace import crashpoints
from headrace.records import ExchangeReply, Kind, Lease, Outcome, Ref, Verdict
from headrace.task import Task
from headrace.worker.deadlines import Deadlines
from headrace.worker.ledger import Ledger
from headrace.worker.outcomes import put_off, quarantine, rebase, release
from headrace.worker.run import Channel, Run
from headrace.worker.session import Session
from headrace.worker.waiting import Waiting

if TYPE_CHECKING:
    from headrace.worker.executors import Executor

log = logging.getLogger("headrace.worker")

SECONDS, MOST_SECONDS = 0.010, 0.025
"""How much measured work may be held ready."""
EXCHANGES = 3
"""It may be as much as this many exchanges take, within these bounds: where they take long, few are made."""
MIXED_SECONDS, MIXED_FOR = 0.007, 10.0
"""For so many seconds after jobs of several priorities came, more that are urgent may follow. Where the store does not
ring for them they wait for the next exchange, so that much is held ready, or as one takes."""
RING_SECONDS = 0.010
"""Urgent jobs are taken this often at most. What comes meanwhile comes with the next."""
EACH_SECONDS = 20e-6
"""What a lease and the outcome before it add to an exchange, at most."""
SLOW_MILLISECONDS = 5
"""When no lease is started for this long while some wait, jobs are not as quick as they seemed."""
SETTLE_SECONDS, QUICK_SECONDS = 0.005, 0.001
"""Outcomes of jobs that take longer than the latter wait for company no longer than the former."""
SETTLE_TRIPS = 4
"""Or so many times as long as an exchange takes, which is a fifth of the time then."""
STUCK_SECONDS = 0.1
"""A lease that could not start for this long goes back."""
WINDOW_SECONDS = 0.02
"""The pace is that of about this much work."""
CALM, CALM_IF_SLOW = 0.5, 1.0
"""Outcomes wait for company when round trips for each of them would take more than this share of the time. Quick jobs
are slowed down by these round trips, so half of it is too much. Slow ones run side by side and wait for something else:
until it is all of the time, those that end during a round trip are company enough."""


class Pace:
    """How quick jobs and round trips are, lately."""

    def __init__(self) -> None:
        self._jobs = self._seconds = 0.0
        """How many jobs ended, and in how much time in which there was work."""
        self.trip = 0.0
        """How many seconds a round trip takes."""
        self.each = EACH_SECONDS
        """And what each lease adds to it, at most."""
        self.load = 0.0
        """Which share of the time a round trip for each job that ends would take."""

    @property
    def rate(self) -> float:
        """How many jobs end in a second of work."""
        return self._jobs / self._seconds if self._seconds else 0.0

    def exchanged(self, seconds: float, leases: int = 0) -> None:
        """An exchange with the store took so long, with so many leases."""
        self.trip += 0.3 * (seconds - self.trip)
        if leases:
            self.each += 0.3 * (min(seconds / leases, EACH_SECONDS) - self.each)
        self.load = self.rate * self.trip

    def ended(self, jobs: int, seconds: float) -> None:
        """So many jobs ended in this much time."""
        if self._seconds > WINDOW_SECONDS:
            share = WINDOW_SECONDS / self._seconds
            self._jobs *= share
            self._seconds *= share
        self._jobs += jobs
        self._seconds += max(seconds, 0.001)  # what the clock of outcomes can tell apart
        self.load = self.rate * self.trip


class Lookahead:
    """Spare leases: none at first, doubled whenever they ran out, within bounds.

    `batch`: how many are taken at once, at most. `overlaps`: jobs run while the store hands out more, so there may be
    two batches.
    """

    def __init__(self, slots: int, batch: int, *, rings: bool = False, overlaps: bool = False) -> None:
        self.pace = Pace()
        self._slots = slots
        self._rings = rings
        """Whether the store rings for urgent jobs."""
        self._batch = batch
        self._overlaps = overlaps
        self._working_since: float | None = None
        """The part of the time with work that the pace does not have yet. None: it begins with the next leases."""
        self._spare = 0
        self.low = slots
        """When no more leases than this are in hand, more are asked for: so many as end until they come."""
        self.replied_at = time.monotonic()
        """When the store last answered an exchange."""
        self.filled_at = 0.0
        """When it last handed out leases."""
        self._ran_out = False
        """Whether there was hardly one left to run then."""
        self.hurried = True
        """Whether those wait no longer for a thread that is quick."""
        self._priorities: set[int] = set()
        """Of the leases that came last."""
        self._lowest = 0
        """The lowest of these, and of those before."""
        self._took_urgent_at = -math.inf
        self.urgent_at = math.inf
        """When to take what the store has rung for."""
        self._mixed_until = -math.inf
        self.due_at = self.replied_at
        """When what is held ready has been done: outcomes go out, and leases come in. An urgent job waits for that."""

    @property
    def seconds(self) -> float:
        """How much work is held ready."""
        if self.is_rung_for:
            return MOST_SECONDS
        least, exchanges = (MIXED_SECONDS, 1) if self.mixed else (SECONDS, EXCHANGES)
        return min(max(least, exchanges * self.pace.trip), MOST_SECONDS)

    @property
    def mixed(self) -> bool:
        """Whether jobs of several priorities come."""
        return self.replied_at < self._mixed_until

    @property
    def is_rung_for(self) -> bool:
        """Whether the store rings for whatever is more urgent than what is held ready. It does so above priority 0."""
        return self._rings and self._lowest >= 0

    @property
    def above(self) -> int | None:
        """The lowest priority of what is held ready, if the store is to ring for higher ones."""
        return self._lowest if self._rings else None

    def rung(self) -> None:
        """A job has come that is more urgent than those held ready."""
        self.urgent_at = min(self.urgent_at, max(time.monotonic(), self._took_urgent_at + RING_SECONDS))

    def take_urgent(self) -> None:
        """Such jobs are taken now."""
        self._took_urgent_at, self.urgent_at = time.monotonic(), math.inf

    def replied(self, priorities: set[int], in_hand: int) -> None:
        """The store has answered an exchange, with leases of these priorities. So many were left in hand."""
        self.replied_at = time.monotonic()
        if priorities:
            self.filled_at = self.replied_at
            self._ran_out = in_hand <= 1
            self.hurried = False
            if self._working_since is None:
                self._working_since = self.replied_at
            lately = priorities | self._priorities
            if len(lately) > 1:
                self._mixed_until = self.replied_at + MIXED_FOR
            if max(priorities) > self._lowest:  # a ring that is heard by now was most likely for these
                self._took_urgent_at = self.replied_at
            self._lowest, self._priorities = min(lately), priorities
        self.due_at = self.replied_at + self.seconds

    def rested(self, seconds: float) -> None:
        """There was nothing to do for so long."""
        if self._working_since is not None:
            self._working_since += seconds

    def ended(self, jobs: int, seconds: float, *, ran_out: bool) -> None:
        """So many jobs ended in this much time. `ran_out`: there was hardly one left to run before more came."""
        self.pace.ended(jobs, seconds)
        if ran_out:
            self._spare = max(2 * self._spare, self._slots)

    def stuck(self) -> None:
        """Jobs are not as quick as they seemed."""
        self._spare = 0

    def spare(self) -> int:
        """How many leases to hold ready now."""
        rate = self.pace.rate
        most = rate * self.seconds
        if self.mixed and not self.is_rung_for:  # they are also exchanged within that time: urgent jobs wait for that
            most /= 1 + rate * self.pace.each
        self._spare = min(self._spare, int(most), 2 * self._batch if self._overlaps else self._batch)
        if self._overlaps:
            self.low = self._slots + min(int(rate * self.pace.trip), self._spare // 2)
        return self._spare

    def wanted(self, ended: int, free: int) -> int:
        """How many more leases to hold ready, as so many jobs have ended and so many slots are free.

        Below zero, that many leases are held ready.
        """
        now = time.monotonic()
        if ended and self._working_since is not None:
            ran_out = self._ran_out and self.filled_at == self.replied_at
            self.ended(ended, now - self._working_since, ran_out=ran_out)
        if ended or free == self._slots:
            self._working_since = None if free == self._slots else now
        return min(max(0, self.spare() - max(0, -free)), self._batch)


class Leases:
    """Filled and emptied by the pump; executors call `begin`, `enter` and `end`, in any thread."""

    def __init__(
        self, session: Session, waiter: Waiting, ledger: Ledger | None, *, slots: int, max_jobs: int | None
    ) -> None:
        self.slots = slots
        self.left = max_jobs
        """How many more jobs this process may start."""
        self.stopping = False
        """Nothing more is to be taken."""
        self.has_run = False
        """Whether a run has ended in this process."""
        self.closed = False
        """The pump has ended. What still runs is settled late."""
        self.waiting: dict[Run, bool] = {}
        """Leases that no executor has started yet. A thread that pops a True owns it."""
        self.running: dict[Run, bool] = {}
        """By run, not by job: one that was taken away and came back runs anew while its old run still ends."""
        self.outcomes: deque[Outcome] = deque()
        store = session.store
        self.ahead = Lookahead(slots, store.batch, rings=waiter.rings, overlaps=not store.in_process)
        self.deadlines = Deadlines(session.steady)
        self.asleep = False
        """Whether the pump sleeps, and is to be woken."""
        self.moved = 0
        """When one of the leases that wait was last started, or the first of them came, on the steady clock."""
        self._stood_still = -1
        """The `moved` of when leases last seemed to wait for too long."""
        self._waiter = waiter
        self._session = session
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
        if not self.outcomes:
            return False
        ahead, pace = self.ahead, self.ahead.pace
        running = len(self.running)
        if len(self.waiting) + running <= ahead.low or pace.load <= CALM or ahead.hurried:
            return True
        slow = running >= pace.rate * SLOW_MILLISECONDS / 1000  # as many as run end within so many milliseconds
        return (slow and pace.load <= CALM_IF_SLOW) or time.monotonic() >= self.settle_at

    @property
    def settle_at(self) -> float:
        """When outcomes are to go out at the latest, on the monotonic clock.

        A killed process takes them with it, and their jobs run again. Quick jobs are many in a moment, and an exchange
        for fewer of them slows them down; where each takes a millisecond or more there is time for it.
        """
        ahead = self.ahead
        pace = ahead.pace
        if len(self.running) >= pace.rate * QUICK_SECONDS:
            return min(ahead.due_at, ahead.replied_at + max(SETTLE_SECONDS, SETTLE_TRIPS * pace.trip))
        return ahead.due_at

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
        if (options is not None and options.find(b'"timeout"') >= 0) or run.task.limited:
            limit = run.time_limit
            self.deadlines.begun.append(run)
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
            self._session.asking.started(run.start_by - (run.lease.extras.start_within or 0), outcome)
            if self.left is not None and outcome.kind is Kind.RELEASED and outcome.began is None:
                self.left += 1
        self.has_run = True
        self.outcomes.append(outcome)
        self.running.pop(run, None)
        if self.asleep and self.ripe():
            self.wake()

    # -- for the pump --

    def accept(
        self,
        reply: ExchangeReply,
        tasks: Mapping[str, Task[Any, Any]],
        channel: Channel,
        choose: Callable[[Lease, Task[Any, Any]], Executor | str],
    ) -> None:
        """Hand what came to executors. `choose` says to which, or why there is none."""
        session = self._session
        if session.gone:  # before or after we were cut off: it is not worth knowing
            self.outcomes.extend(release(lease) for lease in reply.leases)
            return
        if not self.waiting:
            self.moved = self.steady()
        if self.left is not None:
            self.left -= len(reply.leases)
        runs: dict[Executor, list[Run]] = {}
        usual: dict[str, tuple[Task[Any, Any], Executor, list[Run]]] = {}
        """By task: what holds for all of its jobs that never crashed."""
        in_jobs = session.store.leases_in_jobs
        for lease in session.still_ours(reply.leases):
            known = usual.get(lease.task)
            task = tasks.get(lease.task) if known is None else known[0]
            extras = lease.extras
            if extras.problem:
                self.outcomes.append(quarantine(lease, extras.problem))
                continue
            if task is None:
                self.outcomes.append(put_off(lease, reply.now))
                continue
            if known is not None and not lease.crashes:
                _, executor, line = known
            else:
                chosen = choose(lease, task)
                if isinstance(chosen, str):
                    self.outcomes.append(quarantine(lease, chosen))
                    continue
                executor, line = chosen, runs.setdefault(chosen, [])
                if not lease.crashes:
                    usual[lease.task] = task, executor, line
            run = Run(lease, task, channel)
            run.executor = executor
            if in_jobs:
                run.sure_until = session.sure_until
            if extras.start_within is not None:
                run.start_by = session.asked + extras.start_within
            self.waiting[run] = True
            line.append(run)
        session.asking.served(reply.leases[-1])
        for executor, theirs in runs.items():
            executor.submit(theirs)

    def help_waiting(self, hurry: Callable[[], None]) -> None:
        """Leases that wait get a thread each, if jobs are slow (`hurry`); those that could not start soon go back.

        So a slow job hides no quick ones behind it.
        """
        ahead = self.ahead
        if not ahead.hurried and self.steady() - self.moved >= SLOW_MILLISECONDS:
            # Seen twice, some time apart: perhaps this process did not get the processor.
            ahead.hurried, self._stood_still = self._stood_still == self.moved, self.moved
            if ahead.hurried:
                hurry()
        if time.monotonic() - ahead.filled_at >= STUCK_SECONDS and len(self.running) >= self.slots:
            ahead.stuck()
            self.release_waiting()

    @property
    def due_at(self) -> float:
        """When outcomes are to be sent, or leases that wait are to be helped, on the monotonic clock."""
        ahead = self.ahead
        due_at = self.settle_at if self.outcomes else math.inf
        if self.waiting:
            due_at = min(due_at, ahead.filled_at + STUCK_SECONDS)
            if not ahead.hurried:
                due_at = min(due_at, time.monotonic() + (self.moved + SLOW_MILLISECONDS - self.steady()) / 1000)
        return due_at

    def settled(self, outcomes: Sequence[Outcome], verdicts: Sequence[Verdict]) -> bool:
        """The store has judged these outcomes. False: some of them are to be sent again, after a moment."""
        if verdicts.count(Verdict.OK) == len(outcomes):
            return True
        for outcome, verdict in zip(outcomes, verdicts, strict=True):
            if verdict is Verdict.STALE:
                extra = {"event": "lease_lost", "job_id": outcome.id}
                log.warning("job %s: its lease was lost; the outcome does not count", outcome.id, extra=extra)
            elif verdict is Verdict.LATER:
                self.outcomes.append(outcome)
        if Verdict.CHANGED in verdicts:
            self._rebase([one for one, verdict in zip(outcomes, verdicts, strict=True) if verdict is Verdict.CHANGED])
        return Verdict.LATER not in verdicts

    def _rebase(self, outcomes: Sequence[Outcome]) -> None:
        """Others have changed the data of these jobs: what their runs have changed goes on top of it."""
        session = self._session
        found = session.insist(session.store.get([outcome.id for outcome in outcomes]))
        for outcome, job in zip(outcomes, found, strict=True):
            rebase(outcome, None if job is None else job.data)
        self.outcomes.extend(outcomes)

    def take_outcomes(self, most: int) -> list[Outcome]:
        return list(starmap(self.outcomes.popleft, repeat((), min(len(self.outcomes), most))))

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
        self.outcomes.append(release(run.lease, run.began))
        if self.left is not None:
            self.left += 1

    def release_waiting(self) -> None:
        for run in tuple(self.waiting):
            self.release(run)

    def acquit(self) -> None:
        """This process ends, and what still runs is not to blame for that."""
        for run in tuple(self.running):
            place, run.place = run.place, 0
            if self._ledger is not None:
                self._ledger.leave(place)

    def stop_all(self, reason: str) -> None:
        """Give back what waits, and stop what runs."""
        self.release_waiting()
        for run in tuple(self.running):
            run.stop(reason)
