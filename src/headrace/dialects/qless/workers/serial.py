"""One job after another, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from headrace.dialects.qless import Client, Job, Queue
from headrace.dialects.qless.running import process
from headrace.dialects.qless.workers.base import Worker, title, workplace

LOST_JOB = 3
"""Exit code of a process that ended because its job was lost."""


class SerialWorker(Worker):
    """Runs one job after another. A lost job ends the process, because a running function can't be stopped otherwise;
    the forking parent starts another. Inside a program of your own pass `on_loss`, a function that is given the jid.
    """

    def __init__(
        self,
        queues: Sequence[str | Queue],
        client: Client,
        *,
        on_loss: Callable[[str], object] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(queues, client, **options)
        self._jid: str | None = None
        self._on_loss = on_loss or (lambda _: os._exit(LOST_JOB))

    def run(self) -> None:
        with self.listener():
            for job in self.jobs():
                if job is None:
                    title("sleeping")
                    self.rest()
                else:
                    self.work(job)
                if self._stop.is_set():
                    return

    def work(self, job: Job) -> None:
        title(f"{job.jid} {job.klass_name}")
        self._jid = job.jid
        with workplace(job, self.options.sandbox):
            process(job, self.options.allowed)
            self.finish(job)
        self._jid = None

    def lose(self, jid: str) -> None:
        if jid == self._jid:
            self._on_loss(jid)
