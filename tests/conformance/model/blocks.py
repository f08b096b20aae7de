"""The block list: tasks whose jobs are not handed out."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.records import State
from headrace.store import limits
from headrace.store.blocking import Block

from .core import Core, Step
from .records import Job


class Blocks(Core):
    def blocks(self) -> Step[list[Block]]:
        return Step(lambda: [self._block_of(task) for task in sorted(self.block_list)])

    def _block_of(self, task: str) -> Block | None:
        found = self.block_list.get(task)
        return found and replace(found, jobs=len(self._barred(task)))

    def _barred(self, task: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.barred and job.task == task]

    def block(self, task: str, reason: str = "", by: str = "") -> Step[bool]:
        return Step(self._block, task, reason, by)

    def _block(self, task: str, reason: str, by: str) -> bool:
        limits.check_blocks(task, self.block_list)
        before = self.block_list.get(task)
        self.block_list[task] = Block(task, reason, by, before.at if before else self.clock.now())
        return before is None

    def unblock(self, task: str) -> Step[bool]:
        return Step(self._unblock, task)

    def _unblock(self, task: str) -> bool:
        if self.block_list.pop(task, None) is None:
            return False
        for job in sorted(self._barred(task), key=lambda job: job.ref):
            self._wait_in_line(job, job.due, was_due=True)
        return True

    def _bar(self, job: Job) -> None:
        """It stands at the head of a line, and is not handed out."""
        due = self._own_due(job)
        self._leave(job)
        job.state, job.due, job.barred = State.BLOCKED, due, True
        lane = self._lane_of(job)
        if lane:
            self._admit(lane)
