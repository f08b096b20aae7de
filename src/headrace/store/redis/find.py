"""Looking for jobs, newest first, in bounded steps: along the index that fits, or through all of them as they came.

And for sessions, from the first to the last.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import msgspec

from headrace.records import Filter, HistoryRecord, Page, Snapshot, State
from headrace.store.ages import Oldest
from headrace.store.history import complete_history
from headrace.store.redis import records
from headrace.store.redis.layout import STATES
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.requests import as_named
from headrace.values.glob import matcher

Looking = Generator[Script[Any], Any, Page]

STEPS = 20
"""Along an index: how many steps one look takes at most; if they do not fill a page, it is cut short."""

CANDIDATES = 500
"""So many jobs a step hands out whose tasks are looked at here: it does not know whether they fit."""

INDEXED = (State.BLOCKED, State.FAILED, State.CANCELLED)
"""The states whose jobs are in an index in order of arrival."""


def get(ids: Sequence[str]) -> Script[list[Snapshot | None]]:
    def read(reply: Reply, _: bool) -> list[Snapshot | None]:
        return [records.described(job_id, entry) if entry else None for job_id, entry in zip(ids, reply, strict=True)]

    return Script("get", tuple(map(as_named, ids)), read)


def find(wanted: Filter) -> Looking:
    """Newest put first."""
    index = _index(wanted)
    if index is None and (wanted.worker is not None or wanted.states):
        few = yield from _few(wanted)
        if few is not None:
            return (yield from _newest(few, wanted))
    return (yield from _along(index or "arrivals", wanted))


def _index(wanted: Filter) -> str | None:
    if wanted.tag is not None:
        return f"tag:{wanted.tag}"
    if wanted.schedule is not None:
        return f"schedule:{wanted.schedule}"
    if wanted.tracked:
        return "tracked"
    if wanted.group is not None and wanted.states == (State.FAILED,):
        return f"group:{wanted.group}"
    if wanted.worker is None and len(wanted.states) == 1 and wanted.states[0] in INDEXED:
        return f"state:{wanted.states[0].value}"
    return None


def _request(script: str, where: bytes, before: int, wanted: Filter, *more: bytes) -> Script[Any]:
    states = "".join(str(STATES.index(state)) for state in wanted.states).encode()
    names = (b"" if name is None else b"=" + name.encode() for name in (wanted.queue, wanted.task, wanted.group))
    return Script(script, (where, b"%d" % before, states, *names, *more), lambda reply, _: reply)


def _candidates(found: list[bytes], wanted: Filter) -> Iterator[tuple[str, int]]:
    """Ids and arrivals of those whose tasks fit."""
    fits = None if wanted.task_like is None else matcher(wanted.task_like)
    for arrival, job_id, task in zip(found[::3], found[1::3], found[2::3], strict=True):
        if fits is None or fits(records.text(task)):
            yield records.name(job_id), int(arrival)


def _fits(job: Snapshot | None, wanted: Filter) -> bool:
    """What the scripts do not look at."""
    return (
        job is not None
        and (wanted.tag is None or wanted.tag in job.tags)
        and wanted.tracked in (None, job.tracked)
        and wanted.schedule in (None, job.schedule)
        and (wanted.worker is None or (job.state is State.RUNNING and job.worker == wanted.worker))
    )


def _begin(wanted: Filter) -> int:
    return int(wanted.after) if wanted.after is not None else 2**52


def _along(index: str, wanted: Filter) -> Looking:
    jobs: list[Snapshot] = []
    before = _begin(wanted)
    enough = wanted.limit if wanted.task_like is None else max(wanted.limit, CANDIDATES)
    for _ in range(STEPS):
        further, *found = yield _request("walk", index.encode(), before, wanted, b"%d" % enough)
        candidates = list(_candidates(found, wanted))
        while candidates:
            piece = candidates[: wanted.limit + 1]
            del candidates[: wanted.limit + 1]
            snapshots = yield get([job_id for job_id, _ in piece])
            for (_, arrival), job in zip(piece, snapshots, strict=True):
                if _fits(job, wanted):
                    if len(jobs) == wanted.limit:
                        return Page(jobs, str(before))
                    jobs.append(job)
                    before = arrival
        if not further:
            return Page(jobs, None)
        if len(jobs) < wanted.limit:
            before = int(further)
    return Page(jobs, str(before))


def _few(wanted: Filter) -> Generator[Script[Any], Any, dict[str, int] | None]:
    """Those that fit, with their arrivals, where there are few to look at: in these states, or held by a worker."""
    found: dict[str, int] = {}
    holders = [b""]
    if wanted.worker is not None:
        holders = [entry[5] for entry in (yield from sessions(wanted.worker))]
    for holder in holders:
        is_all, *some = yield _request("few", holder, _begin(wanted), wanted)
        if not is_all:
            return None
        found.update(_candidates(some, wanted))
    return found


def _newest(few: dict[str, int], wanted: Filter) -> Looking:
    newest = sorted(few, key=lambda job_id: -few[job_id])
    page = newest[: wanted.limit]
    jobs = yield get(page)
    more = len(newest) > wanted.limit
    return Page([job for job in jobs if _fits(job, wanted)], str(few[page[-1]]) if more else None)


def oldest() -> Generator[Script[Any], Any, Oldest]:
    """When the oldest ready job of each queue was due. Of very many queues in several steps."""
    now, due, further = 0, dict[str, int](), b"0"
    while further:
        now, further, *found = yield Script("oldest", (further,), lambda reply, _: reply)
        for queue, moment in records.pairs(found):
            name = records.text(queue)
            due[name] = min(int(moment), due.get(name, int(moment)))
    return Oldest(int(now), due)


def sessions(name: str = "") -> Generator[Script[Any], Any, list[Reply]]:
    """The open ones, or those of one name."""
    entries: list[Reply] = []
    further = b"0"
    while further:
        further, *found = yield Script("sessions", (name.encode(), further), lambda reply, _: reply)
        entries += found
    return entries


_NO_VALUES = {b"b": b"", b"d": b"", b"r": b"", b"e": b"", b"m": msgspec.msgpack.encode({})}


def history(job_id: str) -> Script[list[HistoryRecord]]:
    """What happened to a job. That needs no large values: their places are empty."""

    def read(reply: Reply, _: bool) -> list[HistoryRecord]:
        if not reply:
            return []
        record, runner, entries, most = reply
        job = records.snapshot(job_id, record, False, runner, _NO_VALUES)
        return complete_history(job, map(records.event, entries), most)

    return Script("history", (as_named(job_id),), read)
