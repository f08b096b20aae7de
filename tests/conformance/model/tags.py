"""tags, track: what people write on jobs, to find them again."""

from __future__ import annotations

from collections.abc import Sequence

from .core import Core, Step
from .records import Job
from .stats import most_frequent


class Tags(Core):
    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Step[list[bool]]:
        return Step(self._tag, ids, add, remove)

    def _tag(self, ids: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> list[bool]:
        for job in self._known(ids):
            job.tags = tuple(sorted(set(job.tags) - set(remove) | set(add)))
        return [job_id in self.jobs for job_id in ids]

    def tags(self, limit: int = 50) -> Step[list[tuple[str, int]]]:
        return Step(lambda: most_frequent((tag for job in self.jobs.values() for tag in job.tags), limit))

    def track(self, ids: Sequence[str], on: bool = True) -> Step[list[bool]]:
        return Step(self._track, ids, on)

    def _track(self, ids: Sequence[str], on: bool) -> list[bool]:
        for job in self._known(ids):
            job.tracked = on
        return [job_id in self.jobs for job_id in ids]

    def _known(self, ids: Sequence[str]) -> list[Job]:
        return [self.jobs[job_id] for job_id in ids if job_id in self.jobs]
