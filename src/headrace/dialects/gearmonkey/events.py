"""The events of the protocol's channels: `create:ID`, `start:ID`, `finish:ID`."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, NamedTuple

from headrace.dialects.gearmonkey.protocol import channel
from headrace.errors import ConfigurationError
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.troubles import BROKEN, Replica
from headrace.store.wakeup import readable

PAUSES = (0.0, 0.05, 0.2, 1.0)
"""Seconds before the first and the following attempts to connect again."""


class Happening(NamedTuple):
    """Something that happened to a job: `create`, `start` or `finish`."""

    what: str
    function: str
    id: int


class Listener:
    """A subscription to the channels of some functions. One that breaks is made again;
    what was said meanwhile is lost.
    """

    def __init__(self, driver: Driver, functions: tuple[str, ...]) -> None:
        if not functions:
            raise ConfigurationError("Name at least one function to listen to.")
        self._driver = driver
        self._functions = {channel(function).encode(): function for function in functions}
        self._connection: Any = None
        self._heard: deque[Happening] = deque()

    def connect(self) -> None:
        """Subscribe. Raises what is wrong if that can't be done."""
        for attempt, pause in enumerate(PAUSES):
            time.sleep(pause)
            try:
                self._subscribe()
            except (*BROKEN, Replica) as error:
                if attempt == len(PAUSES) - 1:
                    raise self._driver.diagnose(error).error from error
            else:
                return

    def _subscribe(self) -> None:
        connection = self._driver.opener.open()
        try:
            connection.send_packed_command([pack(b"SUBSCRIBE", *self._functions)], check_health=False)
            for _ in self._functions:
                connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        self._connection = connection

    async def aconnect(self) -> None:
        await asyncio.to_thread(self.connect)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def next(self, timeout: float | None) -> Happening | None:
        """The next event; None if there was none in time."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._read():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            readable([self._descriptor], left)
        return self._heard.popleft()

    async def anext(self, timeout: float | None) -> Happening | None:
        """The same on an event loop."""
        end = None if timeout is None else time.monotonic() + timeout
        while not await asyncio.to_thread(self._read):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            await self._stirred(left)
        return self._heard.popleft()

    async def _stirred(self, seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        stirred = asyncio.Event()
        descriptor = self._descriptor
        loop.add_reader(descriptor, stirred.set)
        try:
            async with asyncio.timeout(seconds):
                await stirred.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(descriptor)

    @property
    def _descriptor(self) -> int:
        return int(self._connection._sock.fileno())  # redis-py has no other way to it

    def _read(self) -> bool:
        """Whether there is an event, after reading all that has come."""
        try:
            while self._connection.can_read(0):
                self._note(self._connection.read_response())
        except BROKEN:
            self.close()
            self.connect()
        return bool(self._heard)

    def _note(self, answer: Any) -> None:
        if answer[0] != b"message":
            return
        what, _, number = answer[2].decode(errors="replace").partition(":")
        if what in ("create", "start", "finish") and number.isdecimal():
            self._heard.append(Happening(what, self._functions[answer[1]], int(number)))
