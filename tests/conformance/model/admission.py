"""Admission: where a job that wants to run goes."""

from __future__ import annotations

from headrace.records import State

from .core import Core
from .records import Job


class Admission(Core):
    def _wait_in_line(self, job: Job, due: int, *, was_due: bool = False) -> None:
        """`was_due`: it is given back, and so stands in line whatever the clock says now."""
        job.due = due
        later = due > self.clock.now() and not was_due
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

    def _fall_due(self, job: Job) -> None:
        """A scheduled job's time has come."""
        lane = self._lane_of(job)
        if lane and lane.front is job:
            job.state = State.READY
        else:
            self._wait_in_line(job, job.due)

    def _leave(self, job: Job) -> None:
        """Out of whatever line it stands in."""
        lane = self.lanes.get((job.queue, job.lane.key)) if job.lane else None
        if lane and lane.front is job:
            lane.front = None
        job.in_lanes_line = False
