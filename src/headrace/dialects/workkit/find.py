"""Looking at a schedule, in bounded steps. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.dialects.on_redis import Stepwise
from headrace.records import Counts, Filter, Page, Snapshot, State

from . import views

if TYPE_CHECKING:
    from .store import WorkKitStore

PAGE = 200
"""Entries in one step."""


def get(store: WorkKitStore, ids: Sequence[str]) -> Stepwise[list[Snapshot | None]]:
    found = yield store.wire.get(ids)
    return [None if one is None else store.snapshot(name, *one) for name, one in zip(ids, found, strict=True)]


def find(store: WorkKitStore, wanted: Filter) -> Stepwise[Page]:
    """A page of jobs that have an entry, by their next times. The cursor is a place in that order."""
    start = 0 if wanted.after is None else int(wanted.after)
    jobs: list[Snapshot] = []
    while True:
        page = yield store.wire.page(start, PAGE)
        for name, score, text in page:
            if text and _fits(job := store.snapshot(name, text, score), wanted, store):
                if len(jobs) == wanted.limit:
                    return Page(jobs, str(start))
                jobs.append(job)
            start += 1
        if len(page) < PAGE:
            return Page(jobs, None)


def _fits(job: Snapshot, wanted: Filter, store: WorkKitStore) -> bool:
    return (
        (not wanted.states or job.state in wanted.states)
        and (wanted.queue is None or store.queue_of((wanted.queue,)) is not None)
        and wanted.task in (None, job.task)
        and wanted.group is None
    )


def entries(store: WorkKitStore, find_orphans: Callable[[], Stepwise[dict[str, bytes]]]) -> Stepwise[list[views.Entry]]:
    """All jobs, by their next times; those without an entry last."""
    found: dict[str, views.Entry] = {}
    start = 0
    while True:
        page = yield store.wire.page(start, PAGE)
        now = store.timekeeper.now()
        found.update((name, views.entry(name, text, score, now)) for name, score, text in page if text)
        start += PAGE
        if len(page) < PAGE:
            break
    orphans = yield from find_orphans()
    for name, text in orphans.items():
        found.setdefault(name, views.entry(name, text, None, store.timekeeper.now()))
    return list(found.values())


def counts(store: WorkKitStore) -> Stepwise[list[Counts]]:
    jobs, entries, due, leased = yield store.wire.counts(store.settings.lease)
    states = {State.READY: due, State.RUNNING: leased + max(0, jobs - entries), State.SCHEDULED: entries - due - leased}
    found = {state: number for state, number in states.items() if number}
    return [Counts(store.settings.schedule, found)] if found else []
