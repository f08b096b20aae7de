"""hworker's own interface: `create`, with a name and a handler, and threads of yours that work and monitor."""

from __future__ import annotations

import inspect
import sys
import threading
import typing
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Generic, Literal, TypeVar, overload

import msgspec
from redis import exceptions as wire_errors

from headrace.dialects.base import Closing
from headrace.dialects.hworker import requests, wire
from headrace.dialects.hworker.driver import HworkerDriver, Keys
from headrace.dialects.hworker.hands import Failure, Hands, Result, Retry, Success
from headrace.dialects.hworker.options import EXAMPLE, FAILED_SIZE, TIMEOUT, Options
from headrace.dialects.hworker.requests import BROKEN, FAILED, JOBS, PROGRESS, Record, keep
from headrace.dialects.hworker.sweep import Monitor
from headrace.dialects.hworker.waiter import ListWaiter
from headrace.dialects.hworker.wire import to_datetime
from headrace.dialects.positions import decode_by_name
from headrace.errors import ConfigurationError, MaybeApplied, StoreError
from headrace.store.redis.addresses import parse_for
from headrace.store.redis.operation import Script, Steps
from headrace.values.clock import SystemClock
from headrace.values.codec import Arguments, decoder_of

J = TypeVar("J")
S = TypeVar("S")
T = TypeVar("T")

URL = "redis://localhost:6379/0"
PAUSE = 0.01
"""Seconds after anything but a clean success, as in released peers."""
LOOK_AGAIN = 5.0
"""Seconds after which an idle worker looks even though it has heard nothing."""

Logger = Callable[[str, str], object]


def print_line(name: str, message: str) -> None:
    print(f"{name}: {message}", flush=True)  # noqa: T201


_steady = SystemClock().steady


class _Ahead(deque[Record]):
    """Jobs in hand, and when a request was sent whose answer said that they are ours (on the steady clock)."""

    proven = 0


class Hworker(Closing, Generic[S, J]):
    """One queue as one program sees it. Made by `create`. All methods may be called from any thread."""

    def __init__(
        self,
        driver: HworkerDriver,
        options: Options,
        hands: Callable[[], Hands] | None,
        *,
        job_type: Any,
        logger: Logger,
        debug: bool,
    ) -> None:
        self.name = options.name
        self.options = options
        self._driver = driver
        self._hands = hands
        self._decoder: msgspec.json.Decoder[J] = decoder_of(job_type)
        self._arguments = _arguments(f"queue {options.name}", job_type)
        self._logger = logger
        self._debug = debug
        self._stopping = threading.Event()
        self._waiters: set[ListWaiter] = set()

    # -- producing --

    def queue(self, job: J) -> bool:
        """Put a job in line. True when Redis accepted it, False when it answered with an error.

        Raises `ArgumentsError` when the job would not arrive as what it is, `StoreUnavailable` when Redis cannot be
        reached, and `MaybeApplied` when the connection broke before the answer came: the wire has no way to tell a
        repeated job from a new one.
        """
        payload = bytes(decode_by_name(self._arguments.encode((job,), {}, sys.maxsize))["job"])
        try:
            self._driver.run(requests.queue([(self.name, wire.write(wire.new_id(), payload))]))
        except StoreError as error:
            if not isinstance(error.__cause__, wire_errors.ResponseError):
                raise
            self._log(f"Redis error: {error}")
            return False
        return True

    # -- working --

    def worker(self) -> None:
        """Run jobs, one at a time, until `stop`. Start as many of these as you like, each in a thread of its own.

        Ctrl-C in the main thread lets the job in hand finish; a second one gives it back and leaves at once.
        """
        if self._hands is None:
            raise ConfigurationError(
                f"The queue {self.name!r} has no handler: create({self.name!r}, handler, ...) works."
            )
        hands = self._hands()
        # A worker here asks only when it has nothing in hand: there is always room.
        waiter = ListWaiter(self._driver, [self.name], lambda: None)
        self._waiters.add(waiter)
        ahead = _Ahead()
        try:
            while not self._stopping.is_set():
                if not ahead:
                    waiter.arm()
                    ahead.proven = _steady()
                    ahead += self._take(self.options.prefetch or 1)
                if not ahead:
                    waiter.wait(LOOK_AGAIN)
                elif not self._run_one(hands, ahead):
                    self._stopping.wait(PAUSE)
        finally:
            self._waiters.discard(waiter)
            waiter.close()
            hands.close()
            if ahead:
                with suppress(StoreError):
                    self._driver.run(requests.settle(list(ahead)[::-1], requests.GIVE_BACK))

    def stop(self) -> None:
        """Let all workers, monitors and debuggers of this object finish what they are at, and return."""
        self._stopping.set()
        for waiter in tuple(self._waiters):
            waiter.poke()

    def _take(self, count: int) -> list[Record]:
        done = self._try(requests.exchange([], count, [self.name], self.options.failed_size))
        if done is None:
            self._stopping.wait(PAUSE)
            return []
        return done.taken

    def _run_one(self, hands: Hands, ahead: _Ahead) -> bool:
        """Run the first of the jobs in hand. True if it succeeded and was ours to the end."""
        # After a while without an answer, as of a process that was frozen, others may have these jobs: ask first.
        if _steady() - ahead.proven > self.options.timeout * 1000 / 2 and not self._keep(ahead):
            return False
        if not ahead:
            return True
        raw = ahead[0].raw
        try:
            job = self._decoder.decode(wire.read(raw)[1])
        except (ValueError, RecursionError) as error:
            self._log(f"Broken job: {_shown(raw)}: {error}")
            self._settle(ahead.popleft(), requests.IS_BROKEN)
            return False
        self._debug_line(f"Job started: {_shown(raw)}")
        hands.start(job)
        result = self._wait_for(hands, ahead)
        record = ahead.popleft()
        if isinstance(result, Success):
            if settled := self._settle(record, requests.SUCCESS):
                self._debug_line(f"Job complete: {_shown(raw)}")
            else:
                self._log(f"Job done, but deleted 0 records: {_shown(raw)}")
            return settled
        what = requests.RETRY if isinstance(result, Retry) else requests.FAILURE
        self._log(f"{type(result).__name__}: {result.message}")
        if not self._settle(record, what):
            self._log(f"Somebody else has this job by now; nothing was written: {_shown(raw)}")
        return False

    def _keep(self, ahead: _Ahead, *, begun: int = 0) -> bool:
        """Renew what is in hand, and forget what others have by now. False: there was no answer.

        The first `begun` stay in any case: their settles find out whether others have them by now.
        """
        sent, records = _steady(), tuple(ahead)
        kept = self._try(Steps(lambda: keep(records, self.options)))
        if kept is None:
            return False
        ahead.clear()
        ahead.extend(new or old for old, new in zip(records[:begun], kept[:begun], strict=True))
        ahead.extend(new for new in kept[begun:] if new is not None)
        ahead.proven = sent
        return True

    def _wait_for(self, hands: Hands, ahead: _Ahead) -> Result:
        """Wait for the job in hand, and keep it and those ahead alive meanwhile."""
        interrupts = 0
        while True:
            try:
                result = hands.wait(self.options.timeout / 3)
                if result is not None:
                    return result
                if self.options.keep_alive:
                    self._keep(ahead, begun=1)
            except KeyboardInterrupt:
                self.stop()
                interrupts += 1
                if interrupts > 1:
                    raise

    def _settle(self, record: Record, what: bytes) -> bool:
        """Say what became of a job; repeated until Redis answers, for as long as the job is ours."""
        while True:
            done = self._try(requests.settle([record], what, self.options.failed_size))
            if done is not None:
                return done.ours[0] or done.unsure
            if self._stopping.wait(PAUSE * 10):
                return False

    # -- monitoring --

    def monitor(self) -> None:
        """Give back jobs that have been in progress for longer than the time-out, until `stop`. Begins at once."""
        monitor = Monitor(self.options.timeout, self._log)
        while not self._stopping.is_set():
            self._sweep(monitor)
            self._stopping.wait(monitor.period)

    def _sweep(self, monitor: Monitor) -> None:
        done = self._try(Steps(lambda: monitor.sweep(self.name)))
        if done is None:
            return
        for raw in done.given_back:
            self._debug_line("Monitor gave back: 1")
            self._debug_line(f"Monitor requeued: {_shown(raw)}")
        for _ in done.refreshed:
            self._debug_line("Monitor gave back: 0")

    # -- looking --

    def jobs(self, *, lenient: bool = False) -> list[J]:
        """The waiting jobs, newest first: the last one runs next. Entries that do not decode are left out.

        `lenient`: answer with nothing, and log, when Redis cannot be asked; so in `failed`, `broken` and `in_progress`.
        """
        return self._decoded(self._entries(JOBS, lenient))

    def failed(self, *, lenient: bool = False) -> list[J]:
        """The jobs that failed, newest first, as many as are kept."""
        return self._decoded(self._entries(FAILED, lenient)[: max(self.options.failed_size, 0)])

    def broken(self, *, lenient: bool = False) -> list[tuple[bytes, datetime | None]]:
        """Entries that could not be decoded, and when that was noticed (None: written in no way that can be read)."""
        return [(raw, to_datetime(value)) for raw, value in self._entries(BROKEN, lenient)]

    def in_progress(self, *, lenient: bool = False) -> list[tuple[bytes, datetime | None]]:
        """Raw jobs being run, and since when, or when last seen alive."""
        found = self._entries(PROGRESS, lenient)
        return [(raw, to_datetime(value)) for raw, value in found if raw != wire.PHANTOM]

    def debugger(self, period: float = 1.0) -> None:
        """Log one line with the waiting and the running raw jobs every `period` seconds, until `stop`."""
        while not self._stopping.is_set():
            waiting = [_shown(raw) for raw, _ in self._entries(JOBS, True)]
            running = [_shown(raw) for raw, _ in self.in_progress(lenient=True)]
            self._log(f"DEBUG waiting: {waiting} running: {running}")
            self._stopping.wait(period)

    # -- the end --

    def destroy(self) -> None:
        """Delete the queue and everything in it."""
        self._driver.run(requests.destroy(self.name))

    def close(self) -> None:
        """Stop, and let go of all connections."""
        self.stop()
        self._driver.close()

    # -- inside --

    def _entries(self, kind: int, lenient: bool) -> list[tuple[bytes, bytes]]:
        look = Steps(lambda: requests.walk(self.name, kind))
        looked = self._try(look) if lenient else self._driver.run(look)
        return [] if looked is None else looked.found

    def _decoded(self, entries: list[tuple[bytes, bytes]]) -> list[J]:
        jobs = []
        for raw, _ in entries:
            with suppress(ValueError, RecursionError):
                jobs.append(self._decoder.decode(wire.read(raw)[1]))
        return jobs

    def _try(self, operation: Script[T] | Steps[T]) -> T | None:
        """Errors of Redis are logged, and end nothing."""
        try:
            return self._driver.run(operation)
        except (StoreError, MaybeApplied) as error:
            self._log(f"Redis error: {error}")
            return None

    def _debug_line(self, message: str) -> None:
        if self._debug:
            self._log(message)

    def _log(self, message: str) -> None:
        with suppress(Exception):  # a logger that fails must not cost a job
            self._logger(self.name, message)


def _arguments(name: str, job_type: Any) -> Arguments:
    """A job is checked as the only argument of a task is."""

    def handler(job: Any) -> None: ...

    handler.__annotations__["job"] = job_type
    return Arguments(name, handler)


def _shown(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")


@overload
def create(
    name: str,
    *,
    connection: str | Hworker[Any, Any] = URL,
    timeout: float = TIMEOUT,
    failed_size: int = FAILED_SIZE,
    failed_key: str | None = None,
    logger: Logger = print_line,
    debug: bool = False,
    job_type: Any = None,
) -> Hworker[None, Any]: ...
@overload
def create(
    name: str,
    handler: Callable[[S, J], Any],
    *,
    state: S,
    connection: str | Hworker[Any, Any] = URL,
    timeout: float = TIMEOUT,
    exceptions: Literal["fail", "retry"] = "fail",
    failed_size: int = FAILED_SIZE,
    failed_key: str | None = None,
    logger: Logger = print_line,
    debug: bool = False,
    job_type: Any = None,
    keep_alive: bool = True,
    prefetch: int = 1,
) -> Hworker[S, J]: ...
def create(
    name: str,
    handler: Callable[[Any, Any], Any] | None = None,
    *,
    state: Any = None,
    connection: str | Hworker[Any, Any] = URL,
    timeout: float = TIMEOUT,
    exceptions: Literal["fail", "retry"] = "fail",
    failed_size: int = FAILED_SIZE,
    failed_key: str | None = None,
    logger: Logger = print_line,
    debug: bool = False,
    job_type: Any = None,
    keep_alive: bool = True,
    prefetch: int = 1,
) -> Hworker[Any, Any]:
    """A queue with this name, whose jobs `handler(state, job)` runs. Nothing is connected before it is used.

    A program that only queues, monitors or looks needs neither handler nor state.

    The handler returns `Success()` (or nothing), `Retry(message)` or `Failure(message)`; what it throws counts as one
    of the latter two, as `exceptions` says. `job_type` is what payloads must fit (if not given, the annotation of the
    handler's second parameter): one that does not is broken.

    `connection`: a URL, or another queue whose connections to share. `timeout` (seconds) is the monitor's; a job that
    runs longer is kept alive, unless `keep_alive` is False. `failed_size` bounds the list of failures, and `failed_key`
    is another key for it. `prefetch`: how many jobs a worker may take at once; with 1 it takes none before it can run
    it. `logger` gets the queue's name and a line; `debug` tells it of every job.

    >>> from headrace.dialects.hworker import Success
    >>> mail = create("mail", lambda state, job: Success(), state=None, timeout=30)
    >>> mail.name, mail.options.timeout
    ('mail', 30)
    """
    if exceptions not in ("fail", "retry"):
        raise ConfigurationError(f"exceptions is 'fail' or 'retry', not {exceptions!r}.")
    options = Options(name, timeout, failed_size, failed_key, keep_alive=keep_alive, prefetch=prefetch).check()
    if isinstance(connection, Hworker):
        driver = connection._driver.with_keys(Keys(failed_key))
    else:
        driver = HworkerDriver(parse_for("hworker", connection, EXAMPLE)[0], Keys(failed_key))
    return Hworker(
        driver,
        options,
        None if handler is None else partial(Hands, handler, state, Failure if exceptions == "fail" else Retry),
        job_type=_job_type(handler) if job_type is None else job_type,
        logger=logger,
        debug=debug,
    )


def _job_type(handler: Callable[..., Any] | None) -> Any:
    if handler is None:
        return Any
    try:
        hints = typing.get_type_hints(handler)
        parameters = list(inspect.signature(handler).parameters)
    except (TypeError, ValueError, NameError):
        return Any
    return hints.get(parameters[1], Any) if len(parameters) > 1 else Any
