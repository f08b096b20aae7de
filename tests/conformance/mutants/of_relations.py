"""Mutants of what holds between jobs: keys, retention, dependencies, lanes, queues, histories, edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from conformance.model import Model
from conformance.model.core import Step
from conformance.model.records import WAITING, Edge, Job, LaneRecord
from conformance.simulation.scene import KEEP_FAILED
from headrace.records import HistoryRecord, Lane, NewJob, Outcome, State
from headrace.store.facets import Edit

from . import mutant

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
    def _revive(self, job_id: str, *how: Any) -> bool:
        job = self.jobs.get(job_id)
        counters = (job.attempts, job.crashes) if job else (0, 0)
        revived = super()._revive(job_id, *how)
        if revived and job:
            job.attempts, job.crashes = counters
        return revived


@mutant
class RevivesOverTheKeyOfAnother(Model):
    def _revive(self, job_id: str, *how: Any) -> bool:
        job = self.jobs.get(job_id)
        if job and job.former_key:
            job.unique_key, job.former_key = job.former_key, None
        return super()._revive(job_id, *how)


@mutant
class RevivesWithoutTheKeyThatAnotherHad(Model):
    def _bring_back(self, job: Job, due: int) -> None:
        kept, job.former_key = job.former_key, None
        super()._bring_back(job, due)
        job.former_key = kept


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
        said = lane.said
        if said.limit is not None:
            lane.said = msgspec.structs.replace(said, limit=said.limit + 1)
        super()._admit(lane)
        lane.said = said


@mutant
class TakesSilenceForNoLimit(Model):
    def _define_lane(self, job: Job, wanted: Lane) -> str:
        return super()._define_lane(job, msgspec.structs.replace(wanted, limit=wanted.limit or 0))


@mutant
class LetsAPutWinOverWhatIsSet(Model):
    def _define_lane(self, job: Job, wanted: Lane) -> str:
        if wanted.limit is not None and (lane := self._lane_of(job)):
            lane.rule = None
        return super()._define_lane(job, wanted)


@mutant
class ForgetsWhatIsSetWithTheLane(Model):
    def _forget_lane(self, key: tuple[str, str]) -> None:
        was_there = key in self.known_lanes
        super()._forget_lane(key)
        if was_there and key not in self.known_lanes:
            self.rules_of_lanes.pop(key, None)


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
    def _take_back(self, job_id: str, *how: Any) -> bool:
        timed_out = super()._take_back(job_id, *how)
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
