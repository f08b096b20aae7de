"""A session of this process, and what it holds: a raw job and the value of its progress record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from headrace.dialects import lease_book
from headrace.dialects.hworker.requests import Record
from headrace.records import Ref

LONGEST_ID = 200


class Hold(NamedTuple):
    """A lease in hand."""

    record: Record
    id: str

    @property
    def token(self) -> str:
        return self.record.value.decode()

    @classmethod
    def of(cls, record: Record, wire_id: str, ref: Ref, in_use: set[str]) -> Hold:
        """With an id that is not in use yet, whatever producers wrote."""
        job_id = wire_id
        if not wire_id or len(wire_id) > LONGEST_ID or not wire_id.isprintable():
            job_id = blake2b(record.raw, digest_size=16).hexdigest()
        if job_id in in_use:
            job_id = f"{job_id}#{ref}"
        in_use.add(job_id)
        return cls(record, job_id)


class Resting(NamedTuple):
    """A job that is to be retried later: in progress until then, as the wire knows no delays."""

    due: int
    """Milliseconds on the server's clock."""
    ref: Ref
    hold: Hold


class Session(lease_book.Session[Hold]):
    """What it holds, and what rests."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.resting: list[Resting] = []
        self.keep_at = 0
        """When what rests must be kept alive again: milliseconds on the server's clock."""
        self.refreshed = 0.0
        """When what it holds was last kept alive, on this machine's monotonic clock."""

    def fences(self) -> Mapping[Ref, Sequence[Any]]:
        """All that is in progress here, and whether it rests."""
        held = {ref: (*hold.record, hold.id, False) for ref, hold in self.held.items()}
        resting = {job.ref: (*job.hold.record, job.hold.id, True) for job in self.resting}
        return {**resting, **held}

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        for ref, (name, raw, value, job_id, rests) in held.items():
            hold = Hold(Record(name, raw, value), job_id)
            if rests:
                self.resting.append(Resting(0, ref, hold))
            else:
                self.held[ref] = hold

    def due(self, now: int) -> list[Resting]:
        return [job for job in self.resting if job.due <= now]
