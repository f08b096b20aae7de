"""Age of the oldest ready job of each queue: the figure by which workers are scaled."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from headrace.store.contract import Operation

LEVELS = 50
"""How many of the highest priorities, and of the lowest, are looked at in the line of a queue."""


class Oldest(Struct, frozen=True):
    """When the oldest ready job of each queue was due, at one moment of the store's clock."""

    now: int
    due: dict[str, int]
    """Queues that have no ready job are left out."""

    def age(self, queue: str) -> float | None:
        """Seconds since the oldest ready job of a queue was due. None: no job is ready there.

        >>> Oldest(5_000, {"mail": 3_500}).age("mail")
        1.5
        """
        due = self.due.get(queue)
        return None if due is None else max(0, self.now - due) / 1_000


class Aging(Protocol):
    """A store that knows how long ready jobs have waited."""

    def oldest(self) -> Operation[Oldest]:
        """When the oldest ready job of each queue was due. Its cost does not grow with the number of jobs."""
