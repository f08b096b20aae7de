"""The protocol's client: `run` and `get`, sync and async, and the events of a function's channel."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from math import inf
from typing import Any, Literal, NamedTuple

from headrace.dialects.base import Closing
from headrace.dialects.gearmonkey import records
from headrace.dialects.gearmonkey.driver import both, command
from headrace.dialects.gearmonkey.protocol import (
    KEEP_LOCK,
    Option,
    Priority,
    Status,
    channel,
    check_function,
    job_key,
    lock_key,
)
from headrace.dialects.gearmonkey.requests import binary, pack
from headrace.dialects.gearmonkey.store import GearMonkeyStore
from headrace.dialects.on_redis import Stepwise
from headrace.dialects.subscription import Subscription
from headrace.errors import ConfigurationError, JobFailed, JobNotFound, StoreReadOnly, StoreUnavailable, Timeout
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script, Steps
from headrace.store.redis.troubles import BROKEN
from headrace.store.redis.wakeup import PING_SECONDS
from headrace.store.wakeup import areadable, readable

PAUSES = (0.0, 0.05, 0.2, 1.0)
"""Seconds before the first and the following attempts to connect again."""
SLICE = 1.0
"""Seconds for which the lock is waited for at a time; between slices the job itself is looked at."""


class JobTimeout(Timeout):
    """The job was waited for as long as asked, and has not finished. It stays where it is; `id` is its number."""

    def __init__(self, function: str, number: int, seconds: float) -> None:
        super().__init__(f"Job {number} of {function!r} has not finished within {seconds:g} s. It stays in line.")
        self.function = function
        self.id = number


class JobInfo(NamedTuple):
    """A job as its hash tells of it."""

    function: str
    id: int
    status: str
    input: str
    output: str | None
    """The result, or the error's text; None until the job has finished."""
    dividend: float | None = None
    divisor: float | None = None

    @property
    def finished(self) -> bool:
        return self.status in (Status.SUCCESS, Status.ERROR)

    @property
    def progress(self) -> float | None:
        """The completed part of the whole, if the worker has told."""
        if self.dividend is None or not self.divisor:
            return None
        return self.dividend / self.divisor


class JobError(JobFailed):
    """The job has finished with an error. `id` is its number, `job` the job as it ended."""

    def __init__(self, job: JobInfo) -> None:
        super().__init__(f"{job.function}:{job.id}", "error", "", job.output or "", "")
        self.function = job.function
        self.id = job.id
        self.job = job


class Event(NamedTuple):
    """Something that happened to a job: `create`, `start` or `finish`."""

    what: str
    function: str
    id: int


class Listener(Subscription):
    """The events of some functions. A connection that breaks is made again."""

    def __init__(self, driver: Driver, functions: tuple[str, ...]) -> None:
        if not functions:
            raise ConfigurationError("Name at least one function to listen to.")
        self._functions = {channel(function): function for function in functions}
        self._events: deque[Event] = deque()
        super().__init__(driver, list(self._functions))

    def connect(self) -> None:
        """Subscribe. Raises what is wrong if that can't be done."""
        for pause in PAUSES[:-1]:
            time.sleep(pause)
            with suppress(StoreUnavailable, StoreReadOnly):
                self.subscribe()
                return
        time.sleep(PAUSES[-1])
        self.subscribe()

    def close(self) -> None:
        self.hang_up()

    def next(self, timeout: float | None) -> Event | None:
        """The next event; None if there was none in time."""
        end = inf if timeout is None else time.monotonic() + timeout
        while not self._read():
            if (left := end - time.monotonic()) <= 0:
                return None
            readable(self.descriptors, min(left, PING_SECONDS))
        return self._events.popleft()

    async def anext(self, timeout: float | None) -> Event | None:
        """The same on an event loop."""
        end = inf if timeout is None else time.monotonic() + timeout
        while not await asyncio.to_thread(self._read):
            if (left := end - time.monotonic()) <= 0:
                return None
            await areadable(self.descriptors, min(left, PING_SECONDS))
        return self._events.popleft()

    def _read(self) -> bool:
        """Whether there is an event, after reading all that has come."""
        try:
            arrived = self.arrived()
        except BROKEN:
            self.hang_up()
            self.connect()
            arrived = []
        for name, text in arrived:
            what, _, number = text.partition(":")
            if what in ("create", "start", "finish") and number.isdecimal():
                self._events.append(Event(what, self._functions[name], int(number)))
        return bool(self._events)


class Client(Closing):
    """A GearMonkey client.

    >>> client = Client("gearmonkey+redis://localhost:6379/0")
    >>> client.run("mail", "ada@example.org", priority="urgent")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: priority is one of low, normal, high, scheduled, not 'urgent'.
    >>> number = client.run("mail", "ada@example.org", priority="high")  # doctest: +SKIP
    >>> client.get("mail", number).status                                # doctest: +SKIP
    'idle'
    """

    def __init__(self, url: str | GearMonkeyStore) -> None:
        self.store = url if isinstance(url, GearMonkeyStore) else GearMonkeyStore(url)
        self._driver = self.store.driver

    def close(self) -> None:
        """Let go of all connections."""
        self.store.close()

    def run(
        self,
        function: str,
        input: str | bytes = "",  # noqa: A002  (the protocol's own word)
        priority: str = Priority.NORMAL,
        options: Option = Option.NONE,
        timeout_or_scheduled: float | datetime | None = None,
        *,
        timeout: float = 0,
        scheduled: float | datetime | None = None,
        on_timeout: Literal["raise", "return"] = "raise",
    ) -> int:
        """Create a job and return its number.

        `scheduled`: the UNIX time (or datetime) from which it may run, for the priority `scheduled`.
        With `OPT_ROLLCALL` raises `NoWorkers`, and creates nothing, unless a worker is registered.
        With `OPT_BLOCKING` returns when the job has finished, raises `JobError` with the worker's error, or, after
        `timeout` seconds (0: never), `JobTimeout`; `on_timeout="return"` returns the number then, too.
        The fifth positional argument is the document's: the time of a scheduled job, the time-out of others.
        `MaybeApplied`: the connection broke before the answer came, and the job may be there or not.
        """
        timeout, scheduled = _fifth(priority, timeout_or_scheduled, timeout, scheduled)
        request = _request(function, input, priority, options, scheduled)
        return self._driver.run(_run(request, options, timeout, on_timeout))

    async def arun(
        self,
        function: str,
        input: str | bytes = "",  # noqa: A002
        priority: str = Priority.NORMAL,
        options: Option = Option.NONE,
        timeout_or_scheduled: float | datetime | None = None,
        *,
        timeout: float = 0,
        scheduled: float | datetime | None = None,
        on_timeout: Literal["raise", "return"] = "raise",
    ) -> int:
        """`run` without blocking the event loop."""
        timeout, scheduled = _fifth(priority, timeout_or_scheduled, timeout, scheduled)
        request = _request(function, input, priority, options, scheduled)
        return await self._driver.arun(_run(request, options, timeout, on_timeout))

    def run_many(
        self,
        function: str,
        inputs: Sequence[str | bytes],
        priority: str = Priority.NORMAL,
        options: Option = Option.NONE,
        *,
        scheduled: float | datetime | None = None,
    ) -> list[int]:
        """Create several jobs in one step, all of them or none; answers with their numbers. `wait` waits for one."""
        return self._driver.run(_run_many(function, inputs, priority, options, scheduled))

    async def arun_many(
        self,
        function: str,
        inputs: Sequence[str | bytes],
        priority: str = Priority.NORMAL,
        options: Option = Option.NONE,
        *,
        scheduled: float | datetime | None = None,
    ) -> list[int]:
        """`run_many` without blocking the event loop."""
        return await self._driver.arun(_run_many(function, inputs, priority, options, scheduled))

    def get(self, function: str, number: int) -> JobInfo | None:
        """The job as it is now; None if it is unknown or has expired."""
        return self._driver.run(_get(function, number))

    async def aget(self, function: str, number: int) -> JobInfo | None:
        """`get` without blocking the event loop."""
        return await self._driver.arun(_get(function, number))

    def wait(self, function: str, number: int, timeout: float = 0) -> JobInfo:
        """Wait for a job's end, however many others do; answers with the job. Raises `JobTimeout` or `JobNotFound`."""
        return self._driver.run(_wait(function, number, timeout))

    async def await_(self, function: str, number: int, timeout: float = 0) -> JobInfo:
        """`wait` without blocking the event loop."""
        return await self._driver.arun(_wait(function, number, timeout))

    def events(self, *functions: str, timeout: float | None = None) -> Iterator[Event]:
        """What happens to jobs of these functions from now on, until nothing did for `timeout` seconds.

        Listens from this call on, not only from the first `next`. Events are fire and forget: nothing may depend on
        receiving one.
        """
        listener = Listener(self._driver, tuple(map(check_function, functions)))
        listener.connect()

        def listen() -> Iterator[Event]:
            with closing(listener):
                while (event := listener.next(timeout)) is not None:
                    yield event

        return listen()

    async def aevents(self, *functions: str, timeout: float | None = None) -> AsyncIterator[Event]:
        """The same on an event loop. Listens from the first `anext` on."""
        listener = Listener(self._driver, tuple(map(check_function, functions)))
        with closing(listener):
            await asyncio.to_thread(listener.connect)
            while (event := await listener.anext(timeout)) is not None:
                yield event


def _fifth(
    priority: str, fifth: float | datetime | None, timeout: float, scheduled: float | datetime | None
) -> tuple[float, float | datetime | None]:
    """Time-out and scheduled time. The document's signature has one place for both."""
    if fifth is None:
        return timeout, scheduled
    if priority == Priority.SCHEDULED and scheduled is None:
        return timeout, fifth
    if priority == Priority.SCHEDULED or timeout or isinstance(fifth, datetime):
        raise ConfigurationError(
            "The fifth argument is the UNIX time of a scheduled job, or the time-out in seconds of any other. "
            "Pass timeout= and scheduled= by name to give both."
        )
    return fifth, scheduled


def _request(
    function: str, given: str | bytes, priority: str, options: Option, scheduled: float | datetime | None
) -> list[Any]:
    """A job as lua/put.lua takes it. Whatever is wrong is said here, before any command is sent."""
    check_function(function)
    if not isinstance(given, str | bytes):
        raise ConfigurationError(f"input is text or bytes, not {type(given).__name__}: encode it first.")
    if priority not in set(Priority):
        raise ConfigurationError(f"priority is one of {', '.join(Priority)}, not {priority!r}.")
    if (priority == Priority.SCHEDULED) != (scheduled is not None):
        raise ConfigurationError("priority='scheduled' and scheduled=<UNIX time> belong together.")
    if isinstance(scheduled, datetime):
        if scheduled.tzinfo is None:
            raise ConfigurationError(f"scheduled={scheduled} has no time zone.")
        scheduled = scheduled.timestamp()
    if scheduled is not None and not 0 <= scheduled < 2**53:
        raise ConfigurationError(f"scheduled is a UNIX time in seconds, 0 or later, not {scheduled!r}.")
    encoded = given.encode(errors="surrogateescape") if isinstance(given, str) else given
    due = -1 if scheduled is None else int(scheduled * 1000)
    return [function, binary(encoded), str(priority), due, -1, bool(options & Option.ROLLCALL), False]


def _check_timeout(timeout: float) -> None:
    if not timeout >= 0:
        raise ConfigurationError(f"timeout is a number of seconds, 0 (for ever) or more, not {timeout!r}.")


def _run(request: list[Any], options: Option, timeout: float, on_timeout: str) -> Steps[int]:
    _check_timeout(timeout)

    def work() -> Stepwise[int]:
        number: int
        (number,) = yield _put([request])
        if options & Option.BLOCKING:
            try:
                job = yield from _waiting(request[0], number, timeout, alone=True)
            except JobTimeout:
                if on_timeout == "raise":
                    raise
                return number
            if job.status == Status.ERROR:
                raise JobError(job)
        return number

    return Steps(work)


def _run_many(
    function: str, inputs: Sequence[str | bytes], priority: str, options: Option, scheduled: float | datetime | None
) -> Script[list[int]]:
    if options & Option.BLOCKING:
        raise ConfigurationError("Several jobs are put, not waited for: leave OPT_BLOCKING out, and wait for each.")
    if isinstance(inputs, str | bytes):
        raise ConfigurationError("inputs is a list of inputs, one for each job.")
    return _put([_request(function, given, priority, options, scheduled) for given in inputs])


def _put(requests: list[list[Any]]) -> Script[list[int]]:
    return Script("put", (pack(requests),), lambda reply, _: [int(number) for number, _ in reply], repeatable=False)


def _get(function: str, number: int) -> Script[JobInfo | None]:
    # "HGETALLL job:{FN}:{ID}" is a slip of the document's pen.
    key = job_key(check_function(function), number)
    return command("HGETALL", key, read=lambda reply: _info(function, number, reply), reads=True)


def _info(function: str, number: int, reply: Any) -> JobInfo | None:
    job = records.fields(reply)
    if not job:
        return None
    # Text as it was written; bytes that are not UTF-8 survive as surrogates.
    text = {name: value.decode(errors="surrogateescape") for name, value in job.items()}
    told = text.get(b"status", ""), text.get(b"input", ""), text.get(b"output")
    return JobInfo(function, number, *told, *(records.progress(job) or ()))


def _wait(function: str, number: int, timeout: float) -> Steps[JobInfo]:
    _check_timeout(timeout)
    return Steps(lambda: _waiting(function, number, timeout))


def _waiting(function: str, number: int, timeout: float, *, alone: bool = False) -> Stepwise[JobInfo]:
    """The lock ends a slice at once; a look between slices finds what the lock cannot tell.

    It is there for one waiter, for ten seconds, and not at all if the worker died before its last step. `alone`: the
    job has just been put, nobody else can be waiting for it yet.
    """
    end = time.monotonic() + timeout if timeout else inf
    look, lock = _get(function, number), lock_key(function, number)
    if not alone:
        job: JobInfo | None = yield look
        if job is None or job.finished:
            return _found(function, number, job)
    while True:
        seconds = f"{min(SLICE, max(end - time.monotonic(), 0.01)):.3f}"
        unlock = command("BRPOP", lock, seconds, read=lambda reply: reply is not None, repeatable=True)
        unlocked, job = yield both(unlock, look)
        if unlocked and not alone:
            # Somebody else may be waiting for the same job: the lock is left as it was found.
            yield Script("unlock", (lock.encode(), b"%d" % KEEP_LOCK), lambda reply, _: reply)
        if job is None or job.finished:
            return _found(function, number, job)
        if time.monotonic() >= end:
            raise JobTimeout(function, number, timeout)


def _found(function: str, number: int, job: JobInfo | None) -> JobInfo:
    if job is None:
        raise JobNotFound(f"{function}:{number}")
    return job
