"""Lanes: limits, rates, sequences and turns of jobs that share a key."""

from __future__ import annotations

from headrace.records import Lane, NewJob, State
from headrace.store import lanes as lane_terms
from headrace.store import limits
from headrace.store.lanes import LaneChange, LaneListed, LanePage, LaneRule, LaneSnapshot

from .core import Core, Step
from .records import Job, LaneRecord


class Lanes(Core):
    def lane(self, queue: str, key: str) -> Step[LaneSnapshot | None]:
        return Step(self._lane_snapshot, queue, key)

    def _lane_snapshot(self, queue: str, key: str) -> LaneSnapshot | None:
        if self._has_faded((queue, key)):
            rule = self.rules_of_lanes.get((queue, key))
            return rule and LaneSnapshot(queue=queue, lane=lane_terms.ruled(Lane(key, weight=1), rule), rule=rule)
        lane = self.known_lanes[queue, key]
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
            rule=lane.rule,
            change=lane.change,
        )

    def lanes(self, queue: str, cursor: str = "", limit: int = 100) -> Step[LanePage]:
        return Step(self._lanes, queue, cursor, limit)

    def _lanes(self, queue: str, cursor: str, limit: int) -> LanePage:
        there = {*self.rules_of_lanes, *(place for place in self.known_lanes if not self._has_faded(place))}
        keys = sorted(key for name, key in there if name == queue and key > cursor)
        found = [self._figures(queue, key) for key in keys[:limit]]
        return LanePage(found, keys[limit - 1] if len(keys) > limit else None)

    def _figures(self, queue: str, key: str) -> LaneListed:
        rule, members = self.rules_of_lanes.get((queue, key)), self._members(queue, key)
        said = Lane(key, weight=1) if self._has_faded((queue, key)) else self.known_lanes[queue, key].said
        return LaneListed(
            lane=lane_terms.ruled(said, rule),
            unfinished=len(members),
            running=sum(job.state is State.RUNNING for job in members),
            rule=rule,
        )

    # -- what operators set --

    def lane_rules(self) -> Step[list[tuple[str, str, LaneRule]]]:
        return Step(lambda: [(*place, rule) for place, rule in sorted(self.rules_of_lanes.items())])

    def set_lane(
        self, queue: str, key: str, *, limit: int | None = None, rate: int | None = None, per: int = 1_000, by: str = ""
    ) -> Step[None]:
        limits.check_lane_rule(queue, key, limit, rate, per)
        return Step(self._set_lane, queue, key, limit, rate, per, by)

    def _set_lane(self, queue: str, key: str, limit: int | None, rate: int | None, per: int, by: str) -> None:
        before = self.rules_of_lanes.get((queue, key))
        rule = lane_terms.set_anew(before, limit, rate, per, by, self.clock.now())
        self.rules_of_lanes[queue, key] = rule
        self._govern(queue, key, rule, lane_terms.what_is_set(limit, rate, per))

    def clear_lane(self, queue: str, key: str) -> Step[bool]:
        return Step(self._clear_lane, queue, key)

    def _clear_lane(self, queue: str, key: str) -> bool:
        if self.rules_of_lanes.pop((queue, key), None) is None:
            return False
        self._govern(queue, key, None, lane_terms.CLEARED)
        return True

    def _govern(self, queue: str, key: str, rule: LaneRule | None, what: str) -> None:
        self._publish("set", f"lane {key}: {what}", "", "", queue, "")
        self._forget_lane((queue, key))
        lane = self.known_lanes.get((queue, key))
        if lane:
            before, lane.rule = lane.lane, rule
            self._apply_rules(lane, before)
            self._forget_lane((queue, key))
        self._tell(queue=queue)

    def _apply_rules(self, lane: LaneRecord, before: Lane) -> None:
        """The rules of a lane may have changed. Who stands in line by the old ones is looked at anew."""
        if lane.lane == before:
            return
        rate = lane.lane.rate
        lane.starts = lane.starts[-rate:] if rate else []
        self._look_again_at_front(lane)
        self._admit(lane)

    # -- coming and going --

    def _members(self, queue: str, key: str) -> list[Job]:
        """Its unfinished jobs."""
        jobs = [job for job in self.jobs.values() if job.lane and (job.queue, job.lane.key) == (queue, key)]
        return [job for job in jobs if not job.state.final]

    def _lane_of(self, job: Job) -> LaneRecord | None:
        if job.lane is None:
            return None
        key = (job.queue, job.lane.key)
        if key not in self.known_lanes:
            said = lane_terms.said_anew(Lane(job.lane.key, weight=1), job.lane)
            self.known_lanes[key] = LaneRecord(said, self.rules_of_lanes.get(key))
        return self.known_lanes[key]

    def _check_lane(self, new: NewJob) -> None:
        if new.lane is not None and new.id not in self.jobs and self._lane_clashes(new.queue, new.lane):
            raise limits.not_both(new.queue, new.lane)

    def _lane_clashes(self, queue: str, wanted: Lane) -> bool:
        lane = self.known_lanes.get((queue, wanted.key))
        return bool(lane and lane.lane.sequence != wanted.sequence and self._members(queue, wanted.key))

    def _define_lane(self, job: Job, wanted: Lane) -> str:
        """A put changes those rules of its lane that it says something about. Returns how, in words."""
        lane = self._lane_of(job)
        assert lane
        before = lane.lane
        lane.said = lane_terms.said_anew(lane.said, wanted)
        changed = lane_terms.what_changes(before, lane.lane)
        if changed:
            lane.change = LaneChange(self.clock.now(), job.id, changed)
            self._happened(job, "set", f"lane {wanted.key}: {changed}")
        self._apply_rules(lane, before)
        return changed

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
            self._begin_turn(lane, lane.turn, lane.turn.later and lane.turn.due > self.clock.now())
        else:
            self._make_front(lane, min(line, key=Job.place))

    def _end_round(self, lane: LaneRecord, early: bool = False) -> None:
        """The lane's weight has been handed out, or it has nothing left to hand out."""
        if lane.served >= (1 if early else lane.lane.weight):
            lane.served, lane.round_at = 0, max(lane.round_at, self.clock.now()) + 1

    def _begin_turn(self, lane: LaneRecord, job: Job, later: bool) -> None:
        job.in_lanes_line = False
        job.later = later
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
        lane = self.known_lanes.get((job.queue, job.lane.key)) if job.lane else None
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
        if lane and job.start_within is not None and start in lane.starts:
            lane.starts.remove(start)
            self._look_again_at_front(lane)

    def _left_lane(self, job: Job, queue: str) -> None:
        """It has ended, is gone, or is in another queue now."""
        key = (queue, job.lane.key) if job.lane else None
        if key not in self.known_lanes:
            return
        lane = self.known_lanes[key]
        if lane.turn is job:
            lane.turn = None
        self._admit(lane)
        if not self._members(*key):
            lane.served = lane.round_at = 0
        self._forget_lane(key)

    def _join_lane(self, queue: str, lane: Lane | None) -> None:
        """A job is about to come into a lane: it finds none that has nothing left to remember."""
        if lane:
            self._forget_lane((queue, lane.key))

    def _forget_lane(self, key: tuple[str, str]) -> None:
        if self._has_faded(key):
            self.known_lanes.pop(key, None)

    def _has_faded(self, key: tuple[str, str]) -> bool:
        """Nothing is left of a lane but what an operator has set."""
        lane = self.known_lanes.get(key)
        return lane is None or not (self._members(*key) or lane.remembers(self.clock.now()))
