"""What the sessions of this process hold. The server knows of no sessions: a lease is a score, which is its token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from headrace.dialects import lease_book
from headrace.records import ExchangeReply, Lease, Ref
from headrace.schedule import Calendar

from .payload import member_of

LONGEST_REF = 56


class Fence(NamedTuple):
    """By what a lease can be given back, by this process or by its supervisor."""

    member: bytes
    id: str
    token: int
    due: int
    later: int | None = None
    """The token that it has if the renewal under way arrived."""


class Hold(Struct):
    """A lease in hand."""

    ref: Ref
    id: str
    member: bytes
    token: int
    due: int
    """The score before the claim."""
    cron: Calendar
    attempts: int = 0
    crashes: int = 0
    max_crashes: int = 3
    absent_since: int | None = None
    """Since when (on the steady clock) the entry could not be found at its settling."""


class Session(lease_book.Session[Hold]):
    """One session of this process."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.next_due: int | None = None
        """What the session was last told about when to come back."""
        self.begun: list[Lease] = []
        """Leases of an exchange that is not answered yet: it takes more than one call, and the last one failed."""
        self.returns: list[Fence] = []
        """Claims that are to be undone with the next call."""
        self.later: int | None = None
        """The token that the renewal under way asks for."""
        self._inherited: dict[Ref, Fence] = {}

    def reply(self, number: int, reply: ExchangeReply | None) -> None:
        super().reply(number, reply)
        self.begun = []

    def fences(self) -> dict[Ref, Fence]:
        held = {hold.ref: Fence(hold.member, hold.id, hold.token, hold.due, self.later) for hold in self.held.values()}
        undone: dict[Ref, Fence] = {reference(fence.member, fence.id): fence for fence in self.returns}
        return {**self._inherited, **undone, **held}

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        self._inherited = {ref: Fence(*fence) for ref, fence in held.items()}


def reference(member: bytes, identity: str) -> str:
    """How the worker calls a lease: the id, unless its entry has a spelling of its own: there may be another one."""
    if member == member_of(identity) and len(identity.encode()) <= LONGEST_REF:
        return identity
    return hashlib.sha1(member, usedforsecurity=False).hexdigest()
