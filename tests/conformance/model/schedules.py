"""Schedules: recurring jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from headrace.policies import Overlap
from headrace.records import IfFailed, NewJob, ScheduleRecord, State, Tick
from headrace.store import limits
from headrace.store.facets import ScheduleLook, Ticked

from .core import Core, Step
from .records import Job


class Schedules(Core):
    """Schedules put, cancel and delete jobs as clients do."""

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Step[bool]:
        limits.check_schedule(record)
        return Step(self._put_schedule, record, expected)

    def _put_schedule(self, record: ScheduleRecord, expected: int | None) -> bool:
        known = self.known_schedules.get(record.name)
        if (None if known is None else known.version) != expected:
            return False
        if known is None:
            self._keep(replace(record, version=0, created=self.clock.now()))
        else:
            self._keep(replace(record, version=known.version, created=known.created))
        return True

    def _keep(self, record: ScheduleRecord) -> None:
        self.known_schedules[record.name] = replace(record, version=record.version + 1)
        if record.next is not None and not record.paused:
            self._tell(queue=record.definition.queue)

    def schedules(self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100) -> Step[ScheduleLook]:
        return Step(self._schedules, names, after, limit)

    def _schedules(self, names: Sequence[str] | None, after: str, limit: int) -> ScheduleLook:
        if names is not None:
            found = [self.known_schedules[name] for name in names if name in self.known_schedules]
            return ScheduleLook(now=self.clock.now(), records=found)
        page = [self.known_schedules[name] for name in sorted(self.known_schedules) if name > after]
        return ScheduleLook(now=self.clock.now(), records=page[:limit], more=len(page) > limit)

    def delete_schedule(self, name: str) -> Step[bool]:
        return Step(lambda: self.known_schedules.pop(name, None) is not None)

    def due_schedules(self, limit: int = 100) -> Step[ScheduleLook]:
        return Step(self._due_schedules, limit)

    def _due_schedules(self, limit: int) -> ScheduleLook:
        now = self.clock.now()
        due = sorted((r.next, r.name) for r in self._ticking() if r.next is not None and r.next <= now)
        records = [self.known_schedules[name] for _, name in due]
        return ScheduleLook(now=now, records=records[:limit], more=len(records) > limit, next_tick=self._next_tick())

    def _ticking(self) -> list[ScheduleRecord]:
        return [r for r in self.known_schedules.values() if r.next is not None and not r.paused]

    def _next_tick(self) -> int | None:
        return min((r.next for r in self._ticking() if r.next is not None), default=None)

    def tick(self, ticks: Sequence[Tick]) -> Step[Ticked]:
        return Step(self._tick_all, ticks)

    def _tick_all(self, ticks: Sequence[Tick]) -> Ticked:
        done = [self._tick(tick) for tick in ticks]
        return Ticked(now=self.clock.now(), done=done, next_tick=self._next_tick())

    def _tick(self, tick: Tick) -> bool:
        known = self.known_schedules.get(tick.name)
        if known is None or known.version != tick.version:
            return False
        most = known.definition.max_runs
        runs, last_job = known.runs, known.last_job
        for new in tick.jobs:
            if (most is None or runs < most) and self._put_tick(new, known.definition.overlap, last_job):
                runs, last_job = runs + 1, new.id
        self._keep(
            replace(
                known,
                next=None if most is not None and runs >= most else tick.next,
                runs=runs,
                last_tick=known.last_tick if tick.last_tick is None else tick.last_tick,
                last_job=last_job,
                started=None,
                finished=None,
            )
        )
        return True

    def _put_tick(self, new: NewJob, overlap: Overlap, last_job: str | None) -> bool:
        if new.id in self.jobs or (new.lane is not None and self._lane_clashes(new.queue, new.lane)):
            return False
        previous = self.jobs.get(last_job)
        if previous is not None and not previous.state.final:
            if overlap is Overlap.SKIP or (overlap is Overlap.QUEUE and previous.state is State.BLOCKED):
                return False
            if overlap is Overlap.QUEUE:
                new = replace(new, after=(previous.id,), if_failed=IfFailed.RUN)
            elif overlap is Overlap.REPLACE and previous.state is State.RUNNING:
                self._cancel(previous.id)
            elif overlap is Overlap.REPLACE:
                self._happened(previous, "deleted", "replaced")
                self._remove(previous)
        self._put_one(new)
        return True

    def _schedule_hears(self, job: Job) -> None:
        """A job has come to an end, or was removed before it did."""
        known = self.known_schedules.get(job.schedule)
        if known is None or known.last_job != job.id:
            return
        definition = known.definition
        ended = job.state.final
        changes: dict[str, Any] = {}
        if definition.carry_data and ended and job.data is not None:
            changes["data"] = job.data
        if definition.follows and known.next is None and known.finished is None:
            now = self.clock.now()
            changes |= {"next": now, "started": job.started, "finished": job.finished if ended else now}
        if changes:
            self._keep(replace(known, **changes))
