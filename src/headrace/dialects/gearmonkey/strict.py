"""A worker that sends the published commands and no other: for those who must see exactly these in MONITOR.

A worker of this kind that dies with a job has lost it, as the document has it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from redis.exceptions import NoScriptError

from headrace.dialects.gearmonkey.driver import GearMonkeyDriver, command
from headrace.dialects.gearmonkey.protocol import (
    KEEP_JOB,
    KEEP_LOCK,
    TAKE_DUE_SHA,
    Status,
    channel,
    decimal,
    function_of,
    job_key,
    lock_key,
    output_of,
    queue_key,
)
from headrace.errors import MaybeApplied, StoreError, StoreUnavailable
from headrace.values.codec import describe_error
from headrace.worker.copies import without_copies

log = logging.getLogger("headrace.gearmonkey")


class StrictLoop:
    """The document's worker, line by line."""

    def __init__(
        self, driver: GearMonkeyDriver, works: Mapping[str, Callable[[str], Any]], stopped: threading.Event
    ) -> None:
        self._driver = driver
        self._works = works
        self._stopped = stopped
        self.job: tuple[str, str] | None = None

    def poke(self) -> None:
        """It looks up once a second by itself: "BRPOP … 1"."""

    def run(self, *, burst: bool) -> None:
        # "On worker start: SCRIPT LOAD … INCR count:{FN}"
        self._driver.load_take_due()
        for function in self._works:
            self._send("INCR", f"count:{function}")
        try:
            while not self._stopped.is_set():
                try:
                    found = self._next()
                    if found is None and burst:
                        return
                    if found is not None:
                        self._perform(*found)
                except (StoreUnavailable, MaybeApplied) as error:
                    log.warning("%s Trying again.", error)
                    self._stopped.wait(0.2)
        finally:
            # "On worker exit: DECR count:{FN}"
            for function in self._works:
                try:
                    self._send("DECR", f"count:{function}")
                except StoreError as error:
                    log.warning("%s", error)

    def _next(self) -> tuple[str, str] | None:
        """A due scheduled job; only if there is none, the next of the lists."""
        for function in self._works:
            if (pair := self._take_due(function)) is not None:
                return function, pair[1].decode()
        keys = [queue_key(function, level) for level in ("high", "normal", "low") for function in self._works]
        popped = self._send("BRPOP", *keys, "1")
        if popped is None:
            return None
        return function_of(popped[0].decode()), popped[1].decode()

    def _take_due(self, function: str) -> Any:
        words = ("EVALSHA", TAKE_DUE_SHA, "1", queue_key(function, "scheduled"), str(int(time.time())))
        try:
            return self._send(*words)
        except StoreError as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        self._driver.load_take_due()  # the server was restarted, or somebody flushed its scripts
        return self._send(*words)

    def update(self, dividend: float, divisor: float) -> None:
        assert self.job is not None
        self._send(
            "HMSET", job_key(*self.job), "status:dividend", decimal(dividend), "status:divisor", decimal(divisor),
            repeatable=True,
        )  # fmt: skip

    def _perform(self, function: str, number: str) -> None:
        job = job_key(function, number)
        # The document leaves this read implicit. A job that is gone is dropped, not made again without an input.
        given = self._send("HGET", job, "input", reads=True)
        if given is None:
            log.warning("job %s:%s has gone: its number is dropped", function, number)
            return
        # "Publish a 'start' event", "Update the job status"
        self._send("PUBLISH", channel(function), f"start:{number}", repeatable=True)
        self._send("HMSET", job, "status", Status.BUSY, repeatable=True)
        self.job = function, number
        try:
            with without_copies(f"{function}:{number}"):
                output = output_of(self._works[function](given.decode(errors="surrogateescape")))
            status = Status.SUCCESS
        except Exception as error:
            log.warning("job %s:%s: %s: %s", function, number, type(error).__name__, error)
            status, told = Status.ERROR, describe_error(error)
            output = (told.message or told.type).encode()
        finally:
            self.job = None
        # "On completing a job", in the document's order
        lock = lock_key(function, number)
        self._send("HMSET", job, "status", status, "output", output, repeatable=True)
        self._send("EXPIRE", job, str(KEEP_JOB), repeatable=True)
        self._send("PUBLISH", channel(function), f"finish:{number}", repeatable=True)
        self._send("LPUSH", lock, "OK", repeatable=True)
        self._send("EXPIRE", lock, str(KEEP_LOCK), repeatable=True)

    def _send(self, *words: str | bytes, reads: bool = False, repeatable: bool = False) -> Any:
        return self._driver.run(command(*words, read=lambda reply: reply, reads=reads, repeatable=repeatable))
