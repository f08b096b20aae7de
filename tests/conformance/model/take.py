"""What an exchange hands out: line order, turns of queues, pauses and limits."""

from __future__ import annotations

from collections.abc import Callable

from headrace.records import State, Take
from headrace.store import limits
from headrace.values.glob import fits, is_glob

from .core import Core
from .records import Job, Session

PROMOTED_AT_MOST = 1_000


class Handing(Core):
    def _take(self, session: Session, number: int, take: Take) -> None:
        now = self.clock.now()
        scheduled = [j for j in self.jobs.values() if j.state is State.SCHEDULED and j.due <= now]
        first = sorted(scheduled, key=lambda job: (not _serves(take, job.queue), job.due, job.ref))
        for job in first[:PROMOTED_AT_MOST]:
            self._fall_due(job)
        queues = self._queues_of(take)
        self.passed_left = limits.PASSED_IN_A_STEP
        self.has_failed_some = False
        turn = 0
        for index in range(take.slots + take.spare):
            spare = index >= take.slots
            order = self._order(queues, turn, spare) if take.round_robin else queues
            job = next(filter(None, (self._head(queue, spare) for queue in order)), None)
            if job is None:
                break
            turn = queues.index(job.queue) + 1
            job.state = State.RUNNING
            job.token += 1
            job.session = session.info.id
            job.worker = session.info.name
            job.handed_out = (number, index)
            job.spare = spare
            job.started = now
            job.start_line = len(job.events)
            self._note(job, "started", worker=job.worker)
            self._happened(job, "started", worker=job.worker)
            self._started_in_lane(job, take.grace)
        if self.has_failed_some:
            self._work_off()

    def _order(self, queues: list[str], turn: int, spare: bool) -> list[str]:
        """Whose turn it is, and who comes next if that one has nothing."""
        return queues[turn:] + queues[:turn]

    def _queues_of(self, take: Take) -> list[str]:
        """Names, each once, with the queues that have ready jobs in the place of a pattern that they match."""
        ready = sorted({job.queue for job in self.jobs.values() if job.state is State.READY})
        named = [[queue for queue in ready if fits(name, queue)] if is_glob(name) else [name] for name in take.queues]
        return list(dict.fromkeys(queue for names in named for queue in names))

    def _head(self, queue: str, spare: bool) -> Job | None:
        """What would be handed out next."""
        control = self.queue_controls.get(queue)
        if control and control.paused_at is not None:
            return None
        if control and control.limit is not None and (spare or len(self._running(queue)) >= control.limit):
            return None
        while (head := self._first(self._ready(queue))) and (pass_over := self._way_out(head)):
            self.passed_left -= 1
            if self.passed_left < 0:
                return None
            pass_over(head)
            self.has_failed_some |= head.state is State.FAILED
        return None if head and head.lane and spare else head

    def _way_out(self, job: Job) -> Callable[[Job], None] | None:
        """How the first of a line leaves it if it can't be handed out."""
        if self._has_expired(job):
            return self._expire
        return self._bar if job.task in self.block_list else None

    def _first(self, line: list[Job]) -> Job | None:
        return min(line, key=Job.place, default=None)

    def _ready(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.state is State.READY and job.queue == queue]

    def _running(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.state is State.RUNNING and job.queue == queue]


def _serves(take: Take, queue: str) -> bool:
    return any(name == queue or (is_glob(name) and fits(name, queue)) for name in take.queues)
