"""When to try again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from headrace.errors import ConfigurationError
from headrace.values.durations import Duration, seconds


class Backoff(Struct, frozen=True):
    """Waits that grow with every attempt, up to a limit, each shortened at random so that a crowd spreads out.

    `first` and `limit` are durations as everywhere: seconds, timedeltas, words; kept as seconds. `jitter=0.5` means:
    between half of the wait and all of it.

    >>> Backoff(first=2, factor=3, limit="1 minute", jitter=0).delay(3)
    18.0
    """

    first: Duration = 1.0
    factor: float = 2.0
    limit: Duration = 3600.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        force_setattr(self, "first", seconds(self.first, "Backoff(first)"))
        force_setattr(self, "limit", seconds(self.limit, "Backoff(limit)"))
        if not _is_number(self.factor) or not 1 <= self.factor < math.inf:
            raise ConfigurationError(f"Backoff(factor) is a number of at least 1, not {self.factor!r}.")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise ConfigurationError(f"Backoff(jitter) is a number from 0 to 1, not {self.jitter!r}.")

    def delay(self, attempt: int, draw: Callable[[], float] = random.random) -> float:
        """How long to wait after this attempt (the first is 1), in seconds."""
        first, limit = cast("float", self.first), cast("float", self.limit)
        try:
            wait = min(limit, first * float(self.factor) ** (attempt - 1))
        except OverflowError:
            wait = limit if first else 0.0
        return wait * (1.0 - self.jitter * draw())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
