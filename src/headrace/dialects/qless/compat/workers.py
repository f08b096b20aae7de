"""Workers as the published client has them: `Worker` is the base of your own, the others are ready to run.

As there, a class of any module may be run, and a method that returns without having ended its job leaves it running
until its lock runs out. Pass `allowed=["shop.jobs"]` and `complete=True` for what headrace's own workers do.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from headrace.dialects.qless import Client, Queue
from headrace.dialects.qless.workers import base, coroutines, processes, serial

__all__ = ["ForkingWorker", "GeventWorker", "SerialWorker", "Worker"]


class _Published:
    """The published defaults."""

    def __init__(self, queues: Sequence[str | Queue], client: Client, **options: Any) -> None:
        super().__init__(queues, client, **{"allowed": None, "complete": False, **options})  # type: ignore[call-arg]


class Worker(_Published, base.Worker):
    """The base of a worker of your own: override `run` and `kill`, which `listener` calls with the jid of a lost job.

    >>> class Mine(Worker):
    ...     def run(self):
    ...         with self.listener():
    ...             for job in self.jobs():
    ...                 if job is None:
    ...                     self.rest()
    ...                 else:
    ...                     job.process()
    ...
    ...     def kill(self, jid): ...
    """

    @property
    def interval(self) -> float:
        """Seconds to sleep when no queue had work."""
        return self.options.interval

    @property
    def shutdown(self) -> bool:
        """Whether `stop` was called: `jobs` ends then."""
        return self._stop.is_set()

    def kill(self, jid: str) -> None:
        """Work on a job is in vain from now on: stop it, if it is being done here."""
        raise NotImplementedError

    def lose(self, jid: str) -> None:
        self.kill(jid)

    def signals(self, names: Sequence[str] = ("QUIT", "USR1", "USR2")) -> None:
        """Handle these signals: USR1 prints what every thread does, USR2 opens a console, all others stop."""
        self.handle_signals([signal.Signals[f"SIG{name}"] for name in names])


class SerialWorker(_Published, serial.SerialWorker):
    """One job after another in this process."""


class GeventWorker(_Published, coroutines.CoroutineWorker):
    """Up to `greenlets` jobs at once in one process: as coroutines and threads, without gevent."""


class ForkingWorker(_Published, processes.ForkingWorker):
    """Child processes that are kept alive, each a worker of the kind `klass`."""

    def __init__(self, queues: Sequence[str | Queue], client: Client, **options: Any) -> None:
        super().__init__(queues, client, **{"klass": SerialWorker, **options})
