"""What operators have done, in stores that keep a trail of it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from msgspec import Struct

from headrace.store.contract import Operation


class Act(Struct, frozen=True):
    """Something that an operator has done."""

    number: str
    """Grows with every act; `before=` takes it."""
    at: int
    who: str
    what: str
    about: str
    """The jobs, the queue, the schedule or the setting."""


@runtime_checkable
class Auditing(Protocol):
    """The trail: the last `limits.ACTS_KEPT` acts, of the last `limits.ACTS_KEPT_FOR` milliseconds."""

    def note(self, who: str, what: str, about: str) -> Operation[None]:
        """Write down an act."""

    def audit(self, limit: int = 50, before: str | None = None) -> Operation[list[Act]]:
        """The newest acts, the newest first; `before`: those before the one with this number."""
