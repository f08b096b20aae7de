"""Workers with child processes: each a worker of another kind that is kept alive, or each for one job."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from headrace.dialects.qless import Client, Job, Queue
from headrace.dialects.qless.events import Listener
from headrace.dialects.qless.running import process
from headrace.dialects.qless.workers.base import (
    BASE,
    STOPS,
    Stopper,
    Worker,
    at_once,
    back_off,
    empty,
    names_of,
    title,
    workplace,
)
from headrace.dialects.qless.workers.reading import held_by
from headrace.dialects.qless.workers.serial import LOST_JOB, SerialWorker
from headrace.errors import ConfigurationError, HeadraceError
from headrace.store.wakeup import readable
from headrace.worker.zygote import die_with_parent

log = logging.getLogger("headrace.qless.worker")

INFANCY = 1.0
"""Seconds. Who replaces a child that did not live so long waits before it does: the next one may die of the same."""


class ForkingWorker:
    """`workers` children (as many as there are processors, if 0), replaced when they die.

    Each runs a worker of the kind `klass`, a class or its dotted name, to which all other options go. Child i is called
    `<name>-<i>`, `name` being the client's, so that a worker started again under the same name finds the jobs it had.
    It works in `qless-py-workers/sandbox-<i>` beneath `workdir`. The parent has no connection and no threads.
    """

    def __init__(
        self,
        queues: Sequence[str | Queue],
        client: Client,
        *,
        workers: int = 0,
        klass: type[Worker] | str = SerialWorker,
        workdir: Path | str = "",
        **options: Any,
    ) -> None:
        if "sandbox" in options:
            raise ConfigurationError("sandbox: each child has its own. Name the directory around them with workdir.")
        self._queues = names_of(queues)
        self._client = client
        self._count = at_once("workers", workers, os.cpu_count() or 1)
        self._klass = _named(klass) if isinstance(klass, str) else klass
        self._base = Path(workdir).absolute() / BASE
        self._options = options
        self._klass(self._queues, client, **options)  # before any child exists mistakes are met here
        self._children: dict[int, tuple[int, float]] = {}
        """By process: the number of a child, and when it was born."""
        self._stop = Stopper()

    def run(self) -> None:
        """Keep the children alive until TERM, INT or QUIT; these are passed on, and the children waited for."""
        shares = self._divided()
        for name in STOPS:
            signal.signal(name, self._pass_on)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started us may ignore it, and then nobody can wait
        title(f"{self._count} processes")
        for i in range(self._count):
            self._start(i, shares[i])
        deaths = 0
        while self._children:
            child, status = os.wait()
            if child not in self._children:
                continue
            number, born = self._children.pop(child)
            code = os.waitstatus_to_exitcode(status)
            if self._stop.is_set():
                continue
            log.warning("child %d ended with %d: starting another", number, code)
            deaths = deaths + 1 if code != LOST_JOB and time.monotonic() - born < INFANCY else 0
            if deaths:
                self._stop.wait(back_off(deaths - 1))
            self._start(number, [])

    def _divided(self) -> list[list[Job]]:
        """What is resumed: jobs that are named, or that a process of the bare name held, in equal parts."""
        resume = self._options.get("resume", False)
        jobs = held_by(self._client, self._queues) if resume is True else resume or []
        self._client.driver.close()
        return [jobs[i :: self._count] for i in range(self._count)]

    def _start(self, number: int, share: list[Job]) -> None:
        # A signal between the fork and what follows would miss the child, or meet it with its parent's handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        if not self._stop.is_set():
            child = fork(partial(self._work, number, share), f"child {number}")
            self._children[child] = (number, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def _work(self, number: int, share: list[Job]) -> None:
        directory = self._base / f"sandbox-{number}"
        empty(directory)  # of what a child that died has left
        os.chdir(directory)
        client = self._client.named(f"{self._client.worker_name}-{number}")
        worker = self._klass(self._queues, client, **self._options | {"sandbox": directory, "resume": share})
        worker.handle_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        if self._options.get("resume") is True:
            # Jobs that the bare name holds can only be had under that name; all others are taken under our own.
            own = worker.patiently(partial(held_by, client, self._queues))
            worker.options.resume = [*(own or []), *share]
        worker.run()

    def _pass_on(self, number: int, _: object) -> None:
        self._stop.set()
        for child in self._children:
            with suppress(ProcessLookupError):
                os.kill(child, number)


def _named(klass: str) -> type[Worker]:
    module, _, name = klass.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"klass={klass!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Worker)):
        raise ConfigurationError(f"klass={klass!r} is not a kind of worker.")
    return found


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
        """For the end of a child, for news of a lost job, for the next look at the queues; and to be told to stop."""
        # Told to stop, it waits for its children alone; without any (it was told a moment ago) it goes on at once.
        told = [] if self._stop.is_set() and self._children else [self._stop.reader]
        ready = readable([reader, *told, *listener.descriptors], self.options.interval)
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
        with workplace(job, self._sandbox(number)):
            os.chdir(self._sandbox(number))
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


def fork(work: Callable[[], None], name: str) -> int:
    """A child process that does this, and ends when its parent does. Signals that stop are blocked when it begins."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    die_with_parent(parent)  # or another process, started under the same name, would share it
    status = 1
    try:
        work()
        status = 0
    except (HeadraceError, OSError) as error:
        log.error("%s ended: %s", name, error)
    except BaseException:
        log.exception("%s ended", name)
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
