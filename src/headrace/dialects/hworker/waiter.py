"""Waits for entries of the lists, without polling and without taking anything.

`BLMOVE jobs jobs RIGHT RIGHT` blocks until the list has an entry and then moves its last entry to where it is. The list
is as before, whoever pushed, with whatever client, and a crash at any moment loses nothing. The take stays one script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from redis import exceptions as wire

from headrace.dialects.base import BlockingWaiter
from headrace.dialects.hworker.driver import HworkerDriver
from headrace.errors import HeadraceError
from headrace.store.redis.connections import pack
from headrace.store.redis.troubles import BROKEN, Replica
from headrace.store.wakeup import readable

BLOCK_SECONDS = 15
"""How long a wait lasts on the server; asked again after that. An answer that takes much longer will not come."""
LONGEST_PAUSE = 0.1
"""Without a connection, or where the server will not block: a pause that grows to this many seconds, then a look."""


class _Line:
    """A connection that waits for one list."""

    def __init__(self, jobs: str) -> None:
        self.command = pack(b"BLMOVE", jobs.encode(), jobs.encode(), b"RIGHT", b"RIGHT", b"%d" % BLOCK_SECONDS)
        self.connection: Any = None
        self.asked: float | None = None
        """Since when an answer is outstanding."""

    def heard(self, driver: HworkerDriver) -> bool:
        """Ask, once per answer: is there an entry? Raises if the connection broke, or the server refuses to block."""
        if self.connection is None:
            self.connection = driver.opener.open()
        if self.asked is None:
            self.connection.send_packed_command([self.command], check_health=False)
            self.asked = time.monotonic()
        if not self.connection.can_read(0):
            if time.monotonic() - self.asked > 2 * BLOCK_SECONDS:
                raise wire.TimeoutError("no answer")
            return False
        answer = self.connection.read_response()
        self.asked = None
        return answer is not None or self.heard(driver)  # the server's wait is over: ask again, or nothing is heard

    def hang_up(self) -> None:
        self.asked = None
        if self.connection is not None:
            self.connection.disconnect()
            self.connection = None


class ListWaiter(BlockingWaiter):
    """A waiter: news when one of the lists has an entry, while there is room for it.

    What counts is the state of the list, not an event: nothing that comes before `wait` can be missed. But it is told
    once: who has heard of an entry and does not look for it (`arm` says that it will) is not told again.

    `has_room` says whether the last take left room (None: nothing was taken yet); without room a list that is not empty
    is no news.
    """

    def __init__(self, driver: HworkerDriver, names: Iterable[str], has_room: Callable[[], bool | None]) -> None:
        super().__init__()
        self._driver = driver
        self._has_room = has_room
        self._lines = [_Line(driver.keys.of(name)[0]) for name in names]
        self._pause = 0.0
        self._look_at: float | None = None
        self._armed = True

    def arm(self) -> None:
        self._armed = True

    def close(self) -> None:
        self._hang_up()
        super().close()

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            listening = self._armed and self._has_room() is not False
            poked = self._pokes.taken()
            if listening and self._news():
                self._armed = False
                return True
            if poked:
                return False
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return False
            look_at = self._look_at if listening else None
            ends = [end for end in (deadline, look_at, now + BLOCK_SECONDS) if end is not None]
            readable([self._pokes.reader, *(self._descriptors() if listening else [])], max(min(ends) - now, 0.0))

    def _news(self) -> bool:
        """Listen, and say whether there is something to hear; now and then yes, where nothing can be heard."""
        if self._look_at is not None:
            if time.monotonic() < self._look_at:
                return False
            self._look_at = None
            return True
        try:
            # All are read: an answer that stays unread would be old news next time.
            heard = sum(line.heard(self._driver) for line in self._lines) > 0
        except (*BROKEN, wire.ResponseError, Replica, HeadraceError):
            self._hang_up()
            self._pause = min(max(2 * self._pause, 0.01), LONGEST_PAUSE)
            self._look_at = time.monotonic() + self._pause
            return False
        self._pause = 0.0
        return heard

    def _hang_up(self) -> None:
        for line in self._lines:
            line.hang_up()

    def _descriptors(self) -> list[int]:
        lines = [line for line in self._lines if line.asked is not None]
        return [line.connection._sock.fileno() for line in lines]  # redis-py has no other way to it
