"""What the jobs of a batch come after: their rows of `relation`, and which of them wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from headrace.store.sql.working_set import WorkingSet


@dataclass(slots=True)
class Relation:
    """A row of `relation`, without the parents."""

    job: int
    if_failed: int
    delay: int | None
    was: int | None = None
    """The delay in the database."""


class Failure(NamedTuple):
    """Why a job has failed, and whether that was because of another one."""

    error: bytes | None
    passed_on: bool


class KeyHolder(NamedTuple):
    """The job that has a unique key, and until when it has it beyond its own end."""

    key: str
    job: int
    until: int | None


decode = msgspec.json.Decoder(tuple[str, ...]).decode


def encode(ids: Sequence[str]) -> str:
    return msgspec.json.encode(ids).decode()


class RelationRows:
    """Rows of `relation`, and what is known of edges, culprits, failures and unique keys."""

    def __init__(self, work: WorkingSet) -> None:
        self._work, self._tx = work, work.tx
        self._relations: dict[int, Relation | None] = {}
        self._parents: dict[int, tuple[str, ...]] = {}
        self._renamed: set[int] = set()
        """Jobs whose parents are to be written."""
        self._waiting: dict[int, bool] = {}
        self._culprits: dict[int, set[int]] = {}
        self._failures: dict[int, Failure] = {}
        self._holders: dict[str, KeyHolder | None] = {}

    # -- what jobs come after --

    def load(self, seqs: Iterable[int]) -> None:
        """How jobs come after others. (What they come after may be long: `load_parents`.)"""
        missing = [seq for seq in seqs if seq not in self._relations]
        if missing:
            self._relations.update(dict.fromkeys(missing))
            for job, if_failed, delay in self._tx.rows("relations_some", (self._tx.array(missing),)):
                self._relations[job] = Relation(job, if_failed, delay, delay)

    def get(self, seq: int) -> Relation | None:
        self.load((seq,))
        return self._relations[seq]

    def load_parents(self, seqs: Iterable[int]) -> None:
        missing = [seq for seq in seqs if seq not in self._parents]
        if missing:
            self._parents.update(dict.fromkeys(missing, ()))
            for job, ids in self._tx.rows("parents_some", (self._tx.array(missing),)):
                self._parents[job] = decode(ids)

    def parents(self, seq: int) -> tuple[str, ...]:
        """The ids of the jobs that a job comes after, as it was put or has been changed."""
        self.load_parents((seq,))
        return self._parents[seq]

    def put(self, seq: int, ids: Sequence[str], if_failed: int) -> Relation:
        """A job comes after these; how it takes their failure is decided when it first comes after any."""
        relation = self._relations.get(seq)
        if relation is None:
            relation = self._relations[seq] = Relation(seq, if_failed, None)
        self._parents[seq] = tuple(ids)
        self._renamed.add(seq)
        return relation

    def remove(self, seq: int) -> None:
        self._relations[seq] = None

    # -- which wait --

    def load_waiting(self, seqs: Iterable[int]) -> None:
        missing = [seq for seq in seqs if seq not in self._waiting]
        if missing:
            self._waiting.update(dict.fromkeys(missing, False))
            self._waiting.update((seq, True) for (seq,) in self._tx.rows("waiting", (self._tx.array(missing),)))

    def waits(self, seq: int) -> bool:
        """Whether a job waits for others."""
        if seq not in self._waiting:
            self.load_waiting((seq,))
        return self._waiting[seq]

    def set_waiting(self, seq: int, waits: bool) -> None:
        self._waiting[seq] = waits

    # -- why others have failed --

    def load_culprits(self, seqs: Iterable[int]) -> None:
        """Because of which jobs each of these has failed."""
        missing = [seq for seq in seqs if seq not in self._culprits]
        if missing:
            self._culprits.update((seq, set()) for seq in missing)
            for child, parent in self._tx.rows("culprits", (self._tx.array(missing),)):
                self._culprits[child].add(parent)

    def culprits(self, seq: int) -> set[int]:
        self.load_culprits((seq,))
        return self._culprits[seq]

    def load_failures(self, seqs: Iterable[int]) -> None:
        missing = [seq for seq in seqs if seq not in self._failures]
        if missing:
            self._failures.update(dict.fromkeys(missing, Failure(None, False)))
            rows = self._tx.rows("failures_of", (self._tx.array(missing),))
            new = self._tx.errors
            long = [(job, token) for job, *_, token in rows if token is not None and job not in new]
            known = self._tx.large("long_error", long)
            for job, error, passed_on, token in rows:
                self._failures[job] = Failure(new.get(job) or known.get((job, token), error), bool(passed_on))

    def failure(self, seq: int) -> Failure:
        self.load_failures((seq,))
        return self._failures[seq]

    def set_failure(self, seq: int, error: bytes, *, passed_on: bool) -> None:
        self._failures[seq] = Failure(error, passed_on)

    # -- unique keys --

    def load_holders(self, keys: Iterable[str]) -> list[KeyHolder]:
        """Which jobs have these keys."""
        wanted = list(dict.fromkeys(keys))
        missing = [key for key in wanted if key not in self._holders]
        if missing:
            self._holders.update(dict.fromkeys(missing))
            for columns in self._tx.rows("unique_holders", (self._tx.texts(missing),)):
                holder = KeyHolder(*columns)
                self._holders[holder.key] = holder
        return [found for key in wanted if (found := self._holders[key]) is not None]

    def take_key(self, key: str, job: int, until: int | None = None) -> None:
        """Give a unique key to a job, from the one that has it, should one do."""
        self.load_holders([key])
        holder = self._holders[key]
        if holder is None or holder.job != job:
            self._holders[key] = KeyHolder(key, job, until)
            self._work.write("unique_take", key, job, until, None if holder is None else holder.job)

    # -- writing --

    def save(self) -> None:
        for seq, relation in self._relations.items():
            if relation is None:
                continue
            if seq in self._renamed:
                self._work.write("relation_put", seq, relation.if_failed, relation.delay, encode(self._parents[seq]))
            elif relation.delay != relation.was:
                self._work.write("relation_delay", seq, relation.delay)
