"""Tasks that are blocked for all workers of a store."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from headrace.store.contract import Operation


class Block(Struct, frozen=True):
    """A task that is blocked."""

    task: str
    reason: str
    by: str
    at: int
    jobs: int = 0
    """How many jobs wait because of it. Those that no worker has met in line yet are not among them."""


class Blocking(Protocol):
    """Keeping back the jobs of a task, in whatever queue they are."""

    def blocks(self) -> Operation[list[Block]]:
        """The tasks that are blocked, by name."""

    def block(self, task: str, reason: str = "", by: str = "") -> Operation[bool]:
        """Hand out no more jobs of a task. False: it was blocked already; reason and name are the new ones."""

    def unblock(self, task: str) -> Operation[bool]:
        """Let its jobs run again: those that were kept back are in line as they were. False: it was not blocked."""
