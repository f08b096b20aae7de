"""A parent that keeps child processes alive, each running a worker of another kind."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from headrace.dialects.qless.client import Client
from headrace.dialects.qless.workers.base import STOPS, Options, Worker, title
from headrace.dialects.qless.workers.reading import held_by, looked_up
from headrace.dialects.qless.workers.sandbox import BASE, empty
from headrace.dialects.qless.workers.serial import SerialWorker
from headrace.worker.zygote import die_with_parent

log = logging.getLogger("headrace.qless.worker")

Kind = Callable[[Sequence[str], Client, Options], Worker]


class ForkingWorker:
    """`workers` children (as many as there are processors, if 0), replaced when they die.

    Child i is called `<name>-<i>`, so that a worker started again under the same name finds the jobs it had. It works
    in `qless-py-workers/sandbox-<i>` beneath the base directory. The parent has no connection and no threads.
    """

    def __init__(
        self,
        queues: Sequence[str],
        url: str,
        options: Options | None = None,
        *,
        name: str | None = None,
        workers: int = 0,
        kind: Kind = SerialWorker,
        base: Path | None = None,
    ) -> None:
        self._queues = list(queues)
        self._url = url
        self._options = options or Options()
        self._name = name or Client(url).worker_name
        self._count = workers or os.cpu_count() or 1
        self._kind = kind
        self._base = (base or Path.cwd()).absolute()
        self._children: dict[int, int] = {}
        self._stopping: int | None = None

    def run(self) -> None:
        """Keep the children alive until TERM, INT or QUIT; these are passed on, and the children waited for."""
        shares = self._divided()
        for name in STOPS:
            signal.signal(name, self._pass_on)
        title(f"{self._count} processes")
        for i in range(self._count):
            self._start(i, shares[i])
        while self._children:
            with suppress(ChildProcessError):
                child, status = os.wait()
                number = self._children.pop(child, None)
                if number is not None and self._stopping is None:
                    log.warning("child %d ended with %d: starting another", number, os.waitstatus_to_exitcode(status))
                    self._start(number, None)

    def _divided(self) -> list[list[str] | None]:
        """Jobs that a process of the bare name held go to the children in equal parts; None: nothing is resumed."""
        if self._options.resume is False:
            return [None] * self._count
        with closing(Client(self._url, hostname=self._name)) as client:
            jids = [job.jid for job in held_by(client, self._queues)]
        return [jids[i :: self._count] for i in range(self._count)]

    def _start(self, number: int, share: list[str] | None) -> None:
        # A signal between the fork and what follows would miss the child, or meet it with its parent's handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        child = os.fork() if self._stopping is None else -1
        if child:
            if child > 0:
                self._children[child] = number
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            return
        die_with_parent()  # or another process, started under the same name, would share it
        status = 1
        try:
            self._work(number, share)
            status = 0
        except BaseException:
            log.exception("child %d ended", number)
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _work(self, number: int, share: list[str] | None) -> None:
        directory = self._base / BASE / f"sandbox-{number}"
        empty(directory)  # of what a child that died has left
        os.chdir(directory)
        client = Client(self._url, hostname=f"{self._name}-{number}")
        resumed = [] if share is None else held_by(client, self._queues)
        if share:
            # Jobs that the bare name holds can only be had under that name; all others are taken under our own.
            resumed += looked_up(Client(self._url, hostname=self._name), share)
        worker = self._kind(self._queues, client, replace(self._options, sandbox=directory, resume=resumed))
        worker.handle_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        worker.run()

    def _pass_on(self, number: int, _: object) -> None:
        self._stopping = number
        for child in self._children:
            with suppress(ProcessLookupError):
                os.kill(child, number)
