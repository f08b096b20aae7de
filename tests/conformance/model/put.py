"""put: new jobs, and the keys that make them unique."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import NoWorkers
from headrace.records import NewJob, Put, State
from headrace.store import limits
from headrace.values.glob import any_fits

from .core import Core, Step
from .records import WAITING, Job


class Putting(Core):
    def put(self, jobs: Sequence[NewJob]) -> Step[list[Put]]:
        return Step(self._put, jobs)

    def _put(self, jobs: Sequence[NewJob]) -> list[Put]:
        limits.check_batch(jobs)
        if any(new.require_worker and not self._has_worker(new) for new in jobs):
            raise NoWorkers
        for new in jobs:
            self._check_lane(new)
        answers = [self._put_one(new) for new in jobs]
        self._work_off()
        return answers

    def _put_one(self, new: NewJob) -> Put:
        if new.id in self.jobs:
            return Put(new.id, new.nonce is None or new.nonce == self.jobs[new.id].nonce)
        if new.unique_key is not None:
            holder = self._holder(new.unique_key)
            if holder and not (new.replace and holder.state in WAITING):
                return Put(holder.id, False)
            if holder:
                self._happened(holder, "deleted", "replaced")
                self._remove(holder)
            self._make_way(new.unique_key)
        return Put(new.id, True, self._insert(new))

    def _has_worker(self, new: NewJob) -> bool:
        return any(
            any_fits(session.info.queues, new.queue) and new.task in session.info.tasks
            for session in self._open_sessions()
            if not self._expired(session)
        )

    def _holder(self, key: str) -> Job | None:
        for job in self.jobs.values():
            kept = job.unique_until is not None and self.clock.now() < job.unique_until
            if job.unique_key == key and (not job.state.final or kept):
                return job
        return None

    def _make_way(self, key: str) -> None:
        for job in self.jobs.values():
            if job.unique_key == key:
                job.former_key, job.unique_key = job.unique_key, None

    def _insert(self, new: NewJob) -> str:
        """Returns how it has changed its lane, in words."""
        now = self.clock.now()
        due = now + (new.delay or 0) if new.run_at is None else new.run_at
        self._join_lane(new.queue, new.lane)
        self.last_ref += 1
        job = self.jobs[new.id] = Job(
            ref=self.last_ref,
            id=new.id,
            nonce=new.nonce,
            task=new.task,
            queue=new.queue,
            state=State.READY,
            priority=new.priority,
            body=new.body,
            options=new.options,
            created=now,
            due=due,
            max_crashes=new.max_crashes,
            unique_key=new.unique_key,
            unique_until=None if new.unique_for is None else now + new.unique_for,
            tags=tuple(sorted(set(new.tags))),
            schedule=new.schedule,
            tick=new.tick,
            data=new.data,
            after=new.after,
            if_failed=new.if_failed,
            lane=new.lane,
            expires=new.expires,
        )
        self._note(job, "created")
        self._happened(job, "created")
        changed = "" if job.lane is None else self._define_lane(job, job.lane)
        culprit = self._come_after(job, new.after, job.if_failed)
        if self._unmet(job) and new.run_at is None:
            job.delay = new.delay or 0
        if culprit is not None:
            self._fail_with(job, culprit, culprit.state)
        else:
            self._wait_in_line(job, due)
        return changed
