"""cancel, delete, revive: how jobs come to an end and out of the store, and how some come back."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.records import State
from headrace.store.stats import DAY
from headrace.values.names import same_traffic

from .core import Core, Step
from .records import Job


class Ending(Core):
    def cancel(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._cancel(i) for i in ids]))

    def _cancel(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state is State.DONE:
            return False
        if job.state is State.RUNNING:
            if not job.cancelling:
                self._happened(job, "cancelling")
            job.cancelling = True
            self._tell(session=job.session)
        elif job.state is not State.CANCELLED:
            self._finish(job, State.CANCELLED, self.clock.now())
            self._happened(job, "cancelled")
        return True

    def delete(self, ids: Sequence[str]) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._delete(i) for i in ids]))

    def _delete(self, job_id: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None:
            return False
        self._happened(job, "deleted")
        self._remove(job)
        return True

    def revive(self, ids: Sequence[str]) -> Step[list[bool]]:
        return self.requeue(ids, ended=(State.FAILED, State.CANCELLED))

    def requeue(
        self, ids: Sequence[str], to: str | None = None, ended: Sequence[State] = (State.DONE,)
    ) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off(self._revive_all(ids, to, ended)))

    def _revive_all(self, ids: Sequence[str], to: str | None, ended: Sequence[State]) -> list[bool]:
        """In the order of arrival: one that comes after another of them waits for it."""
        places = sorted((self.jobs[i].ref, place) for place, i in enumerate(ids) if i in self.jobs)
        revived = {place for _, place in places if self._revive(ids[place], to, ended)}
        return [place in revived for place in range(len(ids))]

    def _revive(self, job_id: str, to: str | None, ended: Sequence[State]) -> bool:
        job = self.jobs[job_id]
        if job.state not in ended or self._key_is_taken(job):
            return False
        job.queue = same_traffic(job.queue, to or job.queue)
        job.result, job.result_dropped, job.result_judged = None, False, False
        self.edges = [edge for edge in self.edges if edge.child is not job or self._unfinished(edge.parent)]
        job.culprits.clear()
        job.delay = job.expires = None
        self._bring_back(job, self.clock.now())
        return True

    def _key_is_taken(self, job: Job) -> bool:
        return job.former_key is not None and self._holder(job.former_key) is not None

    def _bring_back(self, job: Job, due: int) -> None:
        """Into line again, as if it were new, by hand or with its culprit. What failed because of it follows."""
        self._join_lane(job.queue, job.lane)
        job.attempts = job.crashes = 0
        job.error = job.group = job.finished = job.deferred_since = None
        if job.former_key is not None:
            key, job.unique_until = job.former_key, None
            self._make_way(key)
            job.former_key, job.unique_key = None, key
        self._note(job, "revived")
        self._happened(job, "revived")
        for parent in self._named(job.after):
            parent.followers.add(job)
        self._has_ended(job, State.READY, met=False)
        self._wait_in_line(job, due)

    def _finish(self, job: Job, state: State, finished: int, note: str = "", account: bytes | None = None) -> None:
        """Every way to an end."""
        was_final = job.state.final
        detail = note or job.group or "" if state is State.FAILED else ""
        self._note(job, state.value, detail, finished, job.worker if job.state is State.RUNNING else "", account)
        self._leave(job)
        job.state = state
        job.finished = finished
        if state is State.FAILED:
            self.counted["failures", job.queue, finished // DAY] += 1
            self.failing.setdefault(job.group or "", []).append(finished)
        if state is State.DONE:
            began = min(job.started, finished)
            self.waited.append((job.queue, began // DAY, job.started - job.due))
            self.ran.append((job.queue, finished // DAY, finished - job.started))
        self._tell(job=job.id)
        if not was_final:
            self._schedule_hears(job)
            self._has_ended(job, state, met=state is State.DONE)
            self._left_lane(job, job.queue)

    def _remove(self, job: Job) -> None:
        """Every way out of the store."""
        del self.jobs[job.id]
        self.gone.append((job.queue, job.created, job.finished if job.state.final else None))
        self.edges = [edge for edge in self.edges if edge.child is not job]
        self._has_ended(job, None, met=job.state is State.DONE)
        self._leave(job)
        self._left_lane(job, job.queue)
        if job.state is State.RUNNING:
            self._left_running(job.queue)
        if not job.state.final:
            self._schedule_hears(job)
            self._tell(session=job.session, job=job.id)
