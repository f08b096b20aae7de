"""sweep: expired sessions, old results, jobs that nobody keeps any longer."""

from __future__ import annotations

from bisect import bisect_right

from headrace.records import State
from headrace.store import limits
from headrace.store.contract import Swept
from headrace.store.settings import RESULTS_KEPT

from .core import Core, Step
from .records import Job


class Sweeping(Core):
    def sweep(self, *, every: int | None = None) -> Step[Swept]:
        return Step(self._sweep)

    def _sweep(self) -> Swept:
        late = [job for job in self.jobs.values() if self._has_expired(job)]
        late = sorted(late, key=lambda job: (job.expires_at, job.ref))[: limits.PASSED_IN_A_STEP]
        for job in late:
            self._expire(job)
        age = self._setting("max-worker-age")
        expired = [
            session.info.id
            for session in self._open_sessions()
            if self._expired(session) or self.clock.steady() - session.seen >= max(age, session.info.timeout)
        ]
        returned = [job_id for session in expired for job_id in self._close_session(session, None)]
        self._drop_results()
        ended = (State.DONE, State.FAILED, State.CANCELLED)
        done = sorted(job.finished for job in self.jobs.values() if job.state is State.DONE)
        given_up = [job for job in self.jobs.values() if self._given_up(job, done) and not self._is_needed(job)]
        for job in sorted(given_up, key=lambda job: (ended.index(job.state), job.finished, job.ref)):
            self._remove(job)
        self._work_off()
        for key in list(self.known_lanes):
            self._forget_lane(key)
        quiet = self.clock.now() - self._setting("stats-history")
        self.failing = {group: times for group, times in self.failing.items() if max(times) >= quiet}
        more = bool(self.ended) or len(late) == limits.PASSED_IN_A_STEP
        tick = self._next_tick()
        ticks_in = None if tick is None else max(0, tick - self.clock.now())
        return Swept(len(expired), len(returned), len(given_up), more, ticks_in)

    def _given_up(self, job: Job, all_done: list[int]) -> bool:
        """`all_done`: when all jobs that are done finished, in order."""
        if job.finished is None:
            return False
        done = job.state is State.DONE
        given = self.keep_done if done else self.keep_failed
        keep = self._setting("jobs-history" if done else "failed-history") if given is None else given
        if job.finished + keep < self.clock.now():
            return True
        if not done or (job.result is not None and job.finished + RESULTS_KEPT >= self.clock.now()):
            return False
        newer = len(all_done) - bisect_right(all_done, job.finished)
        return newer >= self._setting("jobs-history-count")

    def _drop_results(self) -> None:
        keep = self._setting("results-history")
        for job in self.jobs.values():
            if keep is None or job.state is not State.DONE or job.finished + keep >= self.clock.now():
                continue
            if not job.result_judged and not self._is_needed(job):
                job.result_dropped |= job.result is not None
                job.result = None
            job.result_judged = True
