"""When to try again."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """Waits that grow with every attempt, up to a limit, each shortened at random so that a crowd spreads out.

    Seconds. `jitter=0.5` means: between half of the wait and all of it.

    >>> Backoff(first=2, factor=3, limit=60, jitter=0).delay(3)
    18.0
    """

    first: float = 1.0
    factor: float = 2.0
    limit: float = 3600.0
    jitter: float = 0.5

    def delay(self, attempt: int, draw: Callable[[], float] = random.random) -> float:
        """How long to wait after this attempt (the first is 1)."""
        # Past this exponent any factor has reached the limit; beyond it a float would overflow.
        wait = min(self.limit, self.first * self.factor ** min(attempt - 1, 60))
        return wait * (1.0 - self.jitter * draw())
