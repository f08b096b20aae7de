"""What an outcome does: the table of that name."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.records import Charge, HistoryRecord, Kind, Outcome, State
from headrace.store import limits
from headrace.store.stats import DAY
from headrace.values.names import same_traffic

from .core import Core
from .records import Job

MAY_NOT_HAVE_BEGUN = (Kind.AGAIN, Kind.RELEASED, Kind.MOVED)
STARTED = (Kind.CRASHED, Kind.MOVED, Kind.WAITING)
"""After these a job expires no more, as after a run that cost an attempt."""


class Outcomes(Core):
    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        if job.completed:
            outcome = replace(outcome, kind=Kind.DONE, charge=Charge.ATTEMPT, result=job.result, data=None, error=None)
            job.completed = False
        now = self.clock.now()
        queue = job.queue
        cancelled = job.cancelling and outcome.kind is not Kind.DONE
        self._charge(job, outcome)
        if outcome.began is not None:
            job.started = now - (steady - outcome.began)
        ended = now if outcome.ended is None else now - (steady - outcome.ended)
        what = self._word(job, outcome, given_back)
        waits = what == "waiting" or (what == "moved" and outcome.after)
        why = self._why_not_wait(job, outcome.after) if waits and not cancelled else ""
        unbegun = (
            outcome.began is None and outcome.kind in MAY_NOT_HAVE_BEGUN and given_back == "released" and not cancelled
        )
        if unbegun and job.events[-1].what == "started":
            del job.events[-1]
        else:
            job.events[job.start_line] = HistoryRecord(job.started, "started", "", job.worker)
            if not (cancelled or why or what in ("done", "failed")):
                self._note(job, what, outcome.note, ended, job.worker, outcome.account)
        if why:
            self._fail(job, limits.DEPENDENCY, limits.own_error(why))
        elif cancelled:
            job.group = outcome.group or job.group
            self._finish(job, State.CANCELLED, ended, account=outcome.account)
            self._happened(job, "cancelled", worker=job.worker)
        elif what == "done":
            job.result = outcome.result
            job.error = job.group = None
            self._finish(job, State.DONE, ended, account=outcome.account)
            self._happened(job, "done", worker=job.worker)
        elif what == "failed":
            job.group = {Kind.BROKEN: "broken", Kind.CRASHED: "crashed"}.get(outcome.kind, outcome.group)
            self._finish(job, State.FAILED, ended, outcome.note, outcome.account)
            self._happened(job, "failed", job.group or "", job.worker)
        else:
            self._go_on(job, outcome, what, ended)
        self._left_running(queue)

    def _charge(self, job: Job, outcome: Outcome) -> None:
        """What it always does."""
        job.cancelling = False
        job.spare = False
        job.updated = False
        if outcome.charge is Charge.ATTEMPT:
            job.attempts += 1
        if outcome.kind is Kind.CRASHED:
            job.crashes += 1
        if outcome.charge is not Charge.DEFERRAL:
            job.deferred_since = None
        elif job.deferred_since is None:
            job.deferred_since = self.clock.now()
        if outcome.data is not None:
            job.data = outcome.data
        if outcome.error is not None:
            job.error = outcome.error

    def _word(self, job: Job, outcome: Outcome, given_back: str) -> str:
        """What happened, in the words of histories and events."""
        if outcome.kind is Kind.CRASHED and job.crashes >= job.max_crashes:
            return "failed"
        return {
            Kind.DONE: "done",
            Kind.AGAIN: "deferred" if outcome.charge is Charge.DEFERRAL else "retried",
            Kind.FAILED: "failed",
            Kind.BROKEN: "failed",
            Kind.RELEASED: given_back,
            Kind.CRASHED: "crashed",
            Kind.MOVED: "moved",
            Kind.WAITING: "waiting",
        }[outcome.kind]

    def _go_on(self, job: Job, outcome: Outcome, what: str, ended: int) -> None:
        """The job is to run again."""
        queue = job.queue
        if outcome.kind in STARTED or outcome.charge is Charge.ATTEMPT:
            job.expires = None  # it has started
        due = self.clock.now() + outcome.delay if outcome.at is None else outcome.at
        if outcome.kind in (Kind.MOVED, Kind.RELEASED):
            target = same_traffic(queue, outcome.queue or queue)
            if target != queue:
                self._join_lane(target, job.lane)
            job.queue = target
        if outcome.kind is Kind.MOVED:
            job.task = outcome.task or job.task
            job.body = job.body if outcome.body is None else outcome.body
            job.attempts = job.crashes = 0
        self._happened(job, what, outcome.note, job.worker)
        if outcome.kind is Kind.WAITING:
            self._wait_for_children(job, outcome.after, 0, self.clock.now())
        elif outcome.kind is Kind.AGAIN:
            self.counted["retries", job.queue, ended // DAY] += outcome.charge is Charge.ATTEMPT
            job.group = outcome.group or job.group
            self._wait_in_line(job, due)
        elif outcome.kind is Kind.MOVED:
            job.state = State.SCHEDULED
            if job.queue != queue:
                self._left_lane(job, queue)
            if outcome.after:
                self._wait_for_children(job, outcome.after, outcome.delay if outcome.at is None else None, due)
            else:
                self._wait_in_line(job, due)
        else:
            if job.queue != queue:
                job.state = State.SCHEDULED
                self._left_lane(job, queue)
            self._wait_in_line(job, job.due, was_due=True)
