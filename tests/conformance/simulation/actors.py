"""Who takes part in a random history, and what they remember."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.records import Lease, Outcome, SessionInfo


@dataclass(eq=False)
class Request:
    """Something to ask a store; `build(side, store)` describes it to one of the two."""

    name: str
    words: str
    build: Callable[[int, Any], Any]
    about: Any = None
    """What whoever hears the answer needs to know."""
    times_run: int = 0


@dataclass(eq=False)
class Held:
    """A lease as its worker remembers it: the store's and the model's, in this order."""

    leases: tuple[Lease, Lease]
    began: int
    started: bool
    run: tuple[str, int, Any]
    """Of which job, of how many that had this id, with which token."""

    @property
    def id(self) -> str:
        return self.leases[0].id

    def outcome(self, side: int, **fields: Any) -> Outcome:
        lease = self.leases[side]
        return Outcome(ref=lease.ref, token=lease.token, id=lease.id, **fields)

    def __str__(self) -> str:
        return f"{self.id}/{self.leases[0].token}"


@dataclass(eq=False)
class Worker:
    info: SessionInfo
    opened: bool = False
    number: int = 0
    held: list[Held] = field(default_factory=list)
    old: list[Held] = field(default_factory=list)
    """Leases it once had: what a zombie may still talk about."""
    pending: Request | None = None
    """Sent, and no reply seen: to be sent again until there is one."""
    frozen: bool = False
    was_frozen: bool = False
    dead: bool = False

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def settling(self) -> list[Held]:
        """Runs that have ended, but whose settling has not been answered."""
        exchange = self.pending if self.pending and self.pending.name == "exchange" else None
        return [held for held, _ in exchange.about[0]] if exchange else []
