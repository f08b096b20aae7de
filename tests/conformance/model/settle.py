"""exchange and report: a worker's numbered requests, and what a repeated one is answered."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import StaleRequest
from headrace.records import (
    ExchangeReply,
    Extras,
    Kind,
    Lease,
    Outcome,
    Ref,
    Report,
    State,
    Take,
    Token,
    Verdict,
)
from headrace.store.contract import Reported

from .core import Core, Step
from .records import Job, Session


class Exchange(Core):
    def exchange(
        self,
        session: str,
        number: int,
        outcomes: Sequence[Outcome] = (),
        take: Take | None = None,
        *,
        steady: int = 0,
        started: Sequence[Ref] = (),
    ) -> Step[ExchangeReply]:
        return Step(self._exchange, session, number, outcomes, take, steady, started)

    def _exchange(
        self,
        session_id: str,
        number: int,
        outcomes: Sequence[Outcome],
        take: Take | None,
        steady: int,
        started: Sequence[Ref],
    ) -> ExchangeReply:
        session = self._live(session_id, settles=take is None)
        expired = self._expired(session)
        self.passed_left = 0
        if not self._is_repeat(session, number):
            self._mark_started(session, started)
            session.answer = [self._settle(session, outcome, steady) for outcome in outcomes]
            self._work_off()
            if take is not None:
                self._take(session, number, take)
        if not expired:
            self._mark_seen(session)
        handed_out = [job for job in self._held(session) if job.handed_out[0] == number]
        scheduled = [job.due for job in self.jobs.values() if job.state is State.SCHEDULED]
        return ExchangeReply(
            session.answer,
            [self._lease(job) for job in handed_out],
            self.clock.now(),
            self.clock.now() if self.ended or self.passed_left < 0 else min(scheduled, default=None),
            self._next_tick(),
        )

    def report(self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0) -> Step[list[Reported]]:
        return Step(self._report, session, number, reports, steady)

    def _report(self, session_id: str, number: int, reports: Sequence[Report], steady: int) -> list[Reported]:
        session = self._live(session_id)
        if not self._is_repeat(session, number):
            session.answer = [self._record(session, report, steady) for report in reports]
        self._mark_seen(session)
        return session.answer

    def _record(self, session: Session, report: Report, steady: int) -> Reported:
        job = self._by_ref(report.ref)
        if job is None or not self._holds(session, job, report.token):
            return Reported.LOST
        changed = self._has_other_data(job, report.base)
        if report.progress is not None:
            job.progress = report.progress
            self._happened(job, "progress", "{:.14g}/{:.14g}".format(*report.progress), job.worker)
        if report.data is not None and not changed:
            job.data = report.data
            job.updated = job.updated and report.base is None
        if report.account is not None and not changed:
            self._note(job, "updated", worker=job.worker, account=report.account)
        for at, line in report.log:
            self._note(job, "log", line, self.clock.now() - (steady - at), job.worker)
            self._happened(job, "log", line, job.worker)
        return Reported.CHANGED if changed else Reported.OK

    def _has_other_data(self, job: Job, base: bytes | None) -> bool:
        return base is not None and base != (job.data or b"")

    def _is_repeat(self, session: Session, number: int) -> bool:
        if number < session.number:
            raise StaleRequest
        repeat = number == session.number
        session.number = number
        return repeat

    def _settle(self, session: Session, outcome: Outcome, steady: int) -> Verdict:
        job = self._by_ref(outcome.ref)
        if job is None or job.token != outcome.token or job.session != session.info.id:
            return Verdict.STALE
        if job.state is not State.RUNNING:
            return Verdict.ALREADY
        if self._has_other_data(job, outcome.base) and not job.completed:
            return Verdict.CHANGED
        if outcome.kind is Kind.RELEASED and outcome.began is None and not job.completed:
            self._never_started(job)
        self._end(job, outcome, steady)
        return Verdict.OK

    def complete(self, lease: tuple[Ref, Token, str], result: bytes | None) -> Step[bool]:
        return Step(self._complete, lease, result)

    def _complete(self, lease: tuple[Ref, Token, str], result: bytes | None) -> bool:
        ref, token, _ = lease
        job = self._by_ref(ref)
        if job is None or (job.token, job.state) != (token, State.RUNNING) or job.completed:
            return False
        job.completed, job.result = True, result
        return True

    def is_completed(self, lease: tuple[Ref, Token, str]) -> Step[bool]:
        return Step(lambda: any((job.ref, job.token) == lease[:2] and job.completed for job in self.jobs.values()))

    def _by_ref(self, ref: Ref) -> Job | None:
        return next((job for job in self.jobs.values() if job.ref == ref), None)

    def _lease(self, job: Job) -> Lease:
        extras = Extras(after=job.after, resumed=job.resumed, tick=job.tick, start_within=job.start_within)
        same = [name for name in Lease.__struct_fields__ if name not in ("cancelled", "extras")]
        return Lease(**{name: getattr(job, name) for name in same}, cancelled=job.cancelling, extras=extras)
