"""The pump: takes leases, hands them to executors, settles their outcomes. One thread, one round trip per batch.

    store  --leases-->  pump  --runs-->  executors
      ^                  |  ^                |
      +----outcomes------+  +---outcomes-----+

Settles have no timer: what gathered during one round trip goes out with the next, which is when there is room for
more leases (or when those in hand turn out to be slow). Under load that is one round trip per batch; an idle pump
makes none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace import crashpoints
from headrace.errors import SessionGone, StaleRequest
from headrace.records import ExchangeReply, Lease, Outcome, Take
from headrace.task import Task
from headrace.values.clock import Clock, SystemClock
from headrace.values.durations import doubled
from headrace.worker.executors import Executor
from headrace.worker.executors.isolated import IsolatedExecutor
from headrace.worker.executors.loop import LoopExecutor
from headrace.worker.executors.threads import ThreadExecutor
from headrace.worker.leases import Leases
from headrace.worker.ledger import Ledger
from headrace.worker.meter import Meter
from headrace.worker.renewals import NEWS_SECONDS, Renewals
from headrace.worker.reports import Reports
from headrace.worker.resources import Resources
from headrace.worker.session import Asking, Session
from headrace.worker.stopping import Stopping
from headrace.worker.ticker import Ticker
from headrace.worker.upkeep import Upkeep
from headrace.worker.waiting import Waiting

if TYPE_CHECKING:
    from headrace.app import Headrace

LATER_SECONDS, LONGEST_LATER_SECONDS = 0.01, 0.5
"""An outcome that is kept from being settled (for an instant, as a rule) is sent again after this, then after more."""


class Pump:
    """The worker's heart. `run` belongs to one thread; any may use `stopping`."""

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
        meter: Meter | None = None,
        clock: Clock | None = None,
    ) -> None:
        store, steady = app.store, (clock or SystemClock()).steady
        self.app = app
        self._burst = burst
        self.meter = meter
        asking = Asking(queues, round_robin=round_robin)
        self.session = Session(store, session, timeout, asking, ledger, steady)
        if burst:
            self.session.patient_until = -math.inf  # its caller waits for its end
        self._waiter = Waiting(store.waiter(session, queues))
        self.leases = Leases(self.session, self._waiter, ledger, slots=slots, max_jobs=max_jobs)
        self._reports = Reports(self.session, self.leases, app.payload_limit)
        self._renewals = Renewals(self.session, self.leases)
        self._ticker = Ticker(app, store, steady)
        self.upkeep = Upkeep(store, self._ticker, monitor=monitor, max_memory=max_memory)
        self.stopping = Stopping(self.session, self.leases, self._reports, self._renewals, self._waiter, self._exchange)
        self._loop = LoopExecutor(self.leases, slots)
        self.resources = self._loop.resources = Resources(app, self._loop.run_coroutine)
        self._threads = ThreadExecutor(self.leases, self.resources, slots)
        self._isolated = IsolatedExecutor(self.leases, store.url, slots, app_path)
        self._wants_more = True
        self._put_off = 0
        """How often in a row some outcome was kept from being settled."""
        """The store may have more to take, and there is room for it."""
        self._next_due: int | None = None
        """When the next scheduled job becomes due, on the steady clock."""

    def run(self) -> None:
        """Pump until it is stopped (or, with `burst`, until there is nothing left to do).

        Raises `SessionGone` when the session was taken away.
        """
        try:
            self._pump()
        except (SessionGone, StaleRequest) as error:
            self.stopping.part(error, self._settle_again)
            raise SessionGone(str(error)) from error
        finally:
            self.close()

    def close(self) -> None:
        """Let go of everything. `run` does so at its end."""
        self.leases.closed = True
        self._threads.close()
        self._isolated.close()
        self.resources.stop()  # while the loop that they were made on still runs
        self._loop.close()
        self._waiter.close()

    # -- the loop --

    def _pump(self) -> None:
        session, leases, stopping = self.session, self.leases, self.stopping
        looked = False
        while True:
            looked = looked and not leases.in_hand and not leases.outcomes
            session.beat()
            if session.gone:
                raise session.cut_off()
            if leases.left == 0 and not leases.waiting and not leases.stopping:
                stopping.make_way("its last job has started")
            if stopping.at < math.inf and not stopping.go_on():
                return
            if leases.deadlines.begun or leases.deadlines.alarms:
                for run, reason in leases.deadlines.missed(leases.running):
                    run.stop(reason)
            if leases.waiting:
                leases.help_waiting(self._threads.hurry)
            self._look_after()
            if self._reports.waiting and time.monotonic() >= self._reports.due_at:
                self._reports.send()
            if self._tick_has_come():
                self._ticker.tick()
                self._wants_more = self._wants_more or leases.room > 0
            if leases.ahead.urgent_at < math.inf and time.monotonic() >= leases.ahead.urgent_at:
                self._take_urgent()
            if self._wants_more or leases.ripe():
                self._exchange()
                if self._wants_more or leases.outcomes or leases.stopping:
                    continue
            if self._tick_has_come():
                continue
            if self._burst and not leases.in_hand and not leases.outcomes and not self._due_now():
                # A waiter that takes may have been given what the last settle released.
                if looked or not self._waiter.wait(0):
                    return
                looked = self._wants_more = True
                continue
            self._sleep()

    def _tick_has_come(self) -> bool:
        due = self._ticker.next
        return due is not None and due <= self.session.steady() and not self.leases.stopping

    def _due_now(self) -> bool:
        """The store has reached a bound in what it does at once, and has more to do."""
        return self._next_due is not None and self._next_due <= self.session.steady()

    def _look_after(self) -> None:
        """Now and then: learn what was cancelled or lost, sweep up after the dead, make way when grown too large."""
        now, renewals = time.monotonic(), self._renewals
        news = renewals.news and now - renewals.checked_at >= NEWS_SECONDS
        if news or now - renewals.compared_at >= renewals.seconds:
            renewals.check_if_due(now)
        if now >= self.upkeep.due_at:
            self.upkeep.do()
            self._loop.look()
            if self.leases.has_run and not self.leases.stopping and (why := self.upkeep.too_large):
                self.stopping.make_way(why)

    # -- the exchange --

    def _exchange(self) -> None:
        """Settle what has ended, take what there is room for: one round trip."""
        session, leases, ahead = self.session, self.leases, self.leases.ahead
        free = leases.room
        self._wants_more = False
        if free <= 0 and not leases.ripe():
            return
        ahead.rested(leases.idle())
        outcomes = leases.take_outcomes(2 * session.store.batch)
        if outcomes and self._reports.waiting:
            self._reports.send_unsent()
        if self._renewals.new_tokens:
            self._renewals.put_new_tokens(outcomes)
        spare = 0 if leases.stopping or session.gone else ahead.wanted(len(outcomes), free)
        if leases.left is not None:
            spare = min(spare, leases.left - max(free, 0))
        above = ahead.above if spare else None
        take = self.session.asking.take(max(free, 0), spare, above) if free > 0 or spare > 0 else None
        if not outcomes and take is None:
            return
        if take is not None:
            ahead.urgent_at = math.inf  # it begins with what the store has rung for
        begun = time.monotonic()
        reply = self._send(outcomes, take)
        ahead.pace.exchanged(time.monotonic() - begun, len(reply.leases))
        ahead.rested(leases.idle())
        ahead.replied({lease.priority for lease in reply.leases}, leases.in_hand)
        # Heard before the jobs start: a line of quick ones would be done before the pump goes on. (With none to run it
        # sleeps next, and hears it then: all that a wake-up was for may have come by now.)
        news = bool(reply.leases or leases.in_hand) and not leases.closed and self._listen(0)
        self._renewals.news = news or self._renewals.news
        self._apply_reply(outcomes, take, reply)
        self._wants_more = self._wants_more or (news and leases.room > 0)

    def _take_urgent(self) -> None:
        """Take what comes before the leases in hand, and settle nothing: a fraction of an exchange."""
        leases = self.leases
        leases.ahead.take_urgent()
        most = leases.slots if leases.left is None else min(leases.slots, leases.left)
        if most > 0 and not leases.stopping and not self.session.gone:
            free = max(leases.room, 0)
            take = self.session.asking.take(free, most - free, leases.ahead.above)
            with self._threads.paused():
                reply = self._send((), take)
            self._apply_reply((), take, reply)
        self._wants_more = leases.room > 0

    def _send(self, outcomes: Sequence[Outcome], take: Take | None) -> ExchangeReply:
        session, leases = self.session, self.leases
        if not leases.closed:
            self._waiter.arm()
        if crashpoints.armed:
            crashpoints.reach("exchange.before")
        reply = session.insist(session.exchange(outcomes, take, leases.started_spares()))
        if take is not None:  # an expired session may settle
            session.is_alive(reply.ends, reply.now)
        return reply

    def _settle_again(self) -> None:
        """What was under way when the session went. It takes nothing if the store sees it for the first time."""
        session = self.session
        if session.unanswered is not None:
            number, outcomes = session.unanswered
            request = session.store.exchange(session.id, number, outcomes, steady=session.steady())
            self._apply_reply(outcomes, None, session.insist(request))

    def _apply_reply(self, outcomes: Sequence[Outcome], take: Take | None, reply: ExchangeReply) -> None:
        if crashpoints.armed:
            crashpoints.reach("exchange.after")
        leases = self.leases
        self.session.unanswered = None
        settled = leases.settled(outcomes, reply.verdicts)
        if self.meter is not None:
            self.meter.exchanged(outcomes, reply, self.session.steady())
        if reply.leases:
            if reply.ends is not None:
                self._renewals.handed_out(reply.ends - reply.now)
            leases.accept(reply, self.app.tasks, self._reports, self._executor)
        if reply.holds_nothing and not leases.in_hand:
            self._renewals.agree()
        if reply.swept is not None:
            self.upkeep.was_swept(reply.swept)
        asked = 0 if take is None else take.slots + take.spare
        self._wants_more = bool(asked) and len(reply.leases) == asked and not leases.stopping
        self._next_due = None if reply.next_due is None else reply.next_due - reply.now + self.session.steady()
        if reply.next_tick is not None or self._ticker.next is not None:
            self._ticker.expect(None if reply.next_tick is None else reply.next_tick - reply.now)
        self._put_off = 0 if settled else self._put_off + 1
        pause = doubled(LATER_SECONDS, self._put_off - 1, most=LONGEST_LATER_SECONDS)
        if not settled and leases.closed:
            time.sleep(pause)
        elif not settled and self._waiter.wait(pause):
            self._wants_more = self._renewals.news = True

    def _executor(self, lease: Lease, task: Task[Any, Any]) -> Executor | str:
        """Where a job runs; or why it can't."""
        isolated = self._isolated
        # After a crash a job runs with nothing else in its process, so that only the guilty one crashes again.
        if task.options.isolate or (lease.crashes and isolated.available):
            return isolated if isolated.available else isolated.why_not
        return self._loop if task.is_async else self._threads

    # -- sleeping --

    def _sleep(self) -> None:
        """Wait for work, for outcomes, for the next thing that is due."""
        leases = self.leases
        leases.asleep = True  # before the last look: a thread that ends or begins something after it, wakes
        if leases.ripe() or leases.deadlines.begun:
            leases.asleep = False
            return
        if self._may_wait_elsewhere():
            self._threads.lend_thread(self._wait_and_take)
        else:
            self._wait()

    def _wait(self) -> None:
        leases = self.leases
        news = self._listen(self._patience(self.upkeep.due_at))
        leases.asleep = False
        if news and leases.in_hand:
            self._renewals.news = True
        self._wants_more = leases.room > 0 and (news or self._due_now())

    def _listen(self, timeout: float) -> bool:
        """Wait for news, and for rings for urgent jobs. Returns whether there is news."""
        news = self._waiter.wait(timeout)
        if self._waiter.rung():
            self.leases.ahead.rung()
        return news

    def _may_wait_elsewhere(self) -> bool:
        """Only with nothing in hand: nothing else that there is to do may wait for the store's answer."""
        leases = self.leases
        busy = leases.in_hand or leases.stopping or self._burst or self._reports.waiting
        return self._waiter.takes and not busy

    def _wait_and_take(self) -> None:
        """Have the store hand out work in the moment that there is some, and run it: there is no hand-over between news
        and run. Done by a thread that can run what comes, while the pump rests.
        """
        session = self.session
        take = session.asking.take(self.leases.room, 0)
        request = session.exchange((), take)
        sent: int | None = session.asked
        reply = self._waiter.wait_and_run(request, self._meanwhile)
        self.leases.asleep = False
        if self.leases.closed:
            return
        if reply is None:
            reply, sent = session.insist(request), None
        else:
            session.find_out_when(reply)
        session.is_alive(reply.ends, reply.now, sent, idle=reply.holds_nothing)
        self.leases.ahead.replied({lease.priority for lease in reply.leases}, self.leases.in_hand)
        self._apply_reply((), take, reply)

    def _meanwhile(self) -> float | None:
        """What an idle pump does all the same. Returns when to do so again; None: there is more to do."""
        if self.leases.closed:  # the pump did not wait: it was interrupted
            return None
        self.session.beat()
        self._look_after()
        patience = self._patience(math.inf)
        return min(patience, max(self.upkeep.due_at - time.monotonic(), 0.001)) if patience > 0 else None

    def _patience(self, until: float) -> float:
        """For how many seconds there is nothing to do, at most until then (on the monotonic clock)."""
        leases, renewals = self.leases, self._renewals
        until = min(until, leases.due_at, leases.ahead.urgent_at, self.stopping.at)
        if leases.in_hand:
            until = min(until, renewals.checked_at + renewals.seconds)
        if renewals.news and leases.running:
            until = min(until, renewals.checked_at + NEWS_SECONDS)
        if self._reports.waiting:
            until = min(until, self._reports.due_at)
        timeout = max(until - time.monotonic(), 0.001)
        steady = self.session.steady()
        due = self._next_due if leases.room > 0 else None
        tick = None if leases.stopping else self._ticker.next
        alarms = leases.deadlines.alarms
        alarm = alarms[0][0] if alarms else None
        for moment in (due, tick, alarm):
            if moment is not None:
                timeout = min(timeout, max((moment - steady) / 1000, 0.0))
        return timeout
