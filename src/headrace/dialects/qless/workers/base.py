"""What all workers have in common: which job is next, which is lost, when to stop."""

from __future__ import annotations

import code
import itertools
import json
import logging
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from headrace.dialects.qless import Client, Job, Queue
from headrace.dialects.qless.driver import LostLockException, QlessException
from headrace.dialects.qless.events import Listener
from headrace.dialects.qless.running import failed_by
from headrace.dialects.qless.workers.reading import Unreadable, held_by, popped
from headrace.errors import ConfigurationError, HeadraceError, StoreError
from headrace.store.wakeup import Pokes, readable
from headrace.values.durations import doubled

log = logging.getLogger("headrace.qless.worker")

T = TypeVar("T")

LOSSES = frozenset({"canceled", "lock_lost", "put"})
"""Events that say that a worker has lost a job."""

BASE = "qless-py-workers"
"""Beneath the base directory. The name is the one that existing installations have."""

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals that say: finish and stop."""


@dataclass
class Options:
    """How a worker works."""

    interval: float = 60.0
    """Seconds to sleep when no queue had work: more than 0, at most a year."""
    ordered: bool = False
    """Start from the first queue each time. If not: one job from each queue in turn."""
    resume: bool | Sequence[Job] = False
    """Go on with jobs that this worker's name still holds (or with these)."""
    sandbox: Path = Path(BASE)
    """Where jobs get their directories."""
    allowed: Sequence[str] | None = ()
    """Modules from which classes may be imported, with all that is inside them. None: any."""
    complete: bool = True
    """Complete a job whose method returned without ending it. If not, its lock runs out."""

    def __post_init__(self) -> None:
        if not 0 < self.interval <= 366 * 86_400:  # which is false for what is not a number, too
            raise ConfigurationError(f"interval={self.interval}: write seconds, more than 0 and at most a year.")
        if isinstance(self.allowed, str):
            raise ConfigurationError(f"allowed={self.allowed!r}: write a list of modules, or None for any.")
        self.sandbox = Path(self.sandbox).absolute()


class Stopper(Pokes):
    """Says that it is time to stop. Unlike an `Event` it may be set by a signal handler that interrupts its `wait`."""

    _is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """From any thread and any signal handler."""
        self._is_set = True
        self.poke()

    def wait(self, seconds: float) -> None:
        """Until it is set, or so many seconds have passed. Once it is set this returns at once, for ever."""
        readable([self.reader], seconds)


class Worker:
    """Pops jobs and runs them. Subclasses say how many at once, and where."""

    def __init__(self, queues: Sequence[str | Queue], client: Client, **options: Any) -> None:
        """`queues` are names or queues; `options` are those of `Options`."""
        self.client = client
        self.options = Options(**options)
        self.queues = [client.queues[name] for name in names_of(queues)]
        self._stop = Stopper()
        self._turn = itertools.cycle(self.queues)

    # -- which job is next --

    def resumable(self) -> list[Job]:
        """Jobs that this worker's name holds in its queues, as far as they can still be had."""
        resume = self.options.resume
        if resume is False:
            return []
        jobs = held_by(self.client, [queue.name for queue in self.queues]) if resume is True else resume
        found: dict[str, Job] = {}
        for job in jobs:
            try:
                job.heartbeat()
                found[job.jid] = job
            except LostLockException:
                log.warning("%r cannot be resumed: its lock is lost", job)
        return list(found.values())

    def pop(self) -> Job | None:
        """The next job, or None after a full round without any."""
        if self.options.ordered:
            self._turn = itertools.cycle(self.queues)
        for queue in itertools.islice(self._turn, len(self.queues)):
            job = popped(self.client, queue.name)
            if job is not None:
                return job
        return None

    def jobs(self) -> Iterator[Job | None]:
        """Jobs until `stop`: first those to be resumed. None means: there is nothing at present."""
        yield from self.patiently(self.resumable) or []
        while not self._stop.is_set():
            try:
                job = self.patiently(self.pop)
            except Unreadable as error:
                log.error("%s", error)
                continue
            except QlessException as error:
                log.warning("%s", error)
                job = None
            yield job

    def patiently(self, act: Callable[[], T]) -> T | None:
        """What a function answers that needs the server. As long as that is away it is called again, ever more rarely;
        None: it is time to stop.
        """
        for attempt in itertools.count():
            try:
                answer = act()
            except StoreError as error:
                log.log(logging.DEBUG if attempt else logging.WARNING, "%s Trying again until it is there.", error)
                self._stop.wait(back_off(attempt))
                if self._stop.is_set():
                    break
            else:
                if attempt:
                    log.warning("%s is there again", self.client.driver.where)
                return answer
        return None

    def rest(self) -> None:
        """Sleep until it is worth looking again, or until `stop`."""
        self._stop.wait(self.options.interval)

    def run(self) -> None:
        """Work until `stop`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Finish what is being done, and take nothing more. Safe in signal handlers and from other threads."""
        self._stop.set()

    # -- the end of a run --

    def finish(self, job: Job) -> None:
        """A job's method has returned: complete the job if it did not end it by itself."""
        if job.settled or not self.options.complete:
            return
        try:
            job.complete()
        except (TypeError, ValueError, RecursionError) as error:  # JSON cannot carry its data
            failed_by(job, error)

    # -- losing a job --

    def lose(self, jid: str) -> None:
        """Work on a job is in vain from now on: stop it, if it is being done here."""
        raise NotImplementedError

    @contextmanager
    def listener(self) -> Iterator[Listener]:
        """Around a run: `lose` is called, in a thread, with the jid of each lost job."""
        listener = Listener(self.client.driver, [f"ql:w:{self.client.worker_name}"])
        self.patiently(listener.subscribe)
        threading.Thread(target=self._hear, args=(listener,), name="qless-listener", daemon=True).start()
        try:
            yield listener
        finally:
            listener.close()

    def _hear(self, listener: Listener) -> None:
        for _, text in listener.messages():
            self.heard(text)

    def heard(self, text: str) -> None:
        """Act on a message on this worker's channel."""
        try:
            message = json.loads(text)
            jid, event = message["jid"], message["event"]
            if not (isinstance(jid, str) and isinstance(event, str)):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            log.warning("a message that makes no sense: %.200r", text)
            return
        if event in LOSSES:
            log.info("%s: %s", jid, event)
            self.lose(jid)

    # -- signals --

    def handle_signals(self, numbers: Sequence[int] = (*STOPS, signal.SIGUSR1, signal.SIGUSR2)) -> None:
        """USR1: print what every thread does. USR2: open a console. All others: finish and stop."""
        special: dict[int, Callable[..., None]] = {signal.SIGUSR1: print_stacks, signal.SIGUSR2: self._console}
        for number in numbers:
            signal.signal(number, special.get(number, lambda *_: self.stop()))

    def _console(self, _: int, frame: FrameType | None) -> None:
        code.interact(f"{type(self).__name__} {self.client.worker_name}", local={"worker": self, "frame": frame})


@contextmanager
def workplace(job: Job, directory: Path) -> Iterator[None]:
    """Around a run: a directory that is empty before and after it, for the job alone.

    That the run's end could not be told is the end of nothing else. The job's lock will run out.
    """
    try:
        empty(directory)
        job.sandbox = str(directory)
        try:
            yield
        finally:
            empty(directory)
    except HeadraceError as error:
        log.warning("%r could not be settled: %s", job, error)
    except Exception:
        log.exception("%r could not be settled", job)


def empty(directory: Path) -> None:
    """Remove what is in a directory, and make it if there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def back_off(failures: int) -> float:
    """Seconds to wait after so many attempts in vain, before the next one.

    >>> [back_off(failures) for failures in (0, 1, 2, 5, 1_000)]
    [0.1, 0.2, 0.4, 3.2, 5.0]
    """
    return doubled(0.1, failures, most=5.0)


def names_of(queues: Sequence[str | Queue]) -> list[str]:
    """The names of queues.

    >>> names_of(["mail", "default"])
    ['mail', 'default']
    """
    if isinstance(queues, str):
        raise ConfigurationError(f"queues={queues!r}: write a list of queues.")
    names = [str(queue) for queue in queues]
    if not names or "" in names:
        raise ConfigurationError("A worker needs at least one queue, and each needs a name.")
    return names


def at_once(option: str, number: int, if_zero: int = 0) -> int:
    """A number of processes or coroutines, checked.

    >>> at_once("workers", 3)
    3
    """
    if number < 0 or not (number or if_zero):
        raise ConfigurationError(f"{option}={number}: write how many are to work at once.")
    return number or if_zero


def print_stacks(_: int = 0, __: FrameType | None = None) -> None:
    """Write what every thread is doing to stderr and to the log."""
    lines = []
    for thread, frame in sys._current_frames().items():
        lines += [f"Thread {thread}:\n", *traceback.format_stack(frame)]
    text = "".join(lines)
    sys.stderr.write(text)
    sys.stderr.flush()
    log.info("what every thread is doing:\n%s", text)


def title(text: str) -> None:
    """Tell in the process list what is going on, where that is possible."""
    try:
        from setproctitle import setproctitle  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        return
    setproctitle(f"qless worker: {text}")
