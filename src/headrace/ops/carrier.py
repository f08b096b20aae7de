"""How jobs come to the target of a drain, and why some can't."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from headrace.errors import ConfigurationError, Unsupported
from headrace.ops.copy import past_of
from headrace.ops.families import Family, parts
from headrace.ops.holds import Held, held_at
from headrace.ops.sidings import arriving, base, digest
from headrace.records import Lane, Lease, NewJob, Snapshot, Spec, State, spec_of
from headrace.store import Store
from headrace.store.contract import Facet, Positional
from headrace.store.facets import PARKED, Edit, Editing, Queues, Restoring, Tags, facet
from headrace.store.urls import shown_url

MADE = re.compile("[0-9a-f]{32}")
"""Ids that were made, not chosen."""
MAX_CRASHES: int = next(field.default for field in fields(NewJob) if field.name == "max_crashes")


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


class Carrier:
    """Brings jobs to the target."""

    def __init__(self, source: Store, target: Store, names: Names, reasons: Reasons) -> None:
        self.source, self.target, self.names, self.reasons = source, target, names, reasons
        self.related: set[str] = set()
        """Jobs of the source that move with their families only."""
        self.lost: set[str] = set()
        """Jobs of the source that were brought, and whose leases ran out before they could be settled."""
        self.lanes: dict[str, Lane] = {}
        """Lanes of jobs of the source whose leases do not say them."""
        self.held: list[Held] = []
        """What is held back at the target, as jobs or schedules of it have come that are so at the source."""
        self.parks = can_claim(source) and isinstance(target, Restoring)
        """Whether a job that was brought waits for its release."""
        self.arriving = ""
        """The end of the names of queues at the target where jobs wait until the source has settled them, if any do."""
        if not can_claim(source) and can_claim(target):
            self.arriving = arriving(shown_url(source.url))

    # -- whether a job can be carried --

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
        here = held_at(self.source)
        return [job for job in jobs if self._accepts(job, here)]

    def _accepts(self, job: Snapshot | Lease, here: Mapping[tuple[str, str], Held]) -> bool:
        why = self.unheld(job, here) or self._untold(self.source, job.task, job.queue)
        if not why:
            new = self._new_job(job)
            try:
                self.target.put([new])  # describes it only: what can't be carried is refused here
                why = self._untold(self.target, new.task, new.queue)
            except (ConfigurationError, Unsupported) as error:
                why = str(error)
        if why:
            self.reasons.add(f"job {job.id}", why)
        return not why

    def _untold(self, store: Store, task: str, queue: str) -> str:
        """Why a store can't read or write a task's arguments; nothing if it can."""
        if not isinstance(store, Positional) or store.knows(task):
            return ""
        lacking = f"no task here is called {task!r}" if task else f"no task here has the queue {queue!r}"
        remedy = "Name the app that has it (--app), or map it to a task of the app (--map)."
        return f"{shown_url(store.url)} has arguments without names, and {lacking}. {remedy}"

    def unheld(self, job: Spec | Lease, here: Mapping[tuple[str, str], Held]) -> str:
        """Why the target can't hold back what the source does; nothing if it can, or the source does not."""
        return next(filter(None, (held.refusal(self.source, self.target) for held in _holds(job, here))), "")

    def hold_back(self, jobs: Iterable[Spec], *, only_look: bool = False) -> None:
        """Before jobs come: what the source holds back of them waits at the target, too. Each is set once, so that an
        operator may resume it there while the drain goes on."""
        here = held_at(self.source)
        for job in jobs if here else ():
            for held in _holds(job, here):
                task, queue = self.names.tasks.get(job.task, job.task), self.queue_at_target(job.task, job.queue)
                there = replace(held, name=queue if held.what == "queue" else task)
                if there not in self.held:
                    self.held.append(there)
                    if not only_look:
                        there.hold(self.target, self.source)

    # -- on the way --

    def id_at_target(self, job_id: str) -> str:
        """A job's own id, or one that is the same in every run, and that no other installation comes to."""
        return job_id if can_claim(self.source) else digest(f"{shown_url(self.source.url)} {job_id}", 16)

    def _new_job(self, job: Snapshot | Lease) -> NewJob:
        """A job of the source as the target is to have it. Due times keep the order, where a target has any."""
        later = isinstance(job, Snapshot) and job.state is State.SCHEDULED
        own = self.id_at_target(job.id)
        values: dict[str, Any] = {
            "id": own,
            # A target that gives ids of its own refuses a job whose caller chose one: it would be another job there.
            "nonce": None if keeps_ids(self.target) or MADE.fullmatch(own) else own,
            "task": self.names.tasks.get(job.task, job.task),
            "queue": self.queue_at_target(job.task, job.queue),
            "data": job.data,
            "max_crashes": self._max_crashes(job),
            "run_at": job.due if later or (job.due and Facet.DELAY in self.target.facets) else None,
        }
        if isinstance(job, Lease):
            # A wire with a limit of attempts makes options of its own limits: they are not the job's.
            options = job.options if job.extras.attempt_limit is None else None
            lane = self.lanes.get(job.id)
            return NewJob(body=job.body, priority=job.priority, options=options, lane=lane, **values)
        related: dict[str, Any] = {"unique_key": job.unique_key, "after": job.after, "if_failed": job.if_failed}
        if job.id in self.lanes:
            related["lane"] = self.lanes[job.id]
        return NewJob(**{**spec_of(job), **values, **related})

    def queue_at_target(self, task: str, queue: str) -> str:
        """By the name that the source has for it or the app, it may be called otherwise there."""
        queue = own = base(queue)
        if isinstance(self.source, Positional) and self.source.knows(task):
            own = self.source.home(task, queue)
        return self.names.queues.get(queue) or self.names.queues.get(own, own)

    def _max_crashes(self, job: Snapshot | Lease) -> int:
        """Between wires it is left out: there it is what a wire makes of other numbers, or does not tell."""
        is_told = isinstance(self.source, Restoring) or can_claim(self.target)
        return (is_told and job.max_crashes) or MAX_CRASHES

    def bring(self, jobs: Sequence[Any]) -> list[bool]:
        """Which of these jobs are at the target now."""
        new = [self._new_job(job) for job in jobs]
        if self.parks:
            new = [replace(job, run_at=PARKED) for job in new]
        if self.arriving:
            new = [replace(job, queue=job.queue + self.arriving) for job in new]
            for queue in sorted({job.queue for job in new}):
                self.target.run(facet(self.target, Queues).pause(queue, "headrace drain"))
        puts = self.target.run(self.target.put(new))
        there = [put.id == job.id or not keeps_ids(self.target) for put, job in zip(puts, new, strict=True)]
        for old, put, job, is_there in zip(jobs, puts, new, there, strict=True):
            if not is_there:
                self.reasons.add(f"job {old.id}", f"Job {put.id} has its unique key {job.unique_key!r}.")
        tracked = [new.id for old, new in compress(zip(jobs, new, strict=True), there) if _is_tracked(old)]
        if tracked and Facet.TAGS in self.target.facets:
            self.target.run(facet(self.target, Tags).track(tracked))
        return there

    def release(self, jobs: Sequence[Snapshot]) -> None:
        """Let those that are parked at the target run there. One that has been released is left alone."""
        assert isinstance(self.target, Restoring)
        self.target.run(self.target.restore([past_of(job) for job in jobs]))

    def admit(self, jobs: Sequence[Snapshot | Lease]) -> None:
        """Let those that are arriving run: the source has settled them."""
        if self.arriving:
            self.admit_ids({self.id_at_target(job.id): self._new_job(job).queue for job in jobs})

    def admit_ids(self, queues: Mapping[str, str]) -> int:
        """The same for ids at the target, each with its queue. How many were there."""
        admitted = 0
        for queue in dict.fromkeys(queues.values()):
            ids = [job_id for job_id, its in queues.items() if its == queue]
            answers = self.target.run(facet(self.target, Editing).edit(ids, Edit(queue=queue)))
            admitted += sum(answers)
        return admitted


def _is_tracked(job: Snapshot | Lease) -> bool:
    return isinstance(job, Snapshot) and job.tracked


def _holds(job: Spec | Lease, here: Mapping[tuple[str, str], Held]) -> list[Held]:
    return [here[key] for key in (("queue", base(job.queue)), ("task", job.task)) if key in here]
