"""Looking at a schedule, in bounded steps, and its entries as jobs: the little that two keys can tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.dialects.on_redis import Stepwise
from headrace.records import Counts, Filter, Page, Snapshot, State
from headrace.store.ages import Oldest

from .payload import by_name, read_payload
from .schedules import name_of, recurs
from .times import as_moment, in_reach

if TYPE_CHECKING:
    from .store import WorkKitStore

PAGE = 200
"""Entries in one step."""
UNREADABLE = "(unreadable)"


class Entry(NamedTuple):
    """A job of a schedule, as `Schedule.list` shows it."""

    id: str
    job: str
    """As it is written: `#'ns/name`, or any other text."""
    args: list[Any]
    cron: str
    next_run: datetime | None
    """None: it has no entry. A published listener runs it, or died doing so."""
    running: bool
    """A listener of ours has leased it; `next_run` is the end of the lease."""


def state_of(score: float | None, now: int) -> State:
    """Run times are whole seconds, ends of leases are not.

    >>> state_of(5_000, 6_000), state_of(7_000, 6_000), state_of(7_001, 6_000), state_of(None, 6_000)
    (<State.READY: 'ready'>, <State.SCHEDULED: 'scheduled'>, <State.RUNNING: 'running'>, <State.RUNNING: 'running'>)
    """
    if score is None:
        return State.RUNNING
    if score <= now:
        return State.READY
    return State.SCHEDULED if score % 1000 == 0 else State.RUNNING


def entry(identity: str, text: bytes, score: float | None, now: int) -> Entry:
    payload = read_payload(text)
    moment = None if score is None else as_moment(score)
    running = score is not None and state_of(score, now) is State.RUNNING
    if payload is None:
        return Entry(identity, UNREADABLE, [], "", moment, running)
    try:
        args = [json.loads(argument) for argument in payload.arguments]
    except (ValueError, RecursionError):
        args = []
    return Entry(identity, payload.job, args, payload.cron, moment, running)


def snapshot(store: WorkKitStore, identity: str, text: bytes, score: float | None) -> Snapshot:
    """A job for the rest of headrace. What the wire does not carry is nothing, zero or unknown.

    The server's time must be known, as it is after any answer.
    """
    payload = read_payload(text)
    name, body, schedule = UNREADABLE, text, None
    if payload is not None:
        schedule = name_of(payload, identity) if recurs(payload, store.settings.cron_order) else None
        job, arguments = payload.call
        name = store.handlers.find(job) or payload.job
        body = by_name(store.tasks.get(name), arguments)
    holds = ((session, hold) for session in store.book for hold in session.held.values() if hold.id == identity)
    holder, hold = next(holds, (None, None))
    now = store.timekeeper.now()
    due = hold.due if hold is not None else int(in_reach(score)) if score is not None else now
    attempts, crashes = store.exchanges.counters(identity)
    return Snapshot(
        id=identity,
        task=name,
        queue=store.settings.schedule,
        state=State.RUNNING if hold is not None else state_of(score, now),
        body=body,
        created=due,
        due=due,
        attempts=attempts if hold is None else hold.attempts,
        crashes=crashes if hold is None else hold.crashes,
        max_crashes=3 if hold is None else hold.max_crashes,
        token=hold.token if hold is not None else 0,
        worker=holder.name if holder is not None else "",
        schedule=schedule,
        tick=None if schedule is None else due,
    )


def get(store: WorkKitStore, ids: Sequence[str]) -> Stepwise[list[Snapshot | None]]:
    found = yield store.wire.get(ids)
    return [None if one is None else snapshot(store, name, *one) for name, one in zip(ids, found, strict=True)]


def find(store: WorkKitStore, wanted: Filter) -> Stepwise[Page]:
    """A page of jobs that have an entry, by their next times. The cursor is a place in that order."""
    start = 0 if wanted.after is None else int(wanted.after)
    jobs: list[Snapshot] = []
    while True:
        page = yield store.wire.page(start, PAGE)
        for name, score, text in page:
            if text and _fits(job := snapshot(store, name, text, score), wanted, store):
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
        and wanted.schedule in (None, job.schedule)
        and wanted.group is None
    )


def entries(store: WorkKitStore) -> Stepwise[list[Entry]]:
    found: dict[str, Entry] = {}
    for start in count(0, PAGE):
        page = yield store.wire.page(start, PAGE)
        now = store.timekeeper.now()
        found.update((name, entry(name, text, score, now)) for name, score, text in page if text)
        if len(page) < PAGE:
            break
    orphans = yield from store.orphanage.find()
    for name, text in orphans.items():
        found.setdefault(name, entry(name, text, None, store.timekeeper.now()))
    return list(found.values())


def oldest(store: WorkKitStore) -> Stepwise[Oldest]:
    """All entries are in the order of their times: the first one is the oldest, if it is due."""
    now, due = yield store.wire.oldest()
    return Oldest(now, {} if due is None or due > now else {store.settings.schedule: due})


def counts(store: WorkKitStore) -> Stepwise[list[Counts]]:
    jobs, entries, due, leased = yield store.wire.counts(store.settings.lease)
    states = {State.READY: due, State.RUNNING: leased + max(0, jobs - entries), State.SCHEDULED: entries - due - leased}
    found = {state: number for state, number in states.items() if number}
    return [Counts(store.settings.schedule, found)] if found else []
