"""Sessions: which workers there are, which are alive, and what becomes of the jobs of the dead ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from headrace.errors import SessionGone
from headrace.records import Ref, Renewal, SessionInfo, SessionSnapshot, Token, decode_session_info
from headrace.store.limits import MOST_STRAYS, UPDATES_TOLD
from headrace.store.sql.codes import ALL, CANCELLING, UPDATED
from headrace.store.sql.outcomes import Lease, take_away
from headrace.store.sql.transaction import Session, Transaction, find_session, is_silent, run_out
from headrace.values.glob import any_fits


def open_session(tx: Transaction, info: SessionInfo) -> int:
    known = tx.maybe_row(Session, "session_get", (info.id,))
    encoded = msgspec.json.encode(info)
    if known is None:
        tx.execute("session_open", (info.id, encoded, info.name, info.timeout, tx.now, tx.steady))
    elif known.closed is not None:
        raise SessionGone(f"Session {info.id} has been closed and cannot be opened again.")
    else:
        tx.execute("session_says", (info.id, encoded))
    return tx.now


Held = Sequence[tuple[Ref, Token, str]]


def renew_idle(tx: Transaction, session_id: str, held: Held, memory: int | None) -> Renewal | None:
    """Only leases need renewing: an idle worker writes nothing, but for a sign of life now and then, or if its process
    takes an eighth more or less than is known."""
    session = find_session(tx, session_id)
    if tx.rows("holds_any", (session.seq,)) or is_silent(tx, session):
        return None
    if memory is not None and (session.memory is None or abs(memory - session.memory) * 8 > session.memory):
        return None
    return Renewal(tx.now, [job_id for _, _, job_id in held], [], stop=session.stop is not None)


def renew(
    tx: Transaction, session_id: str, held: Held, started: Sequence[Ref], complete: int | None, memory: int | None
) -> Renewal:
    session = find_session(tx, session_id)
    tx.execute("session_renew", (session.seq, tx.steady, tx.now, memory))
    if started:
        mark_started(tx, session, started)
    lost: list[str] = []
    cancelled: list[str] = []
    holds = _held_some(tx, session, [ref for ref, _, _ in held])
    for ref, token, job_id in held:
        lease = holds.get(ref)
        if lease is None or lease.token != token:
            lost.append(job_id)
        elif lease.flags & CANCELLING:
            cancelled.append(job_id)
    strays = _strays(tx, session, held, complete)
    data = _updated(tx, held, holds, lost)
    return Renewal(tx.now, lost, cancelled, strays=strays, data=data, stop=session.stop is not None)


def _updated(tx: Transaction, held: Held, holds: Mapping[Ref, Lease], lost: Sequence[str]) -> dict[str, bytes]:
    """The data of jobs that were updated from outside while they run."""
    updated = [(ref, job_id) for ref, _, job_id in held if job_id not in lost and holds[ref].flags & UPDATED]
    first = tx.now % len(updated) if len(updated) > UPDATES_TOLD else 0
    ids = dict((*updated[first:], *updated[:first])[:UPDATES_TOLD])
    found: dict[str, bytes] = {}
    if ids:
        refs = (tx.array(list(ids)),)
        tx.read_after("data_of", refs, lambda rows: found.update({ids[ref]: data for ref, data in rows}))
    return found


class Stops:
    """Looks for jobs of a session that are to stop, where nothing wakes its worker."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._seen: set[Ref] = set()

    def __call__(self, tx: Transaction) -> bool:
        """Whether there is one that the last look has not seen."""
        before, self._seen = self._seen, {ref for (ref,) in tx.rows("stopping", (self._session_id,))}
        return not self._seen <= before


def _held_some(tx: Transaction, session: Session, refs: Sequence[Ref]) -> dict[Ref, Lease]:
    """Those of some jobs that a session holds."""
    rows = tx.rows("held_some", (tx.array(refs), session.seq)) if refs else ()
    return {lease.ref: lease for lease in (Lease(*columns) for columns in rows)}


def _held(tx: Transaction, session: Session, most: int) -> list[Lease]:
    return [Lease(*columns) for columns in tx.rows("held", (session.seq, most))]


def _strays(tx: Transaction, session: Session, held: Held, complete: int | None) -> list[tuple[Ref, Token, str]]:
    """What the session holds beyond what it names; not if it has asked for more since it named them."""
    if complete is None or complete < session.number:
        return []
    known = {ref for ref, _, _ in held}
    holds = _held(tx, session, ALL)
    return [(lease.ref, lease.token, lease.id) for lease in holds if lease.ref not in known][:MOST_STRAYS]


def mark_started(tx: Transaction, session: Session, started: Sequence[Ref]) -> None:
    tx.execute("unspare", (tx.array(started), session.seq))


LEASES_AT_ONCE = 100
"""How many leases of a session that is closed are given back in one transaction."""
_ALL_CHARGED = b"\1"
"""As the answer of a closed session: what is left ends as crashed, unless it is spare. Else: a list of the charged."""
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(list[int]).decode


def close_session(tx: Transaction, session_id: str, crashed: Sequence[Ref] | None) -> list[str]:
    """End a session, and give back the first of its leases and those that have crashed: `go_on` does the rest."""
    session = tx.maybe_row(Session, "session_get", (session_id,))
    if session is None or session.closed is not None:
        return []
    leases = _held(tx, session, LEASES_AT_ONCE)
    if crashed and len(leases) == LEASES_AT_ONCE:
        leases = sorted({*leases, *_held_some(tx, session, crashed).values()})
    left = take_away(tx, session, leases, None if crashed is None else frozenset(crashed))
    charged = _ALL_CHARGED if crashed is None else _encode([lease.ref for lease in left if lease.ref in crashed])
    tx.execute("session_close", (session.seq, tx.now, charged))
    tx.guards.forget(session_id)
    return [lease.id for lease in leases if lease not in left]


def go_on(tx: Transaction, session_id: str) -> list[str]:
    """Give back some more of what a closed session still holds."""
    session = tx.maybe_row(Session, "session_get", (session_id,))
    if session is None or session.closed is None:
        return []
    leases = _held(tx, session, LEASES_AT_ONCE)
    left = take_away(tx, session, leases, None if session.answer == _ALL_CHARGED else _decode(session.answer))
    return [lease.id for lease in leases if lease not in left]


def sessions(tx: Transaction) -> list[SessionSnapshot]:
    """All open sessions, dead ones that await their sweep included."""
    snapshots = []
    for session_id, info, timeout, opened, seen, seen_at, running, memory, stop in tx.rows("sessions"):
        silent = max(timeout, tx.number("max-worker-age"))
        expired = run_out(tx, seen, timeout if running else silent)
        snapshots.append(
            SessionSnapshot(
                info=decode_session_info(info),
                opened=opened,
                seen=seen_at,
                running=running,
                alive=not expired and not tx.guards.visibly_dead(session_id),
                memory=memory,
                stopping=stop is not None,
            )
        )
    return snapshots


class Open(NamedTuple):
    """How many sessions are open, and the rows of the first and the last of them."""

    number: int
    first: int
    last: int


IDLE_AT_ONCE = 100
"""Sessions that hold nothing can wait: so many of them are looked at in one sweep."""


def dead(tx: Transaction) -> list[str]:
    """Sessions that have died or were closed, and hold jobs, by id; and some of those that have died and hold none."""
    holding = tx.rows("sessions_holding")
    found = [
        session_id
        for _, session_id, timeout, seen, closed in holding
        if closed is not None or _is_dead(tx, session_id, timeout, seen)
    ]
    known = {seq for seq, *_ in holding}
    opened = tx.row(Open, "sessions_open")
    start = opened.first if opened.number <= IDLE_AT_ONCE else random.randint(opened.first, opened.last)  # noqa: S311
    silent = tx.number("max-worker-age")
    for seq, session_id, timeout, seen in tx.rows("sessions_some", (start, IDLE_AT_ONCE)):
        if seq not in known and _is_dead(tx, session_id, max(timeout, silent), seen):
            found.append(session_id)
    return found


def _is_dead(tx: Transaction, session_id: str, timeout: int, seen: int) -> bool:
    return run_out(tx, seen, timeout) or tx.guards.visibly_dead(session_id)


def listeners(tx: Transaction, queue: str, task: str) -> list[str]:
    """The names of the live workers that serve this queue and know this task."""
    return [
        session.info.name
        for session in sessions(tx)
        if session.alive and any_fits(session.info.queues, queue) and task in session.info.tasks
    ]
