"""Looking for jobs by id or by state, and taking them away: what clients do beside enqueueing."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from headrace.dialects.hworker import requests
from headrace.dialects.hworker.catalogue import Catalogue
from headrace.dialects.hworker.requests import BROKEN, FAILED, JOBS, PROGRESS, entries, remove, walk
from headrace.dialects.hworker.wire import PHANTOM, BrokenEntry, read, read_time
from headrace.dialects.on_redis import Stepwise
from headrace.records import Counts, Filter, Page, Snapshot, State

STATES = {JOBS: State.READY, PROGRESS: State.RUNNING, FAILED: State.FAILED, BROKEN: State.FAILED}
"""What is where, in the order in which a job moves: who looks in this order misses none that goes on meanwhile."""
GROUPS = {FAILED: "failed", BROKEN: "broken"}
"""The wire keeps no reason: all that failed are one group."""


class Entry(NamedTuple):
    """An entry at one of the keys of a queue."""

    name: str
    kind: int
    raw: bytes
    value: bytes
    now: int
    """When it was seen, in milliseconds."""


def get(catalogue: Catalogue, ids: Sequence[str]) -> Stepwise[list[Snapshot | None]]:
    found = yield from _locate(catalogue, ids)
    return [snapshot(catalogue, found[job_id]) if job_id in found else None for job_id in ids]


def act(catalogue: Catalogue, ids: Sequence[str], kinds: Sequence[int], *, again: bool = False) -> Stepwise[list[bool]]:
    """Take jobs away from these places, each in one step; `again`: to put them in line."""
    found = yield from _locate(catalogue, ids)
    done = []
    for job_id in ids:
        entry = found.pop(job_id, None)
        done.append(False if entry is None else (yield remove(entry.name, entry.raw, kinds, again=again)))
    return done


def _locate(catalogue: Catalogue, ids: Sequence[str]) -> Stepwise[dict[str, Entry]]:
    wanted = set(ids)
    found: dict[str, Entry] = {}
    needles = [msgspec.json.encode(job_id) for job_id in wanted]
    if not wanted:
        return found
    for name in catalogue.names:
        for kind in STATES:
            looked = yield from walk(name, kind, needles)
            for raw, value in looked.found:
                job_id = id_of(raw)
                if job_id in wanted:
                    found.setdefault(job_id, Entry(name, kind, raw, value, looked.now // 1000))
            if len(found) == len(wanted):
                return found
    return found


def id_of(raw: bytes) -> str:
    """The id that a raw job carries; of an entry that cannot be read, the entry itself as far as it is text."""
    try:
        return read(raw)[0]
    except BrokenEntry:
        return raw.decode(errors="backslashreplace")[:200]


def find(catalogue: Catalogue, wanted: Filter) -> Stepwise[Page]:
    """A page of jobs: the waiting ones, newest first, then those in progress, the failed ones and the broken ones."""
    places = [(name, kind) for kind in STATES for name in catalogue.names if _may_be_at(catalogue, wanted, name, kind)]
    number, _, position = (wanted.after or "0:").partition(":")
    place = int(number)
    jobs: list[Snapshot] = []
    while place < len(places):
        name, kind = places[place]
        in_list = kind in (JOBS, FAILED)
        looked = yield entries(name, kind, int(position) if in_list and position else -1)
        # A page ends at a place that stays where it is when jobs are added, and when those on the page are taken away.
        rows = [(str(looked.left + len(looked.found) - i), row) for i, row in enumerate(looked.found)]
        if not in_list:
            rows = sorted((blake2b(raw, digest_size=8).hexdigest(), (raw, value)) for raw, value in looked.found)
            rows = [(mark, row) for mark, row in rows if mark >= position and row[0] != PHANTOM]
        for mark, (raw, value) in rows:
            if len(jobs) == wanted.limit:
                return Page(jobs, f"{place}:{mark}")
            jobs.append(snapshot(catalogue, Entry(name, kind, raw, value, looked.now // 1000)))
        position = str(looked.left) if looked.left else ""
        place += not looked.left
    return Page(jobs, None)


def _may_be_at(catalogue: Catalogue, wanted: Filter, name: str, kind: int) -> bool:
    return (
        (not wanted.states or STATES[kind] in wanted.states)
        and (wanted.queue is None or catalogue.name_of(wanted.queue) == name)
        and (wanted.task is None or catalogue.shown_task(name) == wanted.task)
        and (wanted.group is None or wanted.group == GROUPS.get(kind))
    )


def counts(catalogue: Catalogue) -> Stepwise[list[Counts]]:
    names = sorted(catalogue.names)
    numbers = yield requests.counts(names)
    answer = []
    for name, (waiting, running, broken, failed) in zip(names, numbers, strict=True):
        by_state = {State.READY: waiting, State.RUNNING: running, State.FAILED: failed + broken}
        if any(by_state.values()):
            answer.append(Counts(name, {state: number for state, number in by_state.items() if number}))
    return answer


def snapshot(catalogue: Catalogue, entry: Entry) -> Snapshot:
    """All that the wire tells about a job; what it does not tell is zero or nothing."""
    task = catalogue.shown_task(entry.name)
    try:
        body = catalogue.body(task, read(entry.raw)[1])
    except BrokenEntry:
        body = entry.raw
    started = read_time(entry.value)
    at = None if started is None else started // 1000
    known = at or entry.now
    return Snapshot(
        id=id_of(entry.raw),
        task=task,
        queue=entry.name,
        state=STATES[entry.kind],
        body=body,
        created=known,
        due=known,
        started=at if entry.kind == PROGRESS else None,
        finished=known if entry.kind in GROUPS else None,
        max_crashes=0,
        token=entry.value.decode(errors="replace") if entry.kind == PROGRESS else "",
        group=GROUPS.get(entry.kind),
    )
