"""Mutants of a run: the fence, sessions, counting, states, lines and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.model import Model
from conformance.model.records import Job, Session
from headrace.errors import SessionGone, StaleRequest
from headrace.records import Charge, Kind, Outcome, Ref, State, Take, Verdict
from headrace.store.contract import Swept

from . import mutant

# -- the fence --


@mutant
class SettlesWithoutLookingAtTheToken(Model):
    def _settle(self, session: Session, outcome: Outcome, steady: int) -> Verdict:
        job = self._by_ref(outcome.ref)
        if job is None or job.state is not State.RUNNING:
            return super()._settle(session, outcome, steady)
        self._end(job, outcome, steady)
        return Verdict.OK


@mutant
class AcceptsTokensThatAreOlder(Model):
    def _settle(self, session: Session, outcome: Outcome, steady: int) -> Verdict:
        job = self._by_ref(outcome.ref)
        if job is not None and job.token >= outcome.token and job.session == session.info.id:
            outcome.token = job.token
        return super()._settle(session, outcome, steady)


@mutant
class SettlesForAnySession(Model):
    def _settle(self, session: Session, outcome: Outcome, steady: int) -> Verdict:
        job = self._by_ref(outcome.ref)
        if job is not None and job.token == outcome.token and job.state is State.RUNNING:
            self._end(job, outcome, steady)
            return Verdict.OK
        return super()._settle(session, outcome, steady)


@mutant
class DoesNotChangeTheTokenWhenGivingBack(Model):
    def _close_session(self, session_id: str, crashed: Sequence[Ref] | None) -> list[str]:
        given_back = super()._close_session(session_id, crashed)
        for job_id in given_back:
            self.jobs[job_id].token -= 1
        return given_back


@mutant
class UsesReferencesAgain(Model):
    def _delete(self, job_id: str) -> bool:
        deleted = super()._delete(job_id)
        self.last_ref = max((job.ref for job in self.jobs.values()), default=0)
        return deleted


@mutant
class RecordsReportsOfLostLeases(Model):
    def _holds(self, session: Session, job: Job, token: Any) -> bool:
        return job.state is State.RUNNING and job.session == session.info.id


@mutant
class SaysOkToASettleRecordedAlready(Model):
    def _settle(self, session: Session, outcome: Outcome, steady: int) -> Verdict:
        verdict = super()._settle(session, outcome, steady)
        return Verdict.OK if verdict is Verdict.ALREADY else verdict


# -- sessions --


@mutant
class RenewsAfterExpiry(Model):
    def _live(self, session_id: str, *, settles: bool = False) -> Session:
        session = self.known_sessions.get(session_id)
        if session is None or session.closed:
            raise SessionGone
        return session


@mutant
class ExpiresAMillisecondLate(Model):
    def _expired(self, session: Session) -> bool:
        return bool(self._held(session)) and self.clock.steady() - session.seen > session.info.timeout


@mutant
class ExpiresOnTheWallClock(Model):
    def _expired(self, session: Session) -> bool:
        silence = self.clock.now() - session.seen_at
        return bool(self._held(session)) and silence >= session.info.timeout


@mutant
class HasNoReplyCache(Model):
    def _is_repeat(self, session: Session, number: int) -> bool:
        super()._is_repeat(session, number)
        return False


@mutant
class AnswersLowerNumbers(Model):
    def _is_repeat(self, session: Session, number: int) -> bool:
        try:
            return super()._is_repeat(session, number)
        except StaleRequest:
            return False


@mutant
class ForgetsTheLeasesOfARepeatedTake(Model):
    def _is_repeat(self, session: Session, number: int) -> bool:
        repeat = super()._is_repeat(session, number)
        if repeat:
            for job in self._held(session):
                job.handed_out = (0, 0)
        return repeat


@mutant
class OpensClosedSessionsAgain(Model):
    def _open(self, info: Any) -> int:
        if info.id in self.known_sessions:
            self.known_sessions[info.id].closed = False
        return super()._open(info)


@mutant
class ExchangeDoesNotCountAsBeingSeen(Model):
    def _exchange(self, session_id: str, *args: Any) -> Any:
        seen = self.known_sessions[session_id].seen if session_id in self.known_sessions else 0
        turn = super()._exchange(session_id, *args)
        self.known_sessions[session_id].seen = seen
        return turn


@mutant
class SweepsSessionsThatAreAlive(Model):
    def _sweep(self) -> Swept:
        for session in self._open_sessions():
            if self._held(session) and self.clock.steady() - session.seen > session.info.timeout // 2:
                session.seen = -session.info.timeout
        return super()._sweep()


@mutant
class LosesTheStartOfSpareLeases(Model):
    def _mark_started(self, session: Session, started: Sequence[Ref]) -> None:
        pass


# -- counting --


class Ends(Model):
    """Looks at a job before and after it ends; `wrong` does the wrong thing."""

    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        before = vars(job).copy()
        super()._end(job, outcome, steady, given_back)
        self.wrong(job, before, outcome)

    def wrong(self, job: Job, before: dict[str, Any], outcome: Outcome) -> None:
        raise NotImplementedError


@mutant
class DoesNotChargeAttempts(Ends):
    def wrong(self, job: Job, before: dict[str, Any], outcome: Outcome) -> None:
        job.attempts = min(job.attempts, before["attempts"])


@mutant
class DoesNotCountCrashes(Ends):
    def wrong(self, job: Job, before: dict[str, Any], outcome: Outcome) -> None:
        job.crashes = min(job.crashes, before["crashes"])


@mutant
class AGracefulReleaseBurnsAnAttempt(Ends):
    def wrong(self, job: Job, before: dict[str, Any], outcome: Outcome) -> None:
        job.attempts += outcome.kind is Kind.RELEASED


@mutant
class AllowsOneCrashMore(Model):
    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        job.max_crashes += 1
        super()._end(job, outcome, steady, given_back)
        job.max_crashes -= 1


@mutant
class AMovedJobKeepsItsAttempts(Ends):
    def wrong(self, job: Job, before: dict[str, Any], outcome: Outcome) -> None:
        if outcome.kind is Kind.MOVED and not job.state.final:
            job.attempts = before["attempts"]


@mutant
class ForgetsSinceWhenAJobIsDeferred(Ends):
    def wrong(self, job: Job, before: dict[str, Any], outcome: Outcome) -> None:
        if outcome.charge is Charge.DEFERRAL:
            job.deferred_since = self.clock.now()


# -- states, lines and time --


@mutant
class IgnoresCancellationsWhenSettling(Model):
    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        job.cancelling = False
        super()._end(job, outcome, steady, given_back)


@mutant
class CancelsWhatIsDone(Model):
    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        if job.cancelling and outcome.kind is Kind.DONE:
            outcome.kind = Kind.FAILED
        super()._end(job, outcome, steady, given_back)


@mutant
class LosesTheDueTimeOnRelease(Ends):
    def wrong(self, job: Job, before: dict[str, Any], outcome: Outcome) -> None:
        if outcome.kind in (Kind.RELEASED, Kind.CRASHED):
            job.due = self.clock.now()


@mutant
class ScheduledJobsNeverMove(Model):
    def _take(self, session: Session, number: int, take: Take) -> None:
        scheduled = [job for job in self.jobs.values() if job.state is State.SCHEDULED]
        for job in scheduled:
            job.state = State.BLOCKED
        super()._take(session, number, take)
        for job in scheduled:
            job.state = State.SCHEDULED


@mutant
class PromotesAMillisecondEarly(Model):
    def _take(self, session: Session, number: int, take: Take) -> None:
        for job in self.jobs.values():
            if job.state is State.SCHEDULED and job.due - 1 <= self.clock.now():
                job.state = State.READY
        super()._take(session, number, take)


@mutant
class TakesTheNewestFirst(Model):
    def _first(self, line: list[Job]) -> Job | None:
        return min(line, key=lambda job: (-job.priority, -job.due, -job.ref), default=None)


@mutant
class IgnoresPriorities(Model):
    def _first(self, line: list[Job]) -> Job | None:
        return min(line, key=lambda job: (job.due, job.ref), default=None)


@mutant
class StartsRoundRobinAgainForSpares(Model):
    def _order(self, queues: list[str], turn: int, spare: bool) -> list[str]:
        return queues if spare else super()._order(queues, turn, spare)


# -- expiry --


@mutant
class ExpiresAMillisecondEarly(Model):
    def _has_expired(self, job: Job) -> bool:
        return super()._has_expired(job) or (job.state is State.READY and job.expires_at == self.clock.now())


@mutant
class CountsADurationFromThePut(Model):
    def _expect_start(self, job: Job) -> None:
        super()._expect_start(job)
        if job.expires_at is not None and job.expires.after is not None:
            job.expires_at = job.created + job.expires.after
