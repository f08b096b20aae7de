"""Operations in a transaction of the caller: calls of functions of the schema, on the caller's own connection.

They insert, and lock nothing that belongs to other jobs, however long the caller's transaction stays open. Plain jobs
are where workers find them as soon as the caller commits. Others are in the table `arrival` until `admit` brings them
in by the rules, in the next transaction of any process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from headrace.errors import (
    ConfigurationError,
    DependencyCycle,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
    UniqueBusy,
)
from headrace.records import Expiry, Lane, NewJob, Put, Ref, Token
from headrace.store import limits
from headrace.store.callers import Meaning, code_of, meaning, on_one_line
from headrace.store.contract import Operation
from headrace.store.postgres.calling import check
from headrace.store.postgres.statements import FIRST_MOMENT, LAST_MOMENT, NOT_HERE
from headrace.store.sql import lanes, relations
from headrace.store.sql import put as puts
from headrace.store.sql.transaction import Step, Transaction, is_plain
from headrace.store.sql.working_set import WorkingSet
from headrace.values.names import HIGHEST_PRIORITY, LOWEST_PRIORITY

Kind = TypeVar("Kind", bound=Operation[Any])
T = TypeVar("T")

BUSY = (
    "Another transaction has enqueued a job with the same unique key, and did not end while it was waited for. Nothing "
    "was enqueued. Try again when it has ended, and keep transactions short. (unique_wait=2, in the URL, is how many "
    "seconds to wait.)"
)
LONGEST_DELAY = 10**14
"""Milliseconds, or how many of anything: more than three thousand years, and far below where numbers end."""
ARRIVALS_AT_ONCE = 200
"""How many jobs that have arrived one transaction brings in: about 50 ms, if all are in lanes."""

_MEANINGS: tuple[Meaning, ...] = (
    (f"{NOT_HERE} 3F000 42883 42P01", ConfigurationError, "This connection does not lead to the jobs, which are in "
     "{where} ({said}): one transaction can't span two databases."),
    ("55P03", UniqueBusy, BUSY),
    ("40P01 40001", StoreBusy, "{where}: your transaction and another one wait for each other, so this call was given "
     "up: nothing was enqueued by it ({said}). Roll back and do your transaction again. To avoid it, enqueue jobs with "
     "keys or ids in the same order everywhere."),
    ("25P02", StoreError, "Your transaction has failed before ({said}): roll it back."),
    ("25P01", ConfigurationError, "Your connection begins no transactions ({said}): begin one."),
    ("25006", StoreReadOnly, "{where}: your transaction only reads ({said})."),
    ("42501", StoreReadOnly, "{where}: the user of your connection lacks a right ({said}). docs/transactions.md lists "
     "those it needs."),
    ("57014 57P01 57P02 57P03 08000 08003 08006", StoreUnavailable, "{where}: the server ended your transaction "
     "({said})."),
)  # fmt: skip


@dataclass(slots=True)
class Within(Operation[T], Generic[T]):
    """An operation to run on a connection of the caller. `before`: what is looked at first, on one of the store's."""

    connection: object
    function: str
    document: dict[str, Any]
    answer: Callable[[Any], T]
    before: Callable[[Transaction], None] | None = None

    def __post_init__(self) -> None:
        check(self.connection)


def put(connection: object, jobs: Sequence[NewJob]) -> Within[list[Put]]:
    """Put jobs. What can be wrong with them is found out before."""
    limits.check_batch(limits.without_nul(jobs))
    ready = [replace(job, require_worker=False) if job.require_worker else job for job in jobs]
    plain = [job for job in ready if is_plain(job)]
    others = [job for job in ready if not is_plain(job)]

    def before(tx: Transaction) -> None:
        puts.roll_call(tx, jobs)
        lanes.check(WorkingSet(tx), jobs)

    def answer(clashes: dict[str, str]) -> list[Put]:
        return [Put(clashes.get(job.id, job.id), job.id not in clashes) for job in jobs]

    special = any(job.require_worker or job.lane is not None for job in jobs)
    return Within(connection, "put_within", {"plain": plain, "others": others}, answer, before if special else None)


def known(connection: object, ids: Sequence[str]) -> Within[list[bool]]:
    """Which of these jobs there are."""
    return Within(connection, "known_within", {"ids": list(ids)}, lambda found: [job_id in found for job_id in ids])


def complete(connection: object, lease: tuple[Ref, Token, str], result: bytes | None) -> Within[bool]:
    """Mark a hand-out as completed."""
    ref, token, _ = lease
    return Within(connection, "complete_within", {"ref": ref, "token": token, "result": result}, bool)


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Have errors of the caller's library in words. What is no error of a database stays as it is."""
    try:
        yield
    except Exception as error:
        if not (code := code_of(error)):
            raise
        said = on_one_line(str(error))
        raise meaning(_MEANINGS, where, code, said) or StoreError(f"{where}: {said}") from error


# -- arrivals --------------------------------------------------------------------------------------------


_decode = msgspec.json.Decoder(NewJob).decode


class Unread(Exception):
    """Jobs have arrived that are to be read first, without any lock: they may be large."""


def arrivals(tx: Transaction) -> list[Any]:
    """The first jobs that have arrived."""
    return tx.rows("arrivals", (ARRIVALS_AT_ONCE,))


def admit(tx: Transaction, read: list[Any]) -> None:
    """Bring in jobs that have arrived, in the order of their arrival, as they were `read`."""
    left = {seq for (seq,) in tx.rows("arrivals_left", (tx.array([seq for seq, *_ in read]),))}
    found = [(seq, *arrived) for seq, *arrived in read if seq in left]
    for at, together in groupby(found, itemgetter(1)):
        # Their transactions are committed: they are there, whichever jobs have their keys.
        work = WorkingSet(tx)
        jobs = [_readable(job_id, job) for _, _, job_id, job in together]
        puts.bring_in(work, puts.with_free_keys(work, jobs), at)
    tx.execute("arrivals_delete", (tx.array([seq for seq, *_ in found]),))


def _readable(job_id: str, job: bytes) -> NewJob:
    try:
        new = _decode(job)
        _check_numbers(new)
        limits.check_batch(limits.without_nul([new]))
    except (ValueError, ConfigurationError, DependencyCycle):  # another program wrote it: workers say what is wrong
        return NewJob(id=job_id, task="unreadable", body=job)
    return new


def _check_numbers(job: NewJob) -> None:
    """Refuse numbers that the database, or the rules, can't reckon with."""
    expires, lane = job.expires or Expiry(), job.lane or Lane("")
    moments = job.run_at, expires.at
    counts = (
        *(job.delay, job.max_crashes, job.unique_for, expires.after),
        *(lane.limit, lane.rate, lane.per, lane.weight),
    )
    if not all(FIRST_MOMENT <= moment <= LAST_MOMENT for moment in moments if moment is not None):
        raise ValueError("a time is beyond the years 1 to 9999")
    if not all(0 <= count < LONGEST_DELAY for count in counts if count is not None):
        raise ValueError("a number is negative, or too large")
    if not LOWEST_PRIORITY <= job.priority <= HIGHEST_PRIORITY:
        raise ValueError("a priority is out of range")


def locking(jobs: Sequence[NewJob], operation: Kind) -> Kind:
    """The put of these jobs as one that waits first for transactions that are putting others with their keys or ids."""
    if isinstance(operation, Step):
        chosen = {f"id {job.id}" for job in jobs if job.nonce is not None}
        operation.keys = (*chosen, *{job.unique_key for job in jobs if job.unique_key is not None})
        operation.large = lambda: (value for job in jobs for value in (job.body, job.data, job.options))
        operation.repeatable = True
        operation.narrow = not any(job.lane or job.schedule or relations.is_related(job) for job in jobs)
    return operation
