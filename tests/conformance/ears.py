"""The model's ears."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence


class Ear:
    """News and pokes are told apart: arming forgets old news, but never a poke."""

    def __init__(self, ears: list[Ear], *, session: str = "", queues: Sequence[str] = (), job: str = "") -> None:
        self.session, self.queues, self.job = session, tuple(queues), job
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

    def wait(self, timeout: float | None) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.news or self.poked, timeout)
            self.news = self.poked = False

    async def wait_async(self, timeout: float | None) -> None:
        await asyncio.to_thread(self.wait, timeout)

    def close(self) -> None:
        self.ears.remove(self)


class NoGuard:
    descriptors: tuple[int, ...] = ()

    def close(self) -> None:
        pass
