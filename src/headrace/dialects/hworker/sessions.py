"""What worker sessions of this process hold: the wire knows no owner, so this is the only place where it is known."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.dialects.hworker.requests import Record
from headrace.errors import SessionGone, StaleRequest
from headrace.records import ExchangeReply, Ref, SessionInfo, SessionSnapshot, Token

if TYPE_CHECKING:
    from headrace.worker.custody import Custody

REMEMBERED = 10_000
"""Settled hand-outs that are remembered, so that an outcome that comes twice is told from one that comes too late."""

LONGEST_ID = 200


class Resting(NamedTuple):
    """A job that is to be retried later: in progress until then, as the wire knows no delays."""

    due: int
    """Milliseconds on the server's clock."""
    record: Record
    id: str
    ref: Ref


class Session:
    """One session: the records that it holds, by ref; what it settled; its last answer."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.info: SessionInfo | None = None
        self.opened = 0
        self.held: dict[Ref, Record] = {}
        self.ids: dict[Ref, str] = {}
        self.resting: list[Resting] = []
        self.keep_at = 0
        """When what rests must be kept alive again: milliseconds on the server's clock."""
        self.has_room: bool | None = None
        """Whether the last take left room; None: there was none yet."""
        self.turn: ExchangeReply | None = None
        self.number = 0
        self.asked = 0
        """The last request that was sent, answered or not."""
        self.refreshed = 0.0
        """When what it holds was last kept alive, on this machine's monotonic clock."""
        self.custody: Custody | None = None
        self._settled: OrderedDict[Ref, Token] = OrderedDict()
        self._ids_in_use: set[str] = set()

    def hold(self, ref: Ref, record: Record, wire_id: str) -> str:
        """Remember a hand-out. Answers with an id that no other job in hand has, whatever producers wrote."""
        job_id = wire_id
        if not wire_id or len(wire_id) > LONGEST_ID or not wire_id.isprintable():
            job_id = blake2b(record.raw, digest_size=16).hexdigest()
        if job_id in self._ids_in_use:
            job_id = f"{job_id}#{ref}"
        self._ids_in_use.add(job_id)
        self.held[ref] = record
        self.ids[ref] = job_id
        return job_id

    def write_down(self) -> None:
        """For the supervisor, should this process die: all that is in progress here, and whether it rests."""
        if self.custody is not None:
            held = {ref: (*record, self.ids[ref], False) for ref, record in self.held.items()}
            resting = {job.ref: (*job.record, job.id, True) for job in self.resting}
            self.custody.keep({**resting, **held})

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        """What a process that died had written down."""
        for ref, (name, raw, value, job_id, rests) in held.items():
            record = Record(name, raw, value)
            if rests:
                self.resting.append(Resting(0, record, job_id, ref))
            else:
                self.held[ref], self.ids[ref] = record, job_id

    def settle(self, ref: Ref) -> None:
        """It is no longer in hand: an outcome that comes again has been recorded already."""
        record = self.held.pop(ref)
        self._ids_in_use.discard(self.ids.pop(ref))
        self._settled[ref] = record.value.decode()
        if len(self._settled) > REMEMBERED:
            self._settled.popitem(last=False)

    def lose(self, refs: Iterable[Ref]) -> None:
        """Somebody else has these now."""
        for ref in refs:
            if self.held.pop(ref, None) is not None:
                self._ids_in_use.discard(self.ids.pop(ref))

    def has_settled(self, ref: Ref, token: Token) -> bool:
        return self._settled.get(ref) == token

    def repeats(self, number: int) -> bool:
        """Whether this request has been answered before. Raises if a later one has."""
        if number < self.number:
            raise StaleRequest(f"Request {number} of session {self.id} comes after request {self.number}.")
        return number == self.number

    def due(self, now: int) -> list[Resting]:
        """Resting jobs whose time has come."""
        return [job for job in self.resting if job.due <= now]

    def snapshot(self, now: int) -> SessionSnapshot:
        info = self.info or SessionInfo(id=self.id, name=self.id)
        return SessionSnapshot(info=info, opened=self.opened, seen=now, running=len(self.held), alive=True)


class Sessions:
    """All sessions that this process has seen."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}
        self._closed: set[str] = set()
        self._refs = itertools.count(1)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._open.values()))

    def new_ref(self) -> int:
        """Never used twice in this process."""
        return next(self._refs)

    def find(self, session_id: str) -> Session:
        """Any name will do but that of a closed one: a worker process uses a session that its supervisor opened."""
        if session_id in self._closed:
            raise SessionGone(f"Session {session_id} is closed.")
        return self._open.setdefault(session_id, Session(session_id))

    def close(self, session_id: str) -> None:
        self._open.pop(session_id, None)
        self._closed.add(session_id)

    def peek(self, session_id: str) -> Session | None:
        return self._open.get(session_id)
