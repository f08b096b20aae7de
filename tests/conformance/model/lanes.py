"""Lanes: limits, rates, sequences and turns of jobs that share a key."""

from __future__ import annotations

from headrace.records import Lane, NewJob, State
from headrace.store import limits
from headrace.store.facets import LaneSnapshot

from .core import Core, Step
from .records import Job, LaneRecord


class Lanes(Core):
    def lane(self, queue: str, key: str) -> Step[LaneSnapshot | None]:
        return Step(self._lane_snapshot, queue, key)

    def _lane_snapshot(self, queue: str, key: str) -> LaneSnapshot | None:
        self._forget_lane((queue, key))
        lane = self.lanes.get((queue, key))
        if lane is None:
            return None
        members = sorted(self._members(queue, key), key=lambda job: job.ref)
        running = [job.id for job in members if job.state is State.RUNNING or lane.turn is job]
        return LaneSnapshot(
            queue=queue,
            lane=lane.lane,
            running=tuple(running[: limits.SHOWN]),
            runs=len(running),
            front=lane.front.id if lane.front else None,
            blocked=sum(job.in_lanes_line for job in members),
            next_start=lane.earliest() if lane.earliest() > self.clock.now() else None,
        )

    def _members(self, queue: str, key: str) -> list[Job]:
        """Its unfinished jobs."""
        jobs = [job for job in self.jobs.values() if job.lane and (job.queue, job.lane.key) == (queue, key)]
        return [job for job in jobs if not job.state.final]

    def _lane_of(self, job: Job) -> LaneRecord | None:
        return self.lanes.setdefault((job.queue, job.lane.key), LaneRecord(job.lane)) if job.lane else None

    def _check_lane(self, new: NewJob) -> None:
        if new.lane is not None and new.id not in self.jobs and self._lane_clashes(new.queue, new.lane):
            raise limits.not_both(new.queue, new.lane)

    def _lane_clashes(self, queue: str, wanted: Lane) -> bool:
        lane = self.lanes.get((queue, wanted.key))
        return bool(lane and lane.lane.sequence != wanted.sequence and self._members(queue, wanted.key))

    def _define_lane(self, job: Job, definition: Lane) -> None:
        """The newest put says what a lane is. Who stands in line by the old rules is looked at anew."""
        lane = self._lane_of(job)
        assert lane
        if lane.lane == definition:
            return
        lane.lane = definition
        lane.starts = lane.starts[-definition.rate :] if definition.rate else []
        self._look_again_at_front(lane)
        self._admit(lane)

    def _look_again_at_front(self, lane: LaneRecord) -> None:
        """What the lane allows has changed: who stands in front stands in line again, or keeps its turn."""
        front = lane.front
        if front:
            front.due = self._own_due(front)
        lane.front = None
        if front and lane.turn is front:
            self._make_front(lane, front)
        elif front:
            front.state = State.BLOCKED
            front.in_lanes_line = True

    def _admit(self, lane: LaneRecord) -> None:
        """Give the next one its turn, if it is time."""
        jobs = self.jobs.values()
        line = [job for job in jobs if job.in_lanes_line and self._lane_of(job) is lane]
        running = [job for job in jobs if job.state is State.RUNNING and self._lane_of(job) is lane]
        is_full = lane.lane.limit is not None and len(running) >= lane.lane.limit
        if lane.front or lane.turn or (is_full and not lane.lane.sequence):
            return
        if not line:
            self._end_round(lane, early=True)
        elif lane.lane.sequence:
            lane.turn = min(line, key=lambda job: job.ref)
            self._begin_turn(lane, lane.turn, lane.turn.due > self.clock.now())
        else:
            self._make_front(lane, min(line, key=Job.place))

    def _end_round(self, lane: LaneRecord, early: bool = False) -> None:
        """The lane's weight has been handed out, or it has nothing left to hand out."""
        if lane.served >= (1 if early else lane.lane.weight):
            lane.served, lane.round_at = 0, max(lane.round_at, self.clock.now()) + 1

    def _begin_turn(self, lane: LaneRecord, job: Job, later: bool) -> None:
        job.in_lanes_line = False
        if later:
            job.state = State.SCHEDULED
            self._tell(queue=job.queue)
        else:
            self._make_front(lane, job)

    def _make_front(self, lane: LaneRecord, job: Job) -> None:
        now = self.clock.now()
        job.in_lanes_line = False
        lane.front_due = job.due
        place = lane.round_at if lane.served else limits.round_at(lane.round_at, now)
        job.due = max(place, lane.earliest())
        job.state = State.READY if lane.earliest() <= now else State.SCHEDULED
        lane.front = job
        self._tell(queue=job.queue)

    def _own_due(self, job: Job) -> int:
        """When a job is due by itself, whatever its lane says of its front."""
        lane = self.lanes.get((job.queue, job.lane.key)) if job.lane else None
        return lane.front_due if lane and lane.front is job else job.due

    def _started_in_lane(self, job: Job, grace: int) -> None:
        lane = self._lane_of(job)
        job.start_within = None
        if lane is None:
            return
        lane.front = None
        lane.round_at = lane.round_at if lane.served else job.due
        lane.served += 1
        self._end_round(lane)
        if lane.lane.rate:
            now, last = self.clock.now(), lane.starts[-1] if lane.starts else 0
            job.start_within = limits.start_within(lane.lane.per, grace, last - now)
            lane.starts = [*lane.starts, now + 2 * job.start_within][-lane.lane.rate :]
        self._admit(lane)

    def _never_started(self, job: Job) -> None:
        """It is given back: its rate need not count it."""
        lane = self._lane_of(job)
        start = (job.started or 0) + 2 * (job.start_within or 0)
        if lane and job.start_within and start in lane.starts:
            lane.starts.remove(start)
            self._look_again_at_front(lane)

    def _left_lane(self, job: Job, queue: str) -> None:
        """It has ended, is gone, or is in another queue now."""
        key = (queue, job.lane.key) if job.lane else None
        if key not in self.lanes:
            return
        lane = self.lanes[key]
        if lane.turn is job:
            lane.turn = None
        self._admit(lane)
        if not self._members(*key):
            lane.served = lane.round_at = 0
        self._forget_lane(key)

    def _forget_lane(self, key: tuple[str, str]) -> None:
        if key in self.lanes and not self._members(*key) and not self.lanes[key].remembers(self.clock.now()):
            del self.lanes[key]
