"""Events and waiting: who listens, and what they are told."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.store.facets import DETAIL, Batch, EventRecord
from headrace.values.glob import any_fits

from .core import Core, Step
from .records import Job
from .wait import ModelWaiter

LISTENS = 60_000
EVENTS_KEPT = 10_000


class Events(Core):
    def listen(self) -> Step[str]:
        return Step(self._listen)

    def _listen(self) -> str:
        self.listened_until = self.clock.steady() + LISTENS
        return str(len(self.happenings))

    def events(self, cursor: str, limit: int = 1_000) -> Step[Batch]:
        return Step(self._events, int(cursor), limit)

    def _events(self, after: int, limit: int) -> Batch:
        dropped = max(0, len(self.happenings) - EVENTS_KEPT)
        missed = self.clock.steady() >= self.listened_until or after < dropped
        self._listen()
        found = self.happenings[max(after, dropped) :][:limit]
        return Batch(found, str(max(after, dropped) + len(found)), missed)

    def event_waiter(self) -> ModelWaiter:
        return ModelWaiter(self.ears, events=True)

    def _happened(self, job: Job, what: str, detail: str = "", worker: str = "") -> None:
        self._publish(what, detail, job.id, job.task, job.queue, worker, tracked=job.tracked)

    def _publish(self, what: str, detail: str, *about: str, tracked: bool = False) -> None:
        if self.clock.steady() < self.listened_until:
            detail = detail.encode()[:DETAIL].decode(errors="ignore")
            job, task, queue, worker = about or ("", "", "", "")
            self.happenings.append(EventRecord(self.clock.now(), what, job, task, queue, worker, detail, tracked))
            for ear in self.ears:
                if ear.events:
                    ear.hear()

    def waiter(self, session: str, queues: Sequence[str]) -> ModelWaiter:
        return ModelWaiter(self.ears, session=session, queues=queues)

    def job_waiter(self, job_id: str) -> ModelWaiter:
        return ModelWaiter(self.ears, job=job_id)

    def _tell(self, *, queue: str = "", session: str = "", job: str = "") -> None:
        for ear in self.ears:
            if (
                (queue and any_fits(ear.queues, queue))
                or (session and session == ear.session)
                or (job and job == ear.job)
            ):
                ear.hear()
