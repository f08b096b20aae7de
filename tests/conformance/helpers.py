"""What makes a test of the contract a few lines: jobs by name, workers that count their requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.records import (
    ExchangeReply,
    Kind,
    Lease,
    NewJob,
    Outcome,
    Put,
    Ref,
    Renewal,
    Report,
    SessionInfo,
    Snapshot,
    State,
    Take,
    Verdict,
)
from headrace.store.contract import Reported, Store, Waiter
from headrace.values.clock import Clock
from headrace.values.codec import decode_error

TIMEOUT = 15_000
LONG = 20.0
"""Seconds. No wait lasts that long, unless a wake-up was lost."""


def new(job_id: str, **fields: Any) -> NewJob:
    """A job whose body tells whose it is."""
    return NewJob(**{"id": job_id, "task": "task", "body": b"body of " + job_id.encode(), **fields})


def put(store: Store, *ids: str, **fields: Any) -> list[Put]:
    """Jobs that differ in their ids only, in one batch."""
    return store.run(store.put([new(job_id, **fields) for job_id in ids]))


def look(store: Store, job_id: str) -> Snapshot:
    """The job, which must be there."""
    (snapshot,) = store.run(store.get([job_id]))
    assert snapshot is not None
    return snapshot


def exists(store: Store, job_id: str) -> bool:
    return store.run(store.get([job_id])) != [None]


def state(store: Store, job_id: str) -> State:
    return look(store, job_id).state


def why(store: Store, job_id: str) -> tuple[State, str | None, str]:
    """What became of a job that failed: its state, its group, and the message of its error."""
    job = look(store, job_id)
    return job.state, job.group, decode_error(job.error).message


def told(store: Store, job_id: str) -> list[str]:
    """What the job's history says happened, without times."""
    return [event.what for event in store.run(store.history(job_id))]


def ids(leases: Sequence[Lease]) -> str:
    """The ids in the order of the leases, for names of one letter."""
    return "".join(lease.id for lease in leases)


def outcome(lease: Lease, kind: Kind = Kind.DONE, **fields: Any) -> Outcome:
    return Outcome(**{"ref": lease.ref, "token": lease.token, "id": lease.id, "kind": kind, **fields})


def saying(lease: Lease, **fields: Any) -> Report:
    return Report(ref=lease.ref, token=lease.token, id=lease.id, **fields)


def woken(waiter: Waiter) -> bool:
    """Whether `wait` ends by itself."""
    began = time.monotonic()
    waiter.wait(LONG)
    return time.monotonic() - began < LONG / 2


class Worker:
    """A session and the numbers of its requests."""

    def __init__(
        self, store: Store, clock: Clock, name: str = "w", *queues: str, opened: bool = True, **fields: Any
    ) -> None:
        self.store, self.clock, self.id = store, clock, f"session of {name}"
        self.queues = queues or ("default",)
        self.number = 0
        described = {"id": self.id, "name": name, "queues": self.queues, "tasks": ("task",)}
        self.info = SessionInfo(**{**described, "timeout": TIMEOUT, **fields})
        if opened:
            self.open()

    def open(self) -> int:
        return self.store.run(self.store.open(self.info))

    def exchange(
        self,
        outcomes: Sequence[Outcome] = (),
        take: Take | None = None,
        *,
        number: int | None = None,
        started: Sequence[Ref] = (),
    ) -> ExchangeReply:
        """With the next number, or with the one given."""
        if number is None:
            number = self.number = self.number + 1
        exchange = self.store.exchange(self.id, number, outcomes, take, steady=self.clock.steady(), started=started)
        return self.store.run(exchange)

    def asks(self, slots: int = 1, spare: int = 0, *queues: str, round_robin: bool = False) -> Take:
        return Take(queues or self.queues, slots, spare, round_robin)

    def take(self, slots: int = 1, spare: int = 0, *queues: str, round_robin: bool = False) -> list[Lease]:
        return list(self.exchange(take=self.asks(slots, spare, *queues, round_robin=round_robin)).leases)

    def take_one(self) -> Lease:
        (lease,) = self.take(1)
        return lease

    def settle(self, lease: Lease, kind: Kind = Kind.DONE, **fields: Any) -> Verdict:
        (verdict,) = self.exchange([outcome(lease, kind, **fields)]).verdicts
        return verdict

    def run_one(self, kind: Kind = Kind.DONE, **fields: Any) -> Lease:
        """Take the next job and settle it."""
        lease = self.take_one()
        assert self.settle(lease, kind, **fields) is Verdict.OK
        return lease

    def report(self, *reports: Report, number: int | None = None) -> list[Reported]:
        if number is None:
            number = self.number = self.number + 1
        return self.store.run(self.store.report(self.id, number, reports, steady=self.clock.steady()))

    def renew(
        self, *held: Lease, started: Sequence[Ref] = (), complete: int | None = None, memory: int | None = None
    ) -> Renewal:
        named = [(lease.ref, lease.token, lease.id) for lease in held]
        return self.store.run(self.store.renew(self.id, named, started=started, complete=complete, memory=memory))

    def close(self, crashed: Sequence[Ref] | None = ()) -> list[str]:
        return self.store.run(self.store.close_session(self.id, crashed=crashed))


def take_named(worker: Worker, job_id: str) -> Lease:
    """The job that is next in line, which is this one."""
    lease = worker.take_one()
    assert lease.id == job_id
    return lease
