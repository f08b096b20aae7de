"""How jobs come to the target of a drain, and why some can't."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import ConfigurationError, Unsupported
from headrace.ops.copy import past_of
from headrace.ops.families import Family, parts
from headrace.records import Lease, NewJob, Snapshot, State, spec_of
from headrace.store import Store
from headrace.store.contract import Facet
from headrace.store.facets import PARKED, Restoring
from headrace.store.urls import shown_url

CLAIMED, BROUGHT = " (draining)", " (drained)"
"""What the names of the queues end with that a job is in which is claimed, and which is parked at the target, too."""


class Names(Struct, frozen=True):
    """What is called otherwise at the target."""

    tasks: Mapping[str, str] = {}
    queues: Mapping[str, str] = {}


class Left(Struct, frozen=True):
    """Jobs or schedules that were not carried, for one reason."""

    why: str
    number: int
    example: str


class Reasons:
    """Why something stays behind: counted, with one example each."""

    def __init__(self) -> None:
        self._met: dict[str, list[str]] = {}
        self.ids: set[str] = set()

    def add(self, what: str, why: str) -> None:
        if what not in self.ids:
            self.ids.add(what)
            self._met.setdefault(why, []).append(what)

    def summary(self) -> list[Left]:
        return [Left(why, len(ids), ids[0]) for why, ids in self._met.items()]


def keeps_ids(store: Store) -> bool:
    return isinstance(store, Restoring) or Facet.EDIT in store.facets


def can_claim(store: Store) -> bool:
    return {Facet.EDIT, Facet.QUEUES} <= store.facets


def _new_job(source: Store, target: Store, job: Snapshot | Lease, names: Names) -> NewJob:
    """A job of the source as the target is to have it. Due times keep the order, where a target has any."""
    queue = base(job.queue)
    later = isinstance(job, Snapshot) and job.state is State.SCHEDULED
    values: dict[str, Any] = {
        "id": job.id if can_claim(source) else _derived(source, job.id),
        "task": names.tasks.get(job.task, job.task),
        "queue": names.queues.get(queue, queue),
        "data": job.data,
        "run_at": job.due if later or (job.due and Facet.DELAY in target.facets) else None,
    }
    if isinstance(job, Lease):
        return NewJob(body=job.body, priority=job.priority, options=job.options, max_crashes=job.max_crashes, **values)
    related = {"unique_key": job.unique_key, "after": job.after, "if_failed": job.if_failed}
    return NewJob(**{**spec_of(job), **values, **related})


def base(queue: str) -> str:
    """The queue that a job was in before the drain."""
    return queue.removesuffix(CLAIMED).removesuffix(BROUGHT)


def _derived(source: Store, job_id: str) -> str:
    """An id that is the same in every run, and that no other installation of the same system comes to."""
    return hashlib.blake2s(f"{shown_url(source.url)} {job_id}".encode(), digest_size=16).hexdigest()


def _is_acceptable(target: Store, job: NewJob, reasons: Reasons) -> bool:
    try:
        target.put([job])  # describes it only: what can't be carried is refused here
    except (ConfigurationError, Unsupported) as error:
        reasons.add(f"job {job.id}", str(error))
        return False
    return True


class Carrier:
    """Brings jobs to the target."""

    def __init__(self, source: Store, target: Store, names: Names, reasons: Reasons) -> None:
        self.source, self.target, self.names, self.reasons = source, target, names, reasons
        self.related: set[str] = set()
        """Jobs of the source that move with their families only."""

    def refuses(self, family: Family, at_once: int) -> str:
        """Why a family stays, which is noted for each of its jobs; nothing if it can move."""
        why, related = family.tied, "It is related to a job that can't be carried."
        if not why and any(f"job {name}" in self.reasons.ids for name in family.ids):
            why = related
        for part in () if why else parts(family.ids, at_once):
            jobs = [job for job in self.source.run(self.source.get(part)) if job is not None]
            if len(self.acceptable(jobs)) < len(jobs):
                why = related
        for name in family.ids if why else ():
            self.reasons.add(f"job {name}", why)
        return why

    def acceptable(self, jobs: Iterable[Any]) -> list[Any]:
        new = ((job, _new_job(self.source, self.target, job, self.names)) for job in jobs)
        return [job for job, made in new if _is_acceptable(self.target, made, self.reasons)]

    @property
    def parks(self) -> bool:
        """Whether a job that was brought waits for its release."""
        return can_claim(self.source) and isinstance(self.target, Restoring)

    def bring(self, jobs: Sequence[Any]) -> list[bool]:
        """Which of these jobs are at the target now."""
        new = [_new_job(self.source, self.target, job, self.names) for job in jobs]
        if self.parks:
            new = [replace(job, run_at=PARKED) for job in new]
        puts = self.target.run(self.target.put(new))
        there = [put.id == job.id or not keeps_ids(self.target) for put, job in zip(puts, new, strict=True)]
        for put, job, is_there in zip(puts, new, there, strict=True):
            if not is_there:
                self.reasons.add(f"job {job.id}", f"Job {put.id} has its unique key {job.unique_key!r}.")
        return there

    def release(self, jobs: Sequence[Snapshot]) -> None:
        """Let those that are parked at the target run there. One that has been released is left alone."""
        assert isinstance(self.target, Restoring)
        self.target.run(self.target.restore([past_of(job) for job in jobs]))
