"""Renewals of the leases in hand: which were cancelled or lost, and what the store has that is not held here."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from headrace.errors import MaybeApplied, StoreUnavailable
from headrace.records import Kind, Outcome, Renewal
from headrace.worker.leases import Leases
from headrace.worker.outcomes import CANCELLED, LOST, about
from headrace.worker.run import Run
from headrace.worker.session import Session

log = logging.getLogger("headrace.worker")

SHARE = 3
"""Held leases are checked this often within a session's time-out, or within their own if that is shorter."""
IDLE = 1.8
"""Where none is held, this many times as seldom: a pump that looks every second is just in time for its supervisor."""
LEAST_SECONDS = 0.05
"""But not more often than this."""
NEWS_SECONDS = 0.1
"""News may be a cancellation: the leases in hand are checked at most this often."""
STRAY = "its worker did not know of it"


class Renewals:
    """Made by the pump, or by the thread that waits in its stead."""

    def __init__(self, session: Session, leases: Leases) -> None:
        self._session = session
        self._leases = leases
        self.news = False
        """The store had news, which may be a cancellation."""
        self.checked_at = self.compared_at = time.monotonic()
        self.seconds = self._within(session.timeout)
        """Seconds between two renewals."""
        self.new_tokens: dict[str, Run] = {}
        """Runs whose leases were renewed into new tokens while their outcomes may have been under way, by job."""

    def check_if_due(self, now: float) -> None:
        since = now - self.checked_at
        if since >= self.seconds or (self.news and since >= NEWS_SECONDS) or self._may_compare(now):
            self.checked_at = now
            self.news = False
            self.check()

    def _may_compare(self, now: float) -> bool:
        """Whether it is time to compare what the store says we hold with what we hold.

        Not while an exchange is under way: it may be handing something out. Where leases live in jobs there is no need.
        """
        due = now - self.compared_at >= self.seconds * (1 if self._leases.in_hand else IDLE)
        return due and self._session.unanswered is None and not self._session.store.leases_in_jobs

    def agree(self) -> None:
        """Nothing is held here, and the store has said that it knows of nothing else: that was a comparison."""
        self.compared_at = time.monotonic()

    def check(self) -> None:
        """Renew, stop what was cancelled or lost, give back what is not held here."""
        compare = self._may_compare(time.monotonic())
        runs = self._runs()
        if not runs and not compare:
            self.seconds = self._within(self._session.timeout)
            return
        held = [run.lease_key for run in runs.values()]
        if compare:
            self.compared_at = time.monotonic()
            # Of a job that came back to us the run that goes on is named: losses come by id.
            ended = [outcome for outcome in tuple(self._leases.outcomes) if outcome.id not in runs]
            held += [(outcome.ref, outcome.token, outcome.id) for outcome in ended]
        try:
            renewal = self._session.renew(held, complete=compare)
        except (StoreUnavailable, MaybeApplied) as error:
            log.warning("%s", error, extra={"event": "store_unavailable"})
            return
        self._apply(renewal, runs)

    def _runs(self) -> dict[str, Run]:
        """The runs in hand by job, each the newest of its job."""
        waiting = tuple(self._leases.waiting)  # looked at first, as it is left first: nothing is missed
        runs: dict[str, Run] = {}
        for run in dict.fromkeys((*self._leases.running, *waiting)):
            overtaken = runs.get(run.id)  # its job came back to us: so it was taken away before
            runs[run.id] = run
            if overtaken is not None:
                self._take_away(overtaken, LOST)
        return runs

    def _apply(self, renewal: Renewal, runs: dict[str, Run]) -> None:
        if self._session.store.leases_in_jobs:
            for run in runs.values():
                run.sure_until = self._session.sure_until
        if renewal.ends is not None:
            self.seconds = self._within(renewal.ends - renewal.now)
        for job_id, token in renewal.tokens.items():
            run = self.new_tokens[job_id] = runs[job_id]
            run.former_tokens = (*run.former_tokens[-9:], run.lease.token)
            run.lease.token = token
        for ids, reason in ((renewal.lost, LOST), (renewal.cancelled, CANCELLED)):
            for job_id in ids:
                if job_id in runs:
                    self._take_away(runs[job_id], reason)
        for job_id, data in renewal.data.items():
            if job_id in runs:  # (or it has ended)
                runs[job_id].speaking.hear(data)
        for ref, token, job_id in renewal.strays:
            log.warning(
                "job %s is not held here, though the store says so: was it set back? It is given back",
                job_id,
                extra={"event": "lease_stray", "job_id": job_id},
            )
            self._leases.outcomes.append(Outcome(ref=ref, token=token, id=job_id, kind=Kind.RELEASED, note=STRAY))

    def _take_away(self, run: Run, reason: str) -> None:
        if not self._leases.release(run) and run in self._leases.running and run.stop_reason is None:
            log.info("job %s: %s", run.id, reason, extra=about(run.lease, "job_stopping"))
            run.stop(reason)

    def put_new_tokens(self, outcomes: Sequence[Outcome]) -> None:
        """What ended while its lease was renewed goes by the new token. (Not what an earlier run of the job says.)"""
        for outcome in outcomes:
            run = self.new_tokens.get(outcome.id)
            if run is not None and outcome.token in (*run.former_tokens, run.lease.token):
                outcome.token = run.lease.token
                del self.new_tokens[outcome.id]

    def handed_out(self, lease: int) -> None:
        """There are leases that last so many milliseconds."""
        self.seconds = min(self.seconds, self._within(lease))

    def _within(self, lease: int) -> float:
        """Seconds after which leases that last so many milliseconds are renewed."""
        return max(min(lease, self._session.timeout) / 1000 / SHARE, LEAST_SECONDS)
