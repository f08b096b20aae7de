"""Time, so that tests can bring their own."""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """What a store or a worker knows about time. Milliseconds, always."""

    def now(self) -> int:
        """Wall-clock time since 1970. May jump."""

    def steady(self) -> int:
        """Time that passes evenly, through suspension too, and never jumps."""


if hasattr(time, "CLOCK_BOOTTIME"):
    _steady_ns = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
else:  # macOS: its monotonic clock is the closest there is
    _steady_ns = partial(time.monotonic_ns)


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def steady(self) -> int:
        return _steady_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to.

    >>> clock = ManualClock(now=1_000)
    >>> clock.advance(500)
    >>> clock.now(), clock.steady()
    (1500, 500)
    >>> clock.jump(-1_000)
    >>> clock.now(), clock.steady()
    (500, 500)
    """

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now
        self._steady = 0

    def now(self) -> int:
        return self._now

    def steady(self) -> int:
        return self._steady

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._now += milliseconds
        self._steady += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._now += milliseconds
