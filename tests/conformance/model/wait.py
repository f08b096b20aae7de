"""Waiters: what ends the wait of workers and clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence


class ModelWaiter:
    """News and pokes are told apart: arming forgets old news, but never a poke."""

    def __init__(
        self,
        ears: list[ModelWaiter],
        *,
        session: str = "",
        queues: Sequence[str] = (),
        job: str = "",
        events: bool = False,
    ) -> None:
        self.session, self.queues, self.job, self.events = session, tuple(queues), job, events
        self.changed = threading.Condition()
        self.news = self.poked = False
        self.ears = ears
        ears.append(self)

    def hear(self) -> None:
        with self.changed:
            self.news = True
            self.changed.notify_all()

    def poke(self) -> None:
        with self.changed:
            self.poked = True
            self.changed.notify_all()

    def arm(self) -> None:
        self.news = False

    def wait(self, timeout: float | None) -> bool:
        with self.changed:
            self.changed.wait_for(lambda: self.news or self.poked, timeout)
            news, self.news, self.poked = self.news, False, False
            return news

    async def wait_async(self, timeout: float | None) -> bool:
        return await asyncio.to_thread(self.wait, timeout)

    def close(self) -> None:
        if self in self.ears:
            self.ears.remove(self)
