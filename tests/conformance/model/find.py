"""get, find, counts, history: what clients see of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from headrace.records import Counts, Filter, HistoryRecord, Page, Snapshot, State
from headrace.store.ages import Oldest
from headrace.values.glob import matcher

from .core import Core, Step
from .records import Job

_SHOWN = attrgetter(*Snapshot.__struct_fields__)  # random histories look at all jobs after each step


class Looking(Core):
    def get(self, ids: Sequence[str]) -> Step[list[Snapshot | None]]:
        return Step(lambda: [self._snapshot(self.jobs[i]) if i in self.jobs else None for i in ids])

    def find(self, wanted: Filter) -> Step[Page]:
        return Step(self._find, wanted)

    def _find(self, wanted: Filter) -> Page:
        found = [
            job
            for job in sorted(self.jobs.values(), key=lambda job: -job.ref)
            if (not wanted.states or job.state in wanted.states)
            and wanted.queue in (None, job.queue)
            and wanted.task in (None, job.task)
            and wanted.group in (None, job.group)
            and (wanted.task_like is None or matcher(wanted.task_like)(job.task))
            and (wanted.tag is None or wanted.tag in job.tags)
            and wanted.tracked in (None, job.tracked)
            and (wanted.worker is None or (job.state is State.RUNNING and job.worker == wanted.worker))
            and wanted.schedule in (None, job.schedule)
            and (wanted.after is None or job.ref < int(wanted.after))
        ]
        page = found[: wanted.limit]
        cursor = str(page[-1].ref) if len(found) > len(page) else None
        return Page([self._snapshot(job) for job in page], cursor)

    def counts(self) -> Step[list[Counts]]:
        return Step(self._counts)

    def _counts(self) -> list[Counts]:
        queues = sorted({job.queue for job in self.jobs.values()})
        return [
            Counts(queue, dict(Counter(job.state for job in self.jobs.values() if job.queue == queue)))
            for queue in queues
        ]

    def oldest(self) -> Step[Oldest]:
        return Step(self._oldest)

    def _oldest(self) -> Oldest:
        now = self.clock.now()
        due: dict[str, int] = {}
        for job in self.jobs.values():
            if job.state is State.READY or (job.state is State.SCHEDULED and job.due <= now):
                due[job.queue] = min(job.due, due.get(job.queue, job.due))
        return Oldest(now, due)

    def history(self, job_id: str) -> Step[list[HistoryRecord]]:
        return Step(self._history, job_id)

    def _history(self, job_id: str) -> list[HistoryRecord]:
        events = self.jobs[job_id].events if job_id in self.jobs else []
        return events[:1] + events[1:][1 - self._setting("max-job-history") :]

    def _snapshot(self, job: Job) -> Snapshot:
        return Snapshot(**dict(zip(Snapshot.__struct_fields__, _SHOWN(job), strict=True)))
