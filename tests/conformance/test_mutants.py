"""The simulation proves itself: each of these bugs, planted in a copy of the model, must be found.

Every one was seen in some job queue. A mutant is the model with one method broken; the histories compare it
with the model that is not. A mutant that survives means that the simulation has become blind to something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from headrace.errors import SessionGone, StaleRequest
from headrace.records import Charge, HistoryRecord, Kind, NewJob, Outcome, Ref, State, Swept, Take, Verdict
from headrace.store.facets import Edit
from headrace.values.clock import ManualClock
from volume import volume

from .model import Model
from .model.core import Step
from .model.records import WAITING, Edge, Job, LaneRecord, Session
from .simulation.audit import Violation
from .simulation.choosing import Seeded
from .simulation.histories import failure, live, shrink
from .simulation.scene import KEEP_DONE, KEEP_FAILED

HISTORIES = 300
STEPS = 80

MUTANTS: list[type[Model]] = []


def mutant(cls: type[Model]) -> type[Model]:
    MUTANTS.append(cls)
    return cls


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


# -- uniqueness, retention, admins --


@mutant
class DoesNotFindKeysOfRunningJobs(Model):
    def _holder(self, key: str) -> Job | None:
        holder = super()._holder(key)
        return None if holder is not None and holder.state is State.RUNNING else holder


@mutant
class UniqueForIsForgottenAtTheEnd(Model):
    def _holder(self, key: str) -> Job | None:
        holder = super()._holder(key)
        return None if holder is not None and holder.state.final else holder


@mutant
class ReplacesRunningJobs(Model):
    def _put_one(self, new: NewJob) -> Any:
        holder = self._holder(new.unique_key) if new.unique_key else None
        if holder and new.replace and holder.state not in WAITING and not holder.state.final:
            self._delete(holder.id)
        return super()._put_one(new)


@mutant
class PutsTheSameIdTwice(Model):
    def _put_one(self, new: NewJob) -> Any:
        if new.unique_key is None and new.id in self.jobs and self.jobs[new.id].state.final:
            self._delete(new.id)
        return super()._put_one(new)


@mutant
class PutsTheSameUniqueJobTwice(Model):
    def _put_one(self, new: NewJob) -> Any:
        if new.unique_key is not None and new.id in self.jobs and self.jobs[new.id].state.final:
            self._delete(new.id)
        return super()._put_one(new)


@mutant
class PutsTheRestOfARefusedBatch(Model):
    def _put(self, jobs: Sequence[NewJob]) -> Any:
        for new in jobs:
            if not new.require_worker:
                self._put_one(new)
        return super()._put(jobs)


@mutant
class PurgesWithoutLookingAtTheState(Model):
    def _given_up(self, job: Job, all_done: list[int]) -> bool:
        return (job.finished or job.created) + KEEP_FAILED < self.clock.now() or super()._given_up(job, all_done)


@mutant
class PurgesWhatOthersNeed(Model):
    def _is_needed(self, job: Job) -> bool:
        return False


@mutant
class KeepsWhatOthersWaitForInVain(Model):
    def _is_needed(self, job: Job) -> bool:
        return any(self._unfinished(follower) for follower in job.followers)


@mutant
class NeverPurges(Model):
    def _given_up(self, job: Job, all_done: list[int]) -> bool:
        return False


@mutant
class RevivesWithOldCounters(Model):
    def _revive(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        counters = (job.attempts, job.crashes) if job else (0, 0)
        revived = super()._revive(job_id)
        if revived and job:
            job.attempts, job.crashes = counters
        return revived


@mutant
class RevivesOverTheKeyOfAnother(Model):
    def _revive(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job and job.former_key:
            job.unique_key, job.former_key = job.former_key, None
        return super()._revive(job_id)


@mutant
class CountsLeasesOfDeletedJobs(Model):
    def _delete(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is not None and job.state is State.RUNNING:
            return False
        return super()._delete(job_id)


# -- jobs that wait for jobs, lanes, queues --


@mutant
class ReleasesWithTheFirstParent(Model):
    def _unmet(self, job: Job) -> list[Edge]:
        unmet = super()._unmet(job)
        return unmet if len(unmet) == len(set(job.after) & self.jobs.keys()) else []


@mutant
class ForgetsDependentsOfRemovedJobs(Model):
    def _has_ended(self, job: Job, how: State | None, *, met: bool) -> None:
        if how is not None:
            super()._has_ended(job, how, met=met)


@mutant
class TakesFailureForSuccess(Model):
    def _has_ended(self, job: Job, how: State | None, *, met: bool) -> None:
        super()._has_ended(job, how, met=met or how is State.FAILED)


@mutant
class LeavesTheDependentsOfRevivedJobsFailed(Model):
    def _forgive(self, child: Job, parent: Job) -> int:
        return 0


@mutant
class LetsJobsWaitForThemselves(Model):
    def _is_waited_for(self, ids: Sequence[str], job: Job) -> bool:
        return False


@mutant
class CountsTheDelayFromThePut(Model):
    def _release(self, job: Job) -> None:
        job.delay = None
        super()._release(job)


@mutant
class RunsOneMoreThanTheLimit(Model):
    def _admit(self, lane: LaneRecord) -> None:
        wanted = lane.lane
        if wanted.limit is not None:
            lane.lane = msgspec.structs.replace(wanted, limit=wanted.limit + 1)
        super()._admit(lane)
        lane.lane = wanted


@mutant
class ForgetsStarts(Model):
    def _started_in_lane(self, job: Job, grace: int) -> None:
        lane = self._lane_of(job)
        super()._started_in_lane(job, grace)
        if lane:
            lane.starts = lane.starts[1:]


@mutant
class CountsAStartWhenItIsHandedOut(Model):
    def _started_in_lane(self, job: Job, grace: int) -> None:
        super()._started_in_lane(job, grace)
        lane = self._lane_of(job)
        if lane and lane.lane.rate:
            lane.starts = [*lane.starts[:-1], self.clock.now()]


@mutant
class CountsWhatNeverStarted(Model):
    def _never_started(self, job: Job) -> None:
        pass


@mutant
class PassesTheTurnOnWithARetry(Model):
    def _end(self, job: Job, outcome: Outcome, steady: int, given_back: str = "released") -> None:
        lane = self._lane_of(job)
        if lane and lane.turn is job:
            lane.turn = None
        super()._end(job, outcome, steady, given_back)


@mutant
class LeavesTheFrontOfACancelledJob(Model):
    def _leave(self, job: Job) -> None:
        job.in_lanes_line = False


@mutant
class HandsOutLanesAsSpare(Model):
    def _head(self, queue: str, spare: bool) -> Job | None:
        return super()._head(queue, False)


@mutant
class DoesNotPause(Model):
    def _pause(self, queue: str, by: str) -> bool:
        return self.queue_controls.get(queue) is None or self.queue_controls[queue].paused_at is None


@mutant
class TimesOutWithoutANewToken(Model):
    def _time_out(self, job_id: str) -> bool:
        timed_out = super()._time_out(job_id)
        if timed_out:
            self.jobs[job_id].token -= 1
        return timed_out


# -- histories --


@mutant
class TellsOfAStartThatWasNone(Model):
    def _cancel(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is not None and job.state in WAITING and job.started is not None:
            self._note(job, "started", at=job.started, worker=job.worker)
        return super()._cancel(job_id)


@mutant
class TellsTwoStartsOfOneMomentAsOne(Model):
    def _history(self, job_id: str) -> list[HistoryRecord]:
        return list(dict.fromkeys(super()._history(job_id)))


@mutant
class DependReleasesNobody(Model):
    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Any:
        return Step(self._depend, job_id, add, remove)


# -- editing --


@mutant
class EditsWithoutAskingTheLane(Model):
    def _edit(self, job_id: str, change: Edit) -> bool:
        edited = super()._edit(job_id, change)
        job = self.jobs.get(job_id)
        if edited and job and job.in_lanes_line:
            job.state, job.in_lanes_line = State.READY, False
        return edited


FOUND_BY = {
    "AMovedJobKeepsItsAttempts": 76,
    "CancelsWhatIsDone": 28,
    "CountsWhatNeverStarted": 61,
    "EditsWithoutAskingTheLane": 115,
    "ForgetsSinceWhenAJobIsDeferred": 45,
    "LeavesTheDependentsOfRevivedJobsFailed": 175,
    "PassesTheTurnOnWithARetry": 54,
    "RevivesOverTheKeyOfAnother": 118,
    "SettlesForAnySession": 35,
    "UsesReferencesAgain": 293,
}
"""Which history found a mutant that most of them miss. It is played first; if it misses, all are played."""


def kill(cls: type[Model], histories: int = HISTORIES) -> Violation | None:
    """What the first history that tells the mutant from the model finds."""
    for seed in [FOUND_BY.get(cls.__name__, 0), *range(histories)]:
        try:
            live(making(cls), Seeded(seed, STEPS))
        except Violation as violation:
            return violation
    return None


def making(cls: type[Model]) -> Any:
    def make(clock: ManualClock) -> Model:
        return cls(clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)

    return make


@pytest.mark.parametrize("cls", MUTANTS, ids=lambda cls: cls.__name__)
def test_a_mutant_breaks_something_that_is_there(cls: type[Model]) -> None:
    own = {name for name in vars(cls) if not name.startswith("__")}
    assert own
    assert own <= set(dir(cls.__bases__[0]))


def test_there_are_many_mutants() -> None:
    assert len(MUTANTS) == len({cls.__name__ for cls in MUTANTS}) >= 40


def test_the_model_itself_is_no_mutant() -> None:
    assert kill(Model, histories=volume(100)) is None


@pytest.mark.parametrize("cls", MUTANTS, ids=lambda cls: cls.__name__)
def test_the_simulation_finds_every_mutant(cls: type[Model]) -> None:
    violation = kill(cls)
    assert violation is not None, f"{cls.__name__} survived {HISTORIES} histories"
    assert not violation.rule.startswith(("TypeError", "AttributeError")), "it does not work at all"


@pytest.mark.parametrize("cls", [SettlesWithoutLookingAtTheToken, HasNoReplyCache], ids=lambda cls: cls.__name__)
def test_a_failing_history_is_shrunk_to_a_short_story(cls: type[Model]) -> None:
    violation = kill(cls)
    assert violation is not None
    story = shrink(making(cls), violation.world.story, violation.rule)
    again = failure(making(cls), story)
    assert again is not None
    assert again.rule == violation.rule
    assert len(story) <= 15
