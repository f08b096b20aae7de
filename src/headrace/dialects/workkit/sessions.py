"""What the sessions of this process hold. The server knows of no sessions: a lease is a score, which is its token."""

from __future__ import annotations

from msgspec import Struct

from headrace.errors import SessionGone, StaleRequest
from headrace.job import Lease, Ref, SessionInfo, Turn
from headrace.schedule import Calendar

from .wire import Settlement

REMEMBERED = 10_000
"""How many settled leases a session remembers, to tell an outcome that comes twice from one that comes late."""
LONGEST_REF = 56


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
        self._settled: dict[Ref, int] = {}
        self._number = 0
        self._turn: Turn | None = None
        self._sent = 0

    def answered(self, number: int) -> Turn | None:
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

    def answer(self, number: int, turn: Turn | None) -> None:
        """Remember an answer. (None: a report, whose number only counts.)"""
        self._number = number
        self._turn = turn
        self.begun = []

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
