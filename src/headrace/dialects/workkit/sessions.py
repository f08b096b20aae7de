"""What the sessions of this process hold. The server knows of no sessions: a lease is a score, which is its token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from headrace.errors import SessionGone, StaleRequest
from headrace.records import ExchangeReply, Lease, Ref, SessionInfo
from headrace.schedule import Calendar

from .payload import member_of
from .wire import Settlement

if TYPE_CHECKING:
    from headrace.worker.custody import Custody

REMEMBERED = 10_000
"""How many settled leases a session remembers, to tell an outcome that comes twice from one that comes late."""
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


class Session:
    """One session of this process."""

    def __init__(self, info: SessionInfo, opened: int) -> None:
        self.info = info
        self.opened = opened
        self.seen = opened
        self.held: dict[Ref, Hold] = {}
        self.has_room: bool | None = None
        self.next_due: int | None = None
        """What the session was last told about when to come back."""
        self.begun: list[Lease] = []
        """Leases of an exchange that is not answered yet: it takes more than one call, and the last one failed."""
        self.returns: list[Settlement] = []
        """Claims that are to be undone with the next call."""
        self.inherited: dict[Ref, Fence] = {}
        """What a process that died held in this session."""
        self.custody: Custody | None = None
        self._settled: dict[Ref, int] = {}
        self._number = 0
        self._turn: ExchangeReply | None = None
        self._sent = 0

    def answered(self, number: int) -> ExchangeReply | None:
        """The turn that this number was answered with, if it was."""
        if number == self._number:
            return self._turn
        if number < self._number:
            raise StaleRequest(f"Request {number} of session {self.info.id} came after request {self._number}.")
        return None

    def sends(self, number: int) -> bool:
        """A request sets out. True if it has done so before: it may have arrived."""
        again = self._sent == number
        self._sent = number
        return again

    def answer(self, number: int, turn: ExchangeReply | None) -> None:
        """Remember an answer. (None: a report, whose number only counts.)"""
        self._number = number
        self._turn = turn
        self.begun = []

    def fences(self, later: int | None = None) -> dict[Ref, Fence]:
        """By what everything can be given back that the session holds; `later`: the token that a renewal asks for."""
        held = {hold.ref: Fence(hold.member, hold.id, hold.token, hold.due, later) for hold in self.held.values()}
        undone: dict[Ref, Fence] = {
            reference(one.member, one.id): Fence(one.member, one.id, one.token, one.target)
            for one in self.returns
            if one.target is not None
        }
        return {**self.inherited, **undone, **held}

    def write_down(self, later: int | None = None) -> None:
        """For the supervisor, should this process die."""
        if self.custody is not None:
            self.custody.keep(self.fences(later))

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        self.inherited = {ref: Fence(*fence) for ref, fence in held.items()}

    def settle(self, hold: Hold) -> None:
        """A lease is no longer held, and its outcome is recorded."""
        self.held.pop(hold.ref, None)
        self._settled[hold.ref] = hold.token
        while len(self._settled) > REMEMBERED:
            del self._settled[next(iter(self._settled))]

    def forget(self, ref: Ref) -> None:
        """The job was handed out again: what was settled before is no longer the last word."""
        self._settled.pop(ref, None)

    def has_settled(self, ref: Ref, token: object) -> bool:
        return self._settled.get(ref) == token


class Sessions:
    """The sessions of this process, by id. One that another process opened for us appears when it is first used."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}
        self._closed: set[str] = set()

    def open(self, info: SessionInfo, now: int) -> None:
        self._check(info.id)
        self._open.setdefault(info.id, Session(info, now))

    def get(self, session: str, now: int = 0) -> Session:
        """Raises `SessionGone` for a closed one."""
        self._check(session)
        if session not in self._open:
            self._open[session] = Session(SessionInfo(id=session, name=session), now)
        return self._open[session]

    def find(self, session: str) -> Session | None:
        return self._open.get(session)

    def close(self, session: str) -> None:
        self._open.pop(session, None)
        self._closed.add(session)

    def all(self) -> list[Session]:
        return list(self._open.values())

    def _check(self, session: str) -> None:
        if session in self._closed:
            raise SessionGone(f"Session {session} is closed.")


def reference(member: bytes, identity: str) -> str:
    """How the worker calls a lease: the id, unless its entry has a spelling of its own: there may be another one."""
    if member == member_of(identity) and len(identity.encode()) <= LONGEST_REF:
        return identity
    return hashlib.sha1(member, usedforsecurity=False).hexdigest()
