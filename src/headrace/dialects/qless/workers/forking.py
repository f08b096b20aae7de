"""A parent that keeps child processes alive, each running a worker of another kind."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from headrace.dialects.qless.client import Client
from headrace.dialects.qless.job import Job
from headrace.dialects.qless.queue import Queue
from headrace.dialects.qless.workers.base import (
    BASE,
    STOPS,
    Stopper,
    Worker,
    at_once,
    back_off,
    empty,
    fork,
    names_of,
    title,
)
from headrace.dialects.qless.workers.reading import held_by
from headrace.dialects.qless.workers.serial import LOST_JOB, SerialWorker
from headrace.errors import ConfigurationError

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
