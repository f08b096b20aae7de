"""The events of the protocol's channels: `create:ID`, `start:ID`, `finish:ID`."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from math import inf
from typing import NamedTuple

from headrace.dialects.gearmonkey.protocol import channel
from headrace.dialects.subscription import Subscription
from headrace.errors import ConfigurationError, StoreReadOnly, StoreUnavailable
from headrace.store.redis.driver import Driver
from headrace.store.redis.troubles import BROKEN
from headrace.store.wakeup import areadable, readable

PAUSES = (0.0, 0.05, 0.2, 1.0)
"""Seconds before the first and the following attempts to connect again."""


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
            readable(self.descriptors, None if left == inf else left)
        return self._events.popleft()

    async def anext(self, timeout: float | None) -> Event | None:
        """The same on an event loop."""
        end = inf if timeout is None else time.monotonic() + timeout
        while not await asyncio.to_thread(self._read):
            if (left := end - time.monotonic()) <= 0:
                return None
            await areadable(self.descriptors, None if left == inf else left)
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
