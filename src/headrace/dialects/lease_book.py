"""The leases that the sessions of this process hold, for wires that know no owner.

A `LeaseBook` has one `Session` for each session id. A dialect derives its own kind of session and adds what its wire
needs. The base keeps what all of them need: the leases in hand, the number and the reply of the last request, which
leases were settled lately, and the custody in which the supervisor finds what a process held when it died.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from headrace.errors import SessionGone, StaleRequest
from headrace.records import ExchangeReply, Outcome, Ref, SessionInfo, SessionSnapshot, Token, Verdict
from headrace.store.contract import Custody
from headrace.worker.custody import Crashes

log = logging.getLogger("headrace.dialects")

REMEMBERED = 10_000
"""Settled leases that a session remembers, to tell an outcome that comes twice from one that comes too late."""


class Hold(Protocol):
    """A lease in hand."""

    @property
    def id(self) -> str: ...

    @property
    def token(self) -> Token: ...


H = TypeVar("H", bound=Hold)
F = TypeVar("F")


class Session(Generic[H]):
    """One session of this process."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.info: SessionInfo | None = None
        """None: another process has opened it, and this one uses it."""
        self.opened = 0
        self.seen = 0
        """When the server answered last, on its clock."""
        self.held: dict[Ref, H] = {}
        self.has_room: bool | None = None
        """Whether the last take left slots free; None: there was no take yet."""
        self.custody: Custody | None = None
        self._settled: dict[Ref, Token] = {}
        self._number = 0
        self._reply: ExchangeReply | None = None
        self._sent = 0

    @property
    def name(self) -> str:
        return self.id if self.info is None else self.info.name

    def replied(self, number: int) -> ExchangeReply | None:
        """The reply that this number got before, if it got one. `StaleRequest` if a later number did."""
        if number < self._number:
            raise StaleRequest(f"Request {number} of session {self.id} came after request {self._number}.")
        return self._reply if number == self._number else None

    def sends(self, number: int) -> bool:
        """A request is about to be sent. True: it was sent before, and may have arrived."""
        again = self._sent == number
        self._sent = number
        return again

    def reply(self, number: int, reply: ExchangeReply | None) -> None:
        """Remember the reply to a request; None for a report, whose number only counts."""
        self._number, self._reply = number, reply

    def hold(self, ref: Ref, lease: H) -> None:
        self.held[ref] = lease
        self._settled.pop(ref, None)

    def settle(self, ref: Ref) -> None:
        """The outcome of a lease is recorded: another one for it comes too late."""
        self._settled[ref] = self.held.pop(ref).token
        if len(self._settled) > REMEMBERED:
            del self._settled[next(iter(self._settled))]

    def lose(self, ref: Ref) -> None:
        self.held.pop(ref, None)

    def forget(self, ref: Ref) -> None:
        """The job was handed out again: its last settle no longer counts."""
        self._settled.pop(ref, None)

    def judge(self, outcomes: Sequence[Outcome]) -> list[Verdict | None]:
        """The verdicts that need no server; None where the server decides."""
        verdicts: list[Verdict | None] = []
        named: set[Ref] = set()
        for outcome in outcomes:
            lease = self.held.get(outcome.ref)
            if lease is None or lease.token != outcome.token:
                settled = self._settled.get(outcome.ref) == outcome.token
                verdicts.append(Verdict.ALREADY if settled else Verdict.STALE)
            else:
                verdicts.append(Verdict.ALREADY if outcome.ref in named else None)
                named.add(outcome.ref)
        return verdicts

    def fences(self) -> Mapping[Ref, Sequence[Any]]:
        """By what everything in hand can be given back, for this process or its supervisor."""
        raise NotImplementedError

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        """Take over the fences of a process that died."""
        raise NotImplementedError

    def write_down(self) -> None:
        """Write the fences where the supervisor finds them, should this process die."""
        if self.custody is not None:
            self.custody.keep(self.fences())

    def snapshot(self) -> SessionSnapshot:
        info = self.info or SessionInfo(id=self.id, name=self.id)
        return SessionSnapshot(info=info, opened=self.opened, seen=self.seen, running=len(self.held), alive=True)


S = TypeVar("S", bound=Session[Any])


class LeaseBook(Generic[S]):
    """The sessions of this process, by id. One that another process opened appears when it is first used."""

    def __init__(self, make: Callable[[str], S]) -> None:
        self._make = make
        self._open: dict[str, S] = {}
        self._closed: set[str] = set()
        self._crashes = Crashes()

    def __iter__(self) -> Iterator[S]:
        return iter(tuple(self._open.values()))

    def get(self, session: str) -> S:
        """Raises `SessionGone` for a closed one."""
        if session in self._closed:
            raise SessionGone(f"Session {session} is closed.")
        if session not in self._open:
            self._open[session] = self._make(session)
        return self._open[session]

    def open(self, info: SessionInfo, now: int) -> bool:
        """Begin a session. False: it was open already, and nothing changes."""
        session = self.get(info.id)
        if session.info is not None:
            return False
        session.info, session.opened, session.seen = info, now, now
        return True

    def find(self, session: str) -> S | None:
        return self._open.get(session)

    def close(self, session: str) -> S | None:
        """End a session; returns what it was, so that its leases can be given back."""
        self._closed.add(session)
        return self._open.pop(session, None)

    def snapshots(self) -> list[SessionSnapshot]:
        return [session.snapshot() for session in self if session.info is not None]

    def without_culprits(self, held: dict[Ref, F], crashed: Sequence[Ref], name: Callable[[F], str]) -> dict[Ref, F]:
        """What may be given back at once: all but jobs that keep killing their processes (`Crashes`)."""
        returning = dict(held)
        for ref in crashed:
            if ref in returning and not self._crashes.goes_back(name(returning[ref])):
                log.error("job %s has killed its process again: it stays leased until its time is up", name(held[ref]))
                del returning[ref]
        return returning
