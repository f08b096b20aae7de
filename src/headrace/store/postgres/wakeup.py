"""Waiters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from headrace.store.contract import Waiter
from headrace.store.wakeup import Pokes, areadable, readable


class PollingWaiter:
    """Looks at growing intervals."""

    SHORTEST, LONGEST = 0.005, 0.25

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._pokes = Pokes()

    def arm(self) -> None:
        """Each wait looks by itself."""

    def wait(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            if self._look():
                return True
            readable([self._pokes.reader], pause)
            if self._pokes.taken():
                return False
        return False

    async def wait_async(self, timeout: float | None) -> bool:
        for pause in self._pauses(timeout):
            if await asyncio.to_thread(self._look):
                return True
            await areadable([self._pokes.reader], pause)
            if self._pokes.taken():
                return False
        return False

    def _pauses(self, timeout: float | None) -> Iterator[float]:
        end = None if timeout is None else time.monotonic() + timeout
        pause = self.SHORTEST
        while True:
            left = self.LONGEST if end is None else end - time.monotonic()
            if left <= 0:
                return
            yield min(pause, left)
            pause = min(pause * 1.5, self.LONGEST)

    def poke(self) -> None:
        self._pokes.poke()

    def close(self) -> None:
        self._pokes.close()


class Wakeups:
    """Makes the waiters of one store."""

    def waiter(self, look: Callable[[], bool]) -> Waiter:
        return PollingWaiter(look)
