"""Admission: where a job that wants to run goes."""

from __future__ import annotations

from headrace.records import State
from headrace.store import limits

from .core import Core
from .records import WAITING, Job


class Admission(Core):
    def _wait_in_line(self, job: Job, due: int, *, was_due: bool = False) -> None:
        """`was_due`: it was due before, and is, whatever the clock says now."""
        job.due = due
        job.barred = False
        self._expect_start(job)
        later = job.later = due > self.clock.now() and not was_due
        lane = self._lane_of(job)
        if self._unmet(job):
            job.state = State.BLOCKED
        elif lane and lane.turn is job:
            self._begin_turn(lane, job, later)
        elif later and not (lane and lane.lane.sequence):
            job.state = State.SCHEDULED
        elif lane:
            job.state = State.BLOCKED
            job.in_lanes_line = True
        else:
            job.state = State.READY
        if lane:
            self._admit(lane)
        self._tell(queue=job.queue)

    def _expect_start(self, job: Job) -> None:
        """By when a job that waits must start: by a moment, or so long after it is due, which it is when it waits for
        no other job."""
        expires = job.expires
        job.expires_at = expires.at if expires else None
        if expires and expires.after is not None and not self._unmet(job):
            job.expires_at = self._own_due(job) + expires.after

    def _has_expired(self, job: Job) -> bool:
        return job.state in WAITING and job.expires_at is not None and job.expires_at < self.clock.now()

    def _expire(self, job: Job) -> None:
        self._fail(job, limits.EXPIRED, limits.own_error(limits.NOT_STARTED))

    def _fall_due(self, job: Job) -> None:
        """A scheduled job's time has come."""
        lane = self._lane_of(job)
        if lane and lane.front is job:
            job.state = State.READY
        else:
            self._wait_in_line(job, job.due)

    def _leave(self, job: Job) -> None:
        """Out of whatever line it stands in."""
        lane = self.known_lanes.get((job.queue, job.lane.key)) if job.lane else None
        if lane and lane.front is job:
            lane.front = None
        job.in_lanes_line = job.barred = False
