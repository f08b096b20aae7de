"""edit, take_back, log, update, peek, circumstances: what people change in a line, and what they see of it."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.records import Kind, Outcome, Snapshot, State
from headrace.store import limits
from headrace.store.facets import PARKED, Circumstances, Edit, Past
from headrace.values.glob import any_fits
from headrace.values.names import same_traffic

from .core import Core, Step
from .records import WAITING, Job


class Editing(Core):
    def edit(self, ids: Sequence[str], change: Edit) -> Step[list[bool]]:
        limits.check_moment(change.run_at, change.delay)
        return Step(lambda: self._and_work_off([self._edit(i, change) for i in ids]))

    def _edit(self, job_id: str, change: Edit) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state not in WAITING:
            return False
        for name in ("body", "options", "data"):
            if getattr(change, name) is not None:
                setattr(job, name, getattr(change, name))
        if change.expires is not None:
            job.expires = change.expires
            self._expect_start(job)
        if (change.queue, change.priority, change.run_at, change.delay) == (None, None, None, None):
            self._edited(job, limits.what_changes(change))
            return True
        queue, due, was_due = job.queue, self._own_due(job), not job.later
        self._leave(job)
        job.priority = job.priority if change.priority is None else change.priority
        target = same_traffic(queue, change.queue or queue)
        if target != queue:
            self._join_lane(target, job.lane)
        job.queue = target
        if change.run_at is not None:
            due, job.delay, was_due = change.run_at, None, False
        if change.delay is not None:
            due, was_due = self.clock.now() + change.delay, False
            job.delay = change.delay if self._unmet(job) else None
        if job.queue != queue:
            self._left_lane(job, queue)
        self._edited(job, limits.what_changes(change))
        self._wait_in_line(job, due, was_due=was_due)
        return True

    def _edited(self, job: Job, what: str) -> None:
        self._note(job, "edited", what)
        self._happened(job, "edited", what)

    def take_back(self, ids: Sequence[str], to: str | None = None) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._take_back(i, to) for i in ids]))

    def _take_back(self, job_id: str, to: str | None) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state is not State.RUNNING:
            return False
        self._tell(session=job.session)
        self._end(job, Outcome(ref=job.ref, token=job.token, id=job.id, kind=Kind.RELEASED, queue=to), 0, "taken back")
        job.token += 1
        return True

    def log(self, ids: Sequence[str], line: str) -> Step[list[bool]]:
        return Step(lambda: [self._log(job_id, line) for job_id in ids])

    def _log(self, job_id: str, line: str) -> bool:
        job = self.jobs.get(job_id)
        if job is None:
            return False
        worker = job.worker if job.state is State.RUNNING else ""
        self._note(job, "log", line, worker=worker)
        self._happened(job, "log", line, worker)
        return True

    def update(self, job_id: str, expected: bytes | None, data: bytes) -> Step[bool | None]:
        return Step(self._update, job_id, expected, data)

    def _update(self, job_id: str, expected: bytes | None, data: bytes) -> bool | None:
        job = self.jobs.get(job_id)
        if job is None:
            return None
        if job.data != expected:
            return False
        job.data, job.updated = data, job.state is State.RUNNING
        return True

    def restore(self, pasts: Sequence[Past]) -> Step[list[bool]]:
        return Step(lambda: self._and_work_off([self._restore(past) for past in pasts]))

    def _restore(self, past: Past) -> bool:
        job = self.jobs.get(past.id)
        failed = job is not None and job.state is past.state is State.FAILED  # with one that it comes after
        if job is None or not (failed or job.state in WAITING) or self._own_due(job) != PARKED:
            return False
        for name in set(Past.__struct_fields__) - {"id", "due", "state", "finished"}:
            setattr(job, name, getattr(past, name))
        self._edited(job, "restored")
        if past.state is None:
            self._leave(job)
            self._wait_in_line(job, past.due)
        else:
            job.due = past.due
            self._finish(job, past.state, self.clock.now() if past.finished is None else past.finished)
        return True

    def peek(self, queue: str, limit: int = 50) -> Step[list[Snapshot]]:
        return Step(lambda: [self._snapshot(job) for job in sorted(self._ready(queue), key=Job.place)[:limit]])

    def circumstances(self, job_id: str) -> Step[Circumstances | None]:
        return Step(self._circumstances, job_id)

    def _circumstances(self, job_id: str) -> Circumstances | None:
        job = self.jobs.get(job_id)
        if job is None:
            return None
        unmet = [] if job.state.final else self._unmet(job)
        control = self.queue_controls.get(job.queue)
        limited = control is not None and control.limit is not None
        running = sorted(self._running(job.queue), key=lambda other: other.ref) if limited else []
        listeners = [
            session.info.name
            for session in self._open_sessions()
            if not self._expired(session)
            and any_fits(session.info.queues, job.queue)
            and job.task in session.info.tasks
        ]
        return Circumstances(
            now=self.clock.now(),
            job=self._snapshot(job),
            waits_for=tuple((edge.parent.id, edge.parent.state) for edge in unmet[: limits.SHOWN]),
            unmet=len(unmet),
            control=control,
            queue_running=tuple((other.id, other.worker) for other in running[: limits.SHOWN]),
            queue_runs=len(running),
            lane=self._lane_snapshot(job.queue, job.lane.key) if job.lane else None,
            ahead=self._ahead(job),
            listeners=tuple(sorted(listeners)[: limits.SHOWN]),
            expires=job.expires_at if job.state in WAITING else None,
            block=self._block_of(job.task),
        )

    def _ahead(self, job: Job) -> int | None:
        if not job.in_lanes_line:
            return None
        lane = self._lane_of(job)
        assert lane
        line = [other for other in self.jobs.values() if other.in_lanes_line and self._lane_of(other) is lane]
        if lane.lane.sequence:
            return sum(other.ref < job.ref for other in line)
        return sum(other.place() < job.place() for other in line)
