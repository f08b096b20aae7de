"""The pump: takes leases, hands them to executors, settles their outcomes. One thread, one round trip per batch.

    store  --leases-->  pump  --runs-->  executors
      ^                  |  ^                |
      +----outcomes------+  +---outcomes-----+

Settles have no timer: what gathered during one round trip goes out with the next, which is when there is room for
more leases (or when those in hand turn out to be slow). Under load that is one round trip per batch; an idle pump
makes none.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from headrace import crashpoints
from headrace.errors import MaybeApplied, SessionGone, StaleRequest, StoreError, StoreUnavailable
from headrace.records import ExchangeReply, Kind, Lease, Outcome, Ref, Take, Verdict
from headrace.store import Operation, Store
from headrace.store.contract import TakingWaiter
from headrace.values.clock import Clock, SystemClock
from headrace.values.glob import fits, is_glob
from headrace.worker.deadlines import Deadlines
from headrace.worker.executors import Executor
from headrace.worker.executors.isolated import IsolatedExecutor
from headrace.worker.executors.loop import LoopExecutor
from headrace.worker.executors.threads import ThreadExecutor
from headrace.worker.ledger import Ledger
from headrace.worker.lookahead import Lookahead
from headrace.worker.outcomes import CANCELLED, LOST, STOPPING, put_off, quarantine, release
from headrace.worker.resources import Resources
from headrace.worker.run import Run

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

T = TypeVar("T")

SLOW_SECONDS = 0.005
"""When leases wait for this long, jobs are not as quick as they seemed."""
CALM = 0.25
"""Outcomes wait for company when round trips for each of them would take more than this share of the time."""
STUCK_SECONDS = 0.1
"""A lease that could not start for this long goes back."""
REPORT_SECONDS = 0.1
"""Progress and data of running jobs are sent at most this often."""
NEWS_SECONDS = 0.1
"""News may be a cancellation: the leases in hand are checked at most this often."""
LATER_SECONDS = 0.01
"""An outcome that a peer keeps from being settled for an instant is sent again after this."""
SWEEP_SECONDS = 1.0
SWEEP_EVERY = 900
"""Milliseconds between two sweeps of a store by all workers together: less than a lone worker lets pass."""
TICK_AGAIN, TICK_AGAIN_AT_LAST = 1_000, 10_000
"""Milliseconds after which schedules are looked at again when that did not work: at first, and after many times."""
MARGIN = 1_000
"""Jobs of a session that can't be renewed are stopped, and no more are started, this many milliseconds before others
may take them (or a quarter of the time-out, if that is less)."""
RENEW_SHARE = 3
"""Held leases are checked this often within a session's time-out, or within their own if that is shorter."""
RENEW_SECONDS = 0.05
"""But not more often than this."""
STRAY = "its worker did not know of it"
LONGEST_GRACE = 1_000
"""Milliseconds that a worker which was late asks for, at most, to start jobs of lanes with a rate."""


class CutOff(SessionGone):
    """The session could not be renewed in time: others may have its jobs by now."""


class Pump:
    """The worker's heart. `run` belongs to one thread; `begin`, `end` and `spoke` are called by executors."""

    def __init__(
        self,
        app: Headrace,
        session: str,
        *,
        queues: Sequence[str],
        slots: int,
        round_robin: bool = False,
        burst: bool = False,
        monitor: bool = True,
        timeout: int = 15_000,
        app_path: str | None = None,
        max_jobs: int | None = None,
        max_memory: int | None = None,
        ledger: Ledger | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.app = app
        self.session = session
        self.slots = slots
        self.burst = burst
        self._monitor = monitor
        self.recycling = False
        self.payload_limit = app.payload_limit
        self.steady = (clock or SystemClock()).steady
        self._store: Store = app.store
        self._queues = tuple(queues)
        self._named = frozenset(() if any(map(is_glob, queues)) else queues)
        """The queues, if they are named one by one: there may be thousands."""
        self._round_robin = round_robin
        self._timeout = timeout
        self._left = max_jobs
        """How many more jobs this process may start."""
        self._max_memory = max_memory
        self._ledger = ledger or Ledger.private()
        self._number = 0
        """Of the last numbered request."""
        self._waiting: dict[Run, bool] = {}
        """Leases that no executor has started yet. Whoever pops a True owns it."""
        self._running: dict[Run, bool] = {}
        """By run, not by job: one that was taken away and came back runs anew while its old run still ends."""
        self._outcomes: deque[Outcome] = deque()
        self._spoken: deque[Run] = deque()
        self._deadlines = Deadlines(self.steady)
        self._asleep = False
        self._waiter = self._store.waiter(session, queues)
        self._taking = self._waiter if isinstance(self._waiter, TakingWaiter) else None
        self._stop_at: float | None = None
        self._gone = False
        """The session is over, or may be: nothing is taken any more, and nothing started."""
        self._lost = False
        """The store has said so."""
        self._parting = False
        """What is left to do is to settle what has ended."""
        self._sent = 0
        """When the last request set out, on the steady clock."""
        self._asked = 0
        """The earliest moment, on the steady clock, at which the store can have handed out the newest leases."""
        self._grace = 0
        """How long it may take here from asking for a job to its start, in milliseconds. 0: no longer than usual."""
        self._sure_until = 0
        """Until when nobody else can have the leases in hand."""
        self._unanswered: tuple[int, list[Outcome]] | None = None
        """An exchange that the store may have heard of, or not."""
        self._closed = False
        self._ahead = Lookahead(slots, self._store.batch)
        self._turned = time.monotonic()
        self._filled = 0.0
        self._hurried = True
        self._reported = 0.0
        self._checked = time.monotonic()
        self._compared = time.monotonic()
        self._renew_seconds = timeout / 1000 / RENEW_SHARE
        self._swept = 0.0
        self._sweep_at = 0.0
        """Not before then, on the monotonic clock: others sweep this store as well."""
        self._next_due: int | None = None
        self._next_tick: int | None = None
        self._ticks_rest = 0
        self._tick_pause = TICK_AGAIN
        self._hungry = True
        self._news_pending = False
        self._renewed: dict[str, Run] = {}
        """Whose leases were renewed into new tokens while their outcomes may have been under way, by job."""
        self._threads = ThreadExecutor(self, slots)
        self._loop = LoopExecutor(self, slots)
        self._isolated = IsolatedExecutor(self, slots, app_path)
        self.resources = Resources(app, self._loop.run_coroutine)

    # -- for executors --

    @property
    def in_hand(self) -> int:
        """Leases held and not yet settled by an executor."""
        return len(self._waiting) + len(self._running)

    @property
    def _room(self) -> int:
        """How many more jobs may start. Below zero while spare leases wait."""
        room = 0 if self.stopping or self._gone else self.slots - self.in_hand
        return room if self._left is None else min(room, self._left)

    def begin(self, run: Run, *, entering: bool = True) -> bool:
        """May this run start? Not if the pump has given it back meanwhile. `entering`: its function comes next."""
        run.beat = self.steady()
        self._running[run] = True  # first, so that at no moment it seems to be in nobody's hands
        if not self._waiting.pop(run, False):
            del self._running[run]
            return False
        if self._in_doubt(run, run.beat):  # asked when it is in `_running`: `abandon` finds it there, or is seen here
            del self._running[run]
            self._give_back(run)
            return False
        limit = None
        if run.lease.options is not None or (run.task is not None and run.task.limited):
            limit = run.time_limit
            self._deadlines.watch(run)
            self._wake()
        if entering:
            run.place = self._ledger.enter(run.lease.ref, run.beat, limit)
        if crashpoints.armed:
            crashpoints.reach("run.begin")
        return True

    def enter(self, run: Run) -> bool:
        """A run that took time to prepare enters its function: from here on a crash is its own. False: it may not."""
        now = self.steady()
        if self._in_doubt(run, now):
            return False
        run.began = run.beat = now
        run.place = self._ledger.enter(run.lease.ref, run.began, run.time_limit)
        return True

    def _in_doubt(self, run: Run, now: int) -> bool:
        """Whether others may have this job: the process, or its machine, may have slept until its lease had run out."""
        return self._gone or now > (run.sure_until or self._sure_until)

    def end(self, run: Run, outcome: Outcome) -> None:
        """A run has ended."""
        if crashpoints.armed:
            crashpoints.reach("run.end")
        self._ledger.leave(run.place)
        if run.start_by is not None:
            self._learn_start(run, outcome)
        self._outcomes.append(outcome)
        self._running.pop(run, None)
        if self._asleep and self._ripe():
            self._wake()

    def _learn_start(self, run: Run, outcome: Outcome) -> None:
        """A job of a lane with a rate was in time, or not: ask for as much time as it takes here, and some more."""
        asked = (run.start_by or 0) - (run.lease.start_within or 0)
        if outcome.kind is Kind.RELEASED and outcome.began is None:
            self._grace = min(2 * ((outcome.ended or 0) - asked), LONGEST_GRACE)
            if self._left is not None:
                self._left += 1
        elif outcome.began is not None:
            self._grace = min(self._grace, 4 * (outcome.began - asked))

    def spoke(self, run: Run) -> None:
        """A run has something to report."""
        self._spoken.append(run)
        self._wake()

    def heard(self, run: Run) -> None:
        """A run has given a sign of life."""
        run.beat = self.steady()

    def _wake(self) -> None:
        if self._asleep:
            self._asleep = False
            self._waiter.poke()

    # -- control, from any thread --

    def stop(self, grace: float = 0.0) -> None:
        """Stop taking; let what runs finish for so many seconds; give the rest back. A second call may shorten it."""
        end = time.monotonic() + grace
        self._stop_at = end if self._stop_at is None else min(self._stop_at, end)
        self._waiter.poke()

    @property
    def stopping(self) -> bool:
        return self._stop_at is not None

    def _make_way(self, why: str) -> None:
        """Stop taking, let everything that runs finish, and leave the rest to a fresh process."""
        log.info("%s: making way for a fresh process", why)
        self.recycling = True
        self.stop(grace=3600.0)

    def abandon(self) -> None:
        """The session is gone, or about to be: stop everything before somebody else starts it."""
        if not self._gone:
            log.error("cut off from the store: stopping %d jobs before others may start them", self.in_hand)
        self._gone = True
        self._stop_everything(LOST)  # from here: the pump may be waiting for the store
        self._waiter.poke()

    # -- the loop --

    def run(self) -> None:
        """Pump until told to stop (or, with `burst`, until there is nothing left to do).

        Raises `SessionGone` when the session was taken away.
        """
        try:
            self._pump()
        except (SessionGone, StaleRequest) as error:
            self._gone = True
            self._lost = not isinstance(error, CutOff)
            log.error("the session is gone: stopping its %d jobs. %s", self.in_hand, error)
            self._part()
            raise SessionGone(str(error)) from error
        finally:
            self.close()

    def close(self) -> None:
        """Let go of everything. `run` does so at its end."""
        self._closed = True
        self._threads.close()
        self._isolated.close()
        self.resources.stop()  # while the loop that they were made on still runs
        self._loop.close()
        self._waiter.close()

    def _pump(self) -> None:
        while True:
            self._ledger.beat(self.steady())
            if self._gone:
                raise self._cut_off()
            if self._left == 0 and not self._waiting and not self.stopping:
                self._make_way("its last job has started")
            if self._stop_at is not None and not self._go_on_stopping():
                return
            for run, reason in self._deadlines.missed(self._running):
                self._stop_run(run, reason)
            self._hurry()
            self._give_back_stuck()
            self._upkeep()
            if self._spoken and self._may_report():
                self._report()
            if self._tick_has_come():
                self._tick()
            if self._hungry or self._ripe():
                self._exchange()
                if self._hungry or self._outcomes or self.stopping:
                    self._news_pending = self._news_pending or self._waiter.wait(0)
                    continue
            if self._tick_has_come():
                continue
            if self.burst and not self.in_hand and not self._outcomes and not self._due_now():
                return
            self._sleep()

    def _ripe(self) -> bool:
        """Whether outcomes are worth a round trip: while spare leases wait for a quick thread, more come at once.

        As long as there is time for a round trip each, none waits: what waits runs again should this process be killed.
        """
        return bool(self._outcomes) and (
            self._hurried or self.in_hand <= self.slots or self._ahead.rate * self._ahead.trip <= CALM
        )

    def _due_now(self) -> bool:
        """The store has reached a bound in what it does at once, and has more to do."""
        return self._next_due is not None and self._next_due <= self.steady()

    def _exchange(self) -> None:
        """Settle what has ended, take what there is room for: one round trip."""
        free = self._room
        if free <= 0 and not self._ripe():
            self._hungry = False
            return
        outcomes = list(itertools.islice(_drain(self._outcomes), 2 * self._store.batch))
        if outcomes and any(run.said is not None and run.said.unsent for run in tuple(self._spoken)):
            self._report()  # what a run said comes before its outcome
        if self._renewed:
            self._renew_tokens(outcomes)
        spare = 0 if self.stopping or self._gone or free < 0 else self._spare_wanted(len(outcomes), free)
        if self._left is not None:
            spare = min(spare, self._left - free)
        take = None
        if free > 0 or spare > 0:
            take = Take(self._queues, max(free, 0), spare, self._round_robin, self._grace)
        if not outcomes and take is None:
            self._hungry = False
            return
        if not self._closed:
            self._waiter.arm()
        if crashpoints.armed:
            crashpoints.reach("exchange.before")
        number = self._next_number()
        self._asked = self.steady()  # not when it is sent again: the first may have been heard
        request = self._store.exchange(
            self.session, number, outcomes, take, steady=self._asked, started=self._started_spares()
        )
        self._unanswered = number, outcomes
        begun = time.monotonic()
        turn = self._insist(request)
        self._ahead.exchanged(time.monotonic() - begun)
        if take is not None:  # an expired session may settle
            self._is_alive(turn.ends, turn.now)
        self._apply_reply(outcomes, take, turn)

    def _apply_reply(self, outcomes: list[Outcome], take: Take | None, turn: ExchangeReply) -> None:
        """What the store has answered."""
        if crashpoints.armed:
            crashpoints.reach("exchange.after")
        self._unanswered = None
        self._turned = time.monotonic()
        later = self._apply_verdicts(outcomes, turn)
        self._dispatch(turn)
        asked = 0 if take is None else take.slots + take.spare
        self._hungry = bool(asked) and len(turn.leases) == asked and not self.stopping
        self._next_due = None if turn.next_due is None else turn.next_due - turn.now + self.steady()
        self._tick_in(None if turn.next_tick is None else turn.next_tick - turn.now)
        if later and self._closed:
            time.sleep(LATER_SECONDS)
        elif later and self._waiter.wait(LATER_SECONDS):
            self._hungry = self._news_pending = True

    # -- schedules --

    def _tick_in(self, milliseconds: int | None) -> None:
        """The store says when the next schedule ticks. After a failure it is left in peace for a while all the same."""
        self._next_tick = None if milliseconds is None else max(self.steady() + milliseconds, self._ticks_rest)

    def _tick_has_come(self) -> bool:
        return self._next_tick is not None and self._next_tick <= self.steady() and not self.stopping

    def _tick(self) -> None:
        """Put the jobs of schedules that are due. Others may do the same at this moment: each tick counts once."""
        from headrace.worker.ticker import tick_some  # noqa: PLC0415  (the language of schedules takes time to load)

        try:
            self._tick_in(tick_some(self._store))
            self._tick_pause = TICK_AGAIN
        except StoreError as error:
            log.warning("schedules could not be looked at: %s Trying again in %g s.", error, self._tick_pause / 1000)
            self._ticks_rest = self.steady() + self._tick_pause
            self._tick_pause = min(2 * self._tick_pause, TICK_AGAIN_AT_LAST)
            self._tick_in(0)
        self._hungry = self._hungry or self._room > 0

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _insist(self, operation: Operation[T]) -> T:
        """Send a request until it is answered. It has a number: the store knows a repeat."""
        for attempt in itertools.count():
            if self._gone and not self._parting:
                raise self._cut_off()
            self._sent = self.steady()
            try:
                return self._store.run(operation)
            except (StoreUnavailable, MaybeApplied) as error:
                if self._gives_up:
                    raise self._cut_off() from error
                pause = min(0.05 * 2**attempt, 2.0) * random.uniform(0.5, 1.0)  # noqa: S311
                log.warning("%s Trying again in %.1f s.", error, pause)
                self._ledger.beat(self.steady())
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _is_alive(self, ends: int | None, now: int) -> None:
        """The store has answered what it answers to a live session only: it lives on from when it was asked."""
        lasts = self._timeout if ends is None else min(self._timeout, ends - now)
        self._sure_until = self._sent + lasts - min(MARGIN, lasts // 4)

    def _still_ours(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """The answer took so long that these leases may have run out since the store gave it: ask."""
        held = [(lease.ref, lease.token, lease.id) for lease in leases]
        renewal = self._insist(self._store.renew(self.session, held))
        self._is_alive(renewal.ends, renewal.now)
        for lease in leases:
            lease.token = renewal.tokens.get(lease.id, lease.token)
        return [lease for lease in leases if lease.id not in renewal.lost]

    @property
    def _gives_up(self) -> bool:
        """Whether a pump that is cut off gives up its outcomes: its caller waits for its end."""
        patient = self._parting and not self.burst and (self._stop_at is None or time.monotonic() < self._stop_at)
        return self._gone and not patient

    def _cut_off(self) -> CutOff:
        return CutOff(f"Session {self.session} could not be renewed in time.")

    def _part(self) -> None:
        """Settle what has ended, as soon as the store answers: as long as nobody has closed the session it counts.

        A request that was under way keeps its number, and takes nothing if the store has not heard of it before.
        """
        self._parting = True
        self._stop_everything(LOST)
        self._wait_for_stopped()
        try:
            if self._unanswered is not None:
                number, outcomes = self._unanswered
                request = self._store.exchange(self.session, number, outcomes, steady=self.steady())
                self._apply_reply(outcomes, None, self._insist(request))
            self._settle_rest()
        except (SessionGone, StaleRequest) as error:
            self._lost = self._lost or not isinstance(error, CutOff)
            log.warning("what ended after that does not count: its jobs run again. %s", error)

    def _spare_wanted(self, ended: int, free: int) -> int:
        """How many more leases to hold ready."""
        if ended:
            ran_out = free >= self.slots - 1 and self._filled == self._turned
            self._ahead.ended(ended, time.monotonic() - self._turned, ran_out=ran_out)
        return max(0, self._ahead.spare() - max(0, -free))

    def _started_spares(self) -> list[Ref]:
        """Spare leases that have been running for a while: no longer spare, should this process die."""
        started = []
        horizon = self.steady() - 100
        for run in tuple(self._running):
            if run.lease.spare and run.began is not None and run.began <= horizon:
                run.lease.spare = False
                started.append(run.lease.ref)
        return started

    def _apply_verdicts(self, outcomes: list[Outcome], turn: ExchangeReply) -> bool:
        """Heed the verdicts. True: some outcomes are to be sent again, after a moment."""
        if turn.verdicts.count(Verdict.OK) == len(outcomes):
            return False
        for outcome, verdict in zip(outcomes, turn.verdicts, strict=True):
            if verdict is Verdict.STALE:
                log.warning("job %s: its lease was lost; the outcome does not count", outcome.id)
            elif verdict is Verdict.LATER:
                self._outcomes.append(outcome)
        return Verdict.LATER in turn.verdicts

    def _dispatch(self, turn: ExchangeReply) -> None:
        """Hand leases to the executors that can run them."""
        if not turn.leases:
            return
        if self._gone:  # before or after we were cut off: it is not worth knowing
            self._outcomes.extend(release(Run(lease, None, self)) for lease in turn.leases)
            return
        self._filled = self._turned
        self._hurried = False
        if self._left is not None:
            self._left -= len(turn.leases)
        if turn.ends is not None:
            self._renew_seconds = min(self._renew_seconds, self._renewed_within(turn.ends - turn.now))
        threads: list[Run] = []
        coroutines: list[Run] = []
        isolated: list[Run] = []
        tasks = self.app.tasks
        for lease in self._still_ours(turn.leases) if self.steady() > self._sure_until else turn.leases:
            task = tasks.get(lease.task)
            run = Run(lease, task, self)
            if self._store.leases_in_jobs:
                run.sure_until = self._sure_until
            if lease.start_within is not None:
                run.start_by = self._asked + lease.start_within
            if lease.problem:
                self._outcomes.append(quarantine(run, lease.problem))
                continue
            if task is None:
                self._outcomes.append(put_off(run, turn.now))
                continue
            self._waiting[run] = True
            if task.options.isolate or (lease.crashes and self._isolated.available):
                # After a crash a job runs with nothing else in its process, so that only the guilty one crashes again.
                isolated.append(run)
            elif task.is_async:
                coroutines.append(run)
            else:
                threads.append(run)
        if isolated and not self._isolated.available:
            for run in isolated:
                del self._waiting[run]
                self._outcomes.append(quarantine(run, self._isolated.why_not))
            isolated = []
        if self._round_robin:
            self._rotate(turn.leases[-1])
        for executor, runs in ((self._threads, threads), (self._loop, coroutines), (self._isolated, isolated)):
            if runs:
                executor.submit(runs)

    def _rotate(self, last: Lease) -> None:
        """The next batch begins with the queue after the one that was served last."""
        if last.queue in self._named:
            place = self._queues.index(last.queue) + 1
        else:
            place = next((i for i, name in enumerate(self._queues) if fits(name, last.queue)), -1) + 1
        self._queues = self._queues[place:] + self._queues[:place]

    # -- while jobs run --

    def _executor_of(self, run: Run) -> Executor:
        task = run.task
        assert task is not None
        if task.options.isolate or (run.lease.crashes and self._isolated.available):
            return self._isolated
        return self._loop if task.is_async else self._threads

    def _stop_run(self, run: Run, reason: str) -> None:
        if run.stop_reason is None:
            run.stop_reason = reason
            self._executor_of(run).stop_run(run)

    def _hurry(self) -> None:
        if self._waiting and not self._hurried and time.monotonic() - self._filled >= SLOW_SECONDS:
            self._hurried = True
            self._threads.hurry()

    def _give_back_stuck(self) -> None:
        """Leases that could not start soon go back, so that a slow job hides no quick ones behind it."""
        if not self._waiting or time.monotonic() - self._filled < STUCK_SECONDS or len(self._running) < self.slots:
            return
        self._ahead.stuck()
        self._release_waiting()

    def _release_waiting(self) -> None:
        for run in tuple(self._waiting):
            self._release(run)

    def _release(self, run: Run) -> bool:
        """Give back a lease that nobody has started. False: somebody has."""
        if not self._waiting.pop(run, False):
            return False
        self._give_back(run)
        return True

    def _give_back(self, run: Run) -> None:
        self._outcomes.append(release(run))
        if self._left is not None:
            self._left += 1

    def _may_report(self) -> bool:
        return time.monotonic() - self._reported >= REPORT_SECONDS

    def _report(self) -> None:
        """Send what runs said: the latest of each."""
        self._reported = time.monotonic()
        reports = [run.said.take(run.lease) for run in _drain(self._spoken) if run.said is not None]
        if reports:
            if crashpoints.armed:
                crashpoints.reach("report.before")
            self._insist(self._store.report(self.session, self._next_number(), reports, steady=self.steady()))
            if crashpoints.armed:
                crashpoints.reach("report.after")

    def _upkeep(self) -> None:
        """Now and then: learn what was cancelled or lost, sweep up after the dead."""
        now = time.monotonic()
        since = now - self._checked
        if since >= self._renew_seconds or (self._news_pending and since >= NEWS_SECONDS) or self._may_compare(now):
            self._checked = now
            self._news_pending = False
            self._check_leases()
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now + random.uniform(0.0, 0.4)  # noqa: S311
            if self._monitor and now >= self._sweep_at:
                self._sweep()
            self._check_memory()

    def _check_memory(self) -> None:
        if self._max_memory is not None and not self.stopping and resident_memory() > self._max_memory:
            self._make_way(f"more than {self._max_memory // 1_000_000} MB in use")

    def _may_compare(self, now: float) -> bool:
        """Whether it is time to compare what the store says we hold with what we hold.

        Not while an exchange is under way: it may be handing something out. Where leases live in jobs there is no need.
        """
        due = now - self._compared >= self._renew_seconds
        return due and self._unanswered is None and not self._store.leases_in_jobs

    def _check_leases(self) -> None:
        compare = self._may_compare(time.monotonic())
        waiting = tuple(self._waiting)  # looked at first, as it is left first: nothing is missed
        runs: dict[str, Run] = {}
        for run in dict.fromkeys((*self._running, *waiting)):
            overtaken = runs.get(run.id)  # its job came back to us: so it was taken away before
            runs[run.id] = run
            if overtaken is not None:
                self._take_away(overtaken, LOST)
        if not runs and not compare:
            self._renew_seconds = self._renewed_within(self._timeout)
            return
        held = [(run.lease.ref, run.lease.token, run.lease.id) for run in runs.values()]
        if compare:
            self._compared = time.monotonic()
            # Of a job that came back to us the run that goes on is named: a loss is told by id.
            ended = [outcome for outcome in tuple(self._outcomes) if outcome.id not in runs]
            held += [(outcome.ref, outcome.token, outcome.id) for outcome in ended]
        self._sent = self.steady()
        try:
            number = self._number if compare else None
            renewal = self._store.run(self._store.renew(self.session, held, complete=number))
        except (StoreUnavailable, MaybeApplied) as error:
            log.warning("%s", error)
            return
        self._is_alive(renewal.ends, renewal.now)
        if self._store.leases_in_jobs:
            for run in runs.values():
                run.sure_until = self._sure_until
        if renewal.ends is not None:
            self._renew_seconds = self._renewed_within(renewal.ends - renewal.now)
        for job_id, token in renewal.tokens.items():
            run = self._renewed[job_id] = runs[job_id]
            run.former_tokens = (*run.former_tokens[-9:], run.lease.token)
            run.lease.token = token
        for ids, reason in ((renewal.lost, LOST), (renewal.cancelled, CANCELLED)):
            for job_id in ids:
                if job_id in runs:
                    self._take_away(runs[job_id], reason)
        for ref, token, job_id in renewal.strays:
            log.warning("job %s is not held here, though the store says so: was it set back? It is given back", job_id)
            self._outcomes.append(Outcome(ref=ref, token=token, id=job_id, kind=Kind.RELEASED, note=STRAY))

    def _take_away(self, run: Run, reason: str) -> None:
        if not self._release(run) and run in self._running and run.stop_reason is None:
            log.info("job %s: %s", run.id, reason)
            self._stop_run(run, reason)

    def _renew_tokens(self, outcomes: list[Outcome]) -> None:
        """What ended while its lease was renewed goes by the new token. (Not what an earlier run of the job says.)"""
        for outcome in outcomes:
            run = self._renewed.get(outcome.id)
            if run is not None and outcome.token in (*run.former_tokens, run.lease.token):
                outcome.token = run.lease.token
                del self._renewed[outcome.id]

    def _renewed_within(self, lease: int) -> float:
        """Seconds after which leases that last so many milliseconds are renewed."""
        return max(min(lease, self._timeout) / 1000 / RENEW_SHARE, RENEW_SECONDS)

    def _sweep(self) -> None:
        try:
            swept = self._store.run(self._store.sweep(every=SWEEP_EVERY))
        except StoreError as error:
            log.warning("%s", error)
            return
        self._tick_in(swept.ticks_in)
        if swept.again_in is not None and not swept.more:
            self._sweep_at = time.monotonic() + swept.again_in / 1000 * random.uniform(0.7, 1.0)  # noqa: S311
        if swept.sessions_closed:
            log.warning("%d dead sessions found; %d jobs go on elsewhere", swept.sessions_closed, swept.jobs_returned)
        if swept.failed_purged_early:
            log.warning(
                "purged %d failed jobs before their age (failed-history): ended jobs took more than history-memory",
                swept.failed_purged_early,
            )
        if swept.more:
            self._swept -= SWEEP_SECONDS * 0.95

    # -- sleeping and stopping --

    def _sleep(self) -> None:
        """Wait for work, for outcomes, for the next thing that is due."""
        self._asleep = True  # before the last look: whoever ends or begins something after it, wakes
        if self._ripe() or self._deadlines.untold:
            self._asleep = False
            return
        if self._may_wait_and_take():
            self._threads.lend_thread(self._wait_and_take)
            return
        news = self._waiter.wait(self._patience(self._swept + SWEEP_SECONDS))
        self._asleep = False
        if news:
            self._news_pending = True
        self._hungry = self._room > 0 and (news or self._due_now())

    def _patience(self, until: float) -> float:
        """For how many seconds there is nothing to do, at most until then (on the monotonic clock)."""
        now = time.monotonic()
        if self.in_hand:
            until = min(until, self._checked + self._renew_seconds)
        if self._waiting:
            until = min(until, self._filled + (STUCK_SECONDS if self._hurried else SLOW_SECONDS))
        if self._spoken:
            until = min(until, self._reported + REPORT_SECONDS)
        if self._news_pending and self._running:
            until = min(until, self._checked + NEWS_SECONDS)
        if self._stop_at is not None:
            until = min(until, self._stop_at)
        timeout = max(until - now, 0.001)
        steady = self.steady()
        due = self._next_due if self._room > 0 else None
        tick = None if self.stopping else self._next_tick
        for moment in (due, tick, self._deadlines.next):
            if moment is not None:
                timeout = min(timeout, max((moment - steady) / 1000, 0.0))
        return timeout

    def _may_wait_and_take(self) -> bool:
        """Only with nothing in hand: whatever else there is to do must not wait for the store's answer."""
        return self._taking is not None and not (self.in_hand or self.stopping or self.burst or self._spoken)

    def _wait_and_take(self) -> None:
        """Be handed work in the moment that there is some. Done by a thread that can run it, while the pump rests."""
        assert self._taking is not None
        take = Take(self._queues, self._room, 0, self._round_robin, self._grace)
        number = self._next_number()
        sent = self._asked = self.steady()
        request = self._store.exchange(self.session, number, (), take, steady=sent)
        self._unanswered = number, []
        turn = self._taking.wait_and_run(request, self._meanwhile)
        self._sent = sent
        self._asleep = False
        if self._closed:
            return
        if turn is None:
            turn = self._insist(request)
        else:
            self._find_out_when(turn)
        self._is_alive(turn.ends, turn.now)
        self._apply_reply([], take, turn)

    def _find_out_when(self, turn: ExchangeReply) -> None:
        """Leases that were waited for were handed out some time after they were asked for: by the store's clock."""
        rated = [lease for lease in turn.leases if lease.start_within is not None]
        if rated:
            held = [(lease.ref, lease.token, lease.id) for lease in rated]
            sent = self._sent
            renewal = self._insist(self._store.renew(self.session, held))
            self._asked, self._sent = self._sent - (renewal.now - turn.now), sent

    def _meanwhile(self) -> float | None:
        """What an idle pump does all the same. Answers with when to do so again; None: there is more to do."""
        if self._closed:  # the pump did not wait: it was interrupted
            return None
        self._ledger.beat(self.steady())
        self._upkeep()
        patience = self._patience(math.inf)
        return min(patience, max(self._swept + SWEEP_SECONDS - time.monotonic(), 0.001)) if patience > 0 else None

    def _go_on_stopping(self) -> bool:
        """While stopping: give back what has not started, wait for what has. False when there is nothing left to do."""
        assert self._stop_at is not None
        self._release_waiting()
        if time.monotonic() >= self._stop_at:
            self._stop_everything(STOPPING)
            if not self._wait_for_stopped():
                # Threads that don't stop keep their leases until their process is gone.
                self._settle_rest()
                return False
        return bool(self._running or self._outcomes)

    def _wait_for_stopped(self) -> bool:
        """Coroutines and isolated jobs stop when told to: a moment for them to do so."""
        end = time.monotonic() + 1.0
        while self._running and time.monotonic() < end:
            if all(self._executor_of(run) is self._threads for run in tuple(self._running)):
                break
            self._asleep = True
            self._waiter.wait(0.05)
        self._asleep = False
        return not self._running

    def _settle_rest(self) -> None:
        if self._spoken:
            self._report()
        while self._outcomes:
            self._exchange()

    def settle_late(self) -> None:
        """After `run`: wait for threads that did not stop, and settle what they did after all."""
        self._parting = True
        while self._running and not self._lost:
            if time.monotonic() - self._checked >= self._renew_seconds:
                self._checked = time.monotonic()
                self._check_leases()
            time.sleep(0.05)
        if not self._lost:
            self._settle_rest()

    def _stop_everything(self, reason: str) -> None:
        self._release_waiting()
        for run in tuple(self._running):
            self._stop_run(run, reason)


def resident_memory() -> int:
    """Bytes of memory that this process has in use; 0 where that can't be told."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _drain(items: deque[T]) -> Iterator[T]:
    while True:
        try:
            yield items.popleft()
        except IndexError:
            return
