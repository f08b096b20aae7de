"""A process for every job: whatever a job leaks or breaks goes with its process."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from headrace.dialects.qless.client import Client
from headrace.dialects.qless.events import Listener
from headrace.dialects.qless.job import Job
from headrace.dialects.qless.queue import Queue
from headrace.dialects.qless.running import process
from headrace.dialects.qless.workers.base import STOPS, Worker, at_once, empty, fork, sandbox, settling, title
from headrace.store.wakeup import readable

log = logging.getLogger("headrace.qless.worker")


class ForkPerJobWorker(Worker):
    """Up to `workers` child processes at once (as many as there are processors, if 0), each for one job.

    The child of a lost job is killed. The parent has no threads: it may fork at any time.
    """

    def __init__(self, queues: Sequence[str | Queue], client: Client, *, workers: int = 0, **options: Any) -> None:
        super().__init__(queues, client, **options)
        self._slots = at_once("workers", workers, os.cpu_count() or 1)
        self._children: dict[int, tuple[str, int]] = {}

    def run(self) -> None:
        listener = Listener(self.client.driver, [f"ql:w:{self.client.worker_name}"])
        self.patiently(listener.subscribe)
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        before = signal.signal(signal.SIGCHLD, lambda *_: None)
        free = list(range(self._slots))[::-1]
        jobs = self.jobs()
        try:
            while not self._stop.is_set() or self._children:
                job = next(jobs, None) if free and not self._stop.is_set() else None
                if job is not None:
                    self._start(job, free.pop())
                    continue
                title(f"{len(self._children)} jobs")
                self._wait(listener, reader)
                free += self._buried()
        finally:
            signal.signal(signal.SIGCHLD, before)
            signal.set_wakeup_fd(previous)
            listener.close()
            listener.hang_up()
            os.close(reader)
            os.close(writer)

    def _wait(self, listener: Listener, reader: int) -> None:
        """For the end of a child, for news of a lost job, for the next look at the queues."""
        ready = readable([reader, *listener.descriptors], self.options.interval)
        if reader in ready:
            with suppress(BlockingIOError):
                os.read(reader, 4096)
        for _, text in listener.waiting():
            self.heard(text)

    def _start(self, job: Job, number: int) -> None:
        # A signal between the fork and what follows would meet the child with its parent's handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        self._children[fork(partial(self._work, job, number), f"the process of {job!r}")] = (job.jid, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def _work(self, job: Job, number: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for name in STOPS:
            # They may come to the whole group: the parent decides, and ends a child by KILL. A function, because
            # programs that a job starts would inherit it if signals were ignored.
            signal.signal(name, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        title(f"{job.jid} {job.klass_name}")
        with settling(job), sandbox(self._sandbox(number)) as directory:
            job.sandbox = directory
            os.chdir(directory)
            process(job, self.options.allowed)
            self.finish(job)

    def _sandbox(self, number: int) -> Path:
        return self.options.sandbox / f"sandbox-{number}"

    def _buried(self) -> list[int]:
        """The numbers of children that have ended."""
        free = []
        for child, (jid, number) in list(self._children.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del self._children[child]
                free.append(number)
                if status:
                    empty(self._sandbox(number))  # one that was killed could not do so
                    log.warning("%s: its process ended with %d", jid, os.waitstatus_to_exitcode(status))
        return free

    def lose(self, jid: str) -> None:
        for child, (running, _) in self._children.items():
            if running == jid:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
