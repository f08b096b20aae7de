"""Mutants of what people do: blocks of tasks, and what is added to jobs from outside."""

from __future__ import annotations

from conformance.model import Model
from conformance.model.records import Job, Session
from headrace.records import Report, State
from headrace.store.blocking import Block
from headrace.store.contract import Reported

from . import mutant_with

# -- blocks --


@mutant_with(blocks=True)
class LeavesBarredJobsBehind(Model):
    def _unblock(self, task: str) -> bool:
        return self.block_list.pop(task, None) is not None


@mutant_with(blocks=True)
class BringsBarredJobsBackAsDueNow(Model):
    def _unblock(self, task: str) -> bool:
        for job in self._barred(task):
            job.due = self.clock.now()
        return super()._unblock(task)


@mutant_with(blocks=True)
class BarsTheFrontOfALaneWithTheTimeOfItsRound(Model):
    def _bar(self, job: Job) -> None:
        due = job.due
        super()._bar(job)
        job.due = due


@mutant_with(blocks=True)
class HoldsUpTheLaneOfABarredJob(Model):
    def _bar(self, job: Job) -> None:
        due = self._own_due(job)
        self._leave(job)
        job.state, job.due, job.barred = State.BLOCKED, due, True


@mutant_with(blocks=True)
class CountsABlockFromTheLastTime(Model):
    def _block(self, task: str, reason: str, by: str) -> bool:
        is_new = super()._block(task, reason, by)
        self.block_list[task] = Block(task, reason, by, self.clock.now())
        return is_new


# -- from outside --


@mutant_with(outside=True)
class UpdatesWithoutComparing(Model):
    def _update(self, job_id: str, expected: bytes | None, data: bytes) -> bool | None:
        job = self.jobs.get(job_id)
        return super()._update(job_id, job and job.data, data)


@mutant_with(outside=True)
class KeepsUpdatesFromRuns(Model):
    def _update(self, job_id: str, expected: bytes | None, data: bytes) -> bool | None:
        updated = super()._update(job_id, expected, data)
        if updated:
            self.jobs[job_id].updated = False
        return updated


@mutant_with(outside=True)
class OverwritesWhatOthersHaveChanged(Model):
    def _has_other_data(self, job: Job, base: bytes | None) -> bool:
        return False


@mutant_with(outside=True)
class ForgetsAnUpdateWithAnyReport(Model):
    def _record(self, session: Session, report: Report, steady: int) -> Reported:
        answer = super()._record(session, report, steady)
        job = self._by_ref(report.ref)
        if job is not None and answer is Reported.OK:
            job.updated = False
        return answer


@mutant_with(outside=True)
class ThrowsALineAwayWithDataThatCannotBeWritten(Model):
    def _record(self, session: Session, report: Report, steady: int) -> Reported:
        job = self._by_ref(report.ref)
        if job is not None and self._holds(session, job, report.token) and self._has_other_data(job, report.base):
            return Reported.CHANGED
        return super()._record(session, report, steady)


@mutant_with(outside=True)
class LogsInTheNameOfTheLastWorker(Model):
    def _log(self, job_id: str, line: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None:
            return False
        self._note(job, "log", line, worker=job.worker)
        self._happened(job, "log", line, job.worker)
        return True
