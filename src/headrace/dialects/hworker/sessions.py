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
    due: int = 0
    """When it is to be retried, if it rests until then: milliseconds on the server's clock."""

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


class Session(lease_book.Session[Hold]):
    """What it holds, and what rests: jobs to retry later, in progress until then, as the wire knows no delays."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.resting: dict[Ref, Hold] = {}
        self.keep_at = 0
        """When what rests must be kept alive again: milliseconds on the server's clock."""
        self.refreshed = 0.0
        """When what it holds was last kept alive, on this machine's monotonic clock."""

    def fences(self) -> Mapping[Ref, Sequence[Any]]:
        """All that is in progress here, and whether it rests."""
        return {ref: (*hold.record, hold.id, ref in self.resting) for ref, hold in (self.resting | self.held).items()}

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        for ref, (name, raw, value, job_id, rests) in held.items():
            (self.resting if rests else self.held)[ref] = Hold(Record(name, raw, value), job_id)
