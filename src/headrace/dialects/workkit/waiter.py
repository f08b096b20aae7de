"""Wakes listeners: at once for what headrace inserts, and by a look about twice a second for what others do."""

from __future__ import annotations

from collections.abc import Callable

from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script
from headrace.store.redis.wakeup import RedisWaiter

LOOK_SECONDS = 0.65
"""Peers publish nothing. With what keeps a session alive this makes less than two commands a second."""


class ScheduleWaiter(RedisWaiter):
    """A subscription to the schedule's channel, and a look now and then.

    `look` describes the look anew each time: what can be run here may have changed.
    """

    def __init__(
        self,
        driver: Driver,
        channel: str,
        look: Callable[[], Script[tuple[bool, int]]],
        has_room: Callable[[], bool | None],
    ) -> None:
        super().__init__(driver, channel, look(), has_room)
        self._look = look

    def _ask_at(self) -> float | None:
        at = super()._ask_at()
        return None if at is None else min(at, self._asked + LOOK_SECONDS)

    def _ask(self, question: Script[tuple[bool, int]]) -> tuple[bool, int]:
        return super()._ask(self._look())
