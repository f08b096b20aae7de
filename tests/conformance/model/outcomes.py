"""What an outcome does: the table of that name."""

from __future__ import annotations

from headrace.job import Charge, Kind, Outcome, State
from headrace.stats import DAY

from .core import Core
from .records import Job


class Outcomes(Core):
    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        self._apply(job, outcome, steady, given_back)
        what = job.events[-1].what
        if outcome.kind is Kind.WAITING and what == "failed":
            return  # told already
        detail = outcome.note if job.finished is None else (job.group or "") if what == "failed" else ""
        self._happened(job, what, detail, job.worker)

    def _apply(self, job: Job, outcome: Outcome, steady: int, given_back: str) -> None:
        """The table "What an outcome does"."""
        now = self.clock.now()
        kind = outcome.kind
        queue = job.queue
        cancelled = job.cancelling and kind is not Kind.DONE
        job.cancelling = False
        job.spare = False
        if outcome.charge is Charge.ATTEMPT:
            job.attempts += 1
        if kind is Kind.CRASHED:
            job.crashes += 1
        if outcome.charge is not Charge.DEFERRAL:
            job.deferred_since = None
        elif job.deferred_since is None:
            job.deferred_since = now
        if outcome.data is not None:
            job.data = outcome.data
        if outcome.error is not None:
            job.error = outcome.error
        if outcome.began is not None:
            job.started = now - (steady - outcome.began)
        ended = now if outcome.ended is None else now - (steady - outcome.ended)
        due = now + outcome.delay if outcome.at is None else outcome.at

        if cancelled:
            job.group = outcome.group or job.group
            self._finish(job, State.CANCELLED, ended)
            self._note(job, "cancelled")
        elif kind is Kind.DONE:
            job.result = outcome.result
            job.error = job.group = None
            self._finish(job, State.DONE, ended)
            self._note(job, "done")
        elif kind is Kind.AGAIN:
            self.counted["retries", job.queue, ended // DAY] += outcome.charge is Charge.ATTEMPT
            job.group = outcome.group or job.group
            self._note(job, "deferred" if outcome.charge is Charge.DEFERRAL else "retried", outcome.note)
            self._wait_in_line(job, due)
        elif kind in (Kind.FAILED, Kind.BROKEN):
            job.group = outcome.group if kind is Kind.FAILED else "broken"
            self._finish(job, State.FAILED, ended)
            self._note(job, "failed", outcome.note or job.group or "")
        elif kind is Kind.CRASHED and job.crashes >= job.max_crashes:
            job.group = "crashed"
            self._finish(job, State.FAILED, ended)
            self._note(job, "failed")
        elif kind in (Kind.RELEASED, Kind.CRASHED):
            self._note(job, "crashed" if kind is Kind.CRASHED else given_back)
            self._wait_in_line(job, job.due, was_due=True)
        elif kind is Kind.MOVED:
            job.queue = outcome.queue or job.queue
            job.task = outcome.task or job.task
            job.body = job.body if outcome.body is None else outcome.body
            job.attempts = job.crashes = 0
            self._note(job, "moved")
            job.state = State.SCHEDULED
            if job.queue != queue:
                self._left_lane(job, queue)
            self._wait_in_line(job, due)
        elif kind is Kind.WAITING:
            self._wait_for_children(job, outcome.after)
        self._left_running(queue)
