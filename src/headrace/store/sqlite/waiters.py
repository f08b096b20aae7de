"""Waiters that need no map of sleepers: on a database in memory, and where the map cannot be had."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue

from headrace.store import forks
from headrace.store.sqlite import guard
from headrace.store.sqlite.database import Connection
from headrace.store.sqlite.opening import number


class ChangeCounter:
    """How often others have changed the file, as seen by one connection."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection = connect()
        self._process = os.getpid()
        self._before = 0

    def __call__(self) -> tuple[int, int]:
        if self._process != os.getpid():
            forks.abandoned.append(self._connection)
            self._process, self._connection = os.getpid(), self._connect()
        elif self._connection.hold is None or self._connection.hold.gone:
            self._connection.close()
            self._connection = self._connect()
            self._before += 1
        me = guard.enter()
        try:
            return self._before, number(self._connection, "PRAGMA data_version")
        finally:
            guard.leave(me)

    def close(self) -> None:
        if self._process == os.getpid():
            self._connection.close()


class PollingWaiter:
    """A waiter where no socket can be had: looks at the file's change counter, at growing intervals."""

    SHORTEST, LONGEST = 0.001, 0.05

    def __init__(self, change_counter: ChangeCounter) -> None:
        self._change_counter = change_counter
        self._seen = change_counter()
        self._pokes: SimpleQueue[None] = SimpleQueue()  # the waiting thread's own signal handler can't set an Event

    def arm(self) -> None:
        self._seen = self._change_counter()

    def wait(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            with suppress(Empty):
                self._pokes.get(timeout=pause)
                break
        return self._is_news()

    async def wait_async(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            if not self._pokes.empty():
                break
            await asyncio.sleep(pause)
        return self._is_news()

    def _is_news(self) -> bool:
        with suppress(Empty):
            while True:
                self._pokes.get_nowait()
        before, self._seen = self._seen, self._change_counter()
        return self._seen != before

    def _pauses(self, timeout: float | None) -> Iterable[float]:
        end = None if timeout is None else time.monotonic() + timeout
        pause = self.SHORTEST
        while self._change_counter() == self._seen:
            left = self.LONGEST if end is None else end - time.monotonic()
            if left <= 0:
                return
            yield min(pause, left)
            pause = min(pause * 1.5, self.LONGEST)

    def poke(self) -> None:
        self._pokes.put(None)

    def close(self) -> None:
        self._change_counter.close()


class ThreadWaiter:
    """A waiter on an in-memory database: all are in this process, and every change wakes all of them."""

    def __init__(self, waiters: set[ThreadWaiter]) -> None:
        self._waiters = waiters
        self._stirred = threading.Event()
        self._poked = False
        self._woken = False
        waiters.add(self)

    def arm(self) -> None:
        self._woken = False
        if not self._poked:
            self._stirred.clear()

    def wait(self, timeout: float | None) -> bool:
        self._stirred.wait(timeout)
        self._stirred.clear()  # first: a wake-up that comes after it ends the next wait
        woken, self._woken = self._woken, False
        self._poked = False
        return woken

    async def wait_async(self, timeout: float | None) -> bool:
        return await asyncio.to_thread(self.wait, timeout)

    def wake(self) -> None:
        self._woken = True
        self._stirred.set()

    def poke(self) -> None:
        self._poked = True
        self._stirred.set()

    def close(self) -> None:
        self._waiters.discard(self)


class LocalTimes:
    """What one process knows where no map is shared: times on the steady clock."""

    def __init__(self) -> None:
        self.listened_until = 0
        self.swept = 0
