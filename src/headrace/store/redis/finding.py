"""Looking for jobs, in bounded steps: along an index where what is asked for has one, else through all of them.

And for sessions, from the first to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from headrace.glob import matcher
from headrace.job import Filter, Page, Snapshot, State
from headrace.store.redis import records
from headrace.store.redis.operation import Reply, Script

Get = Callable[[list[str]], Script[list[Snapshot | None]]]
Looking = Generator[Script[Any], Any, Page]

STEPS = 20
"""Along an index: how many steps one look takes at most; if they do not fill a page, it is cut short."""


def find(wanted: Filter, get: Get) -> Looking:
    """Newest put first."""
    index = _index(wanted)
    return _through(wanted, get) if index is None else _along(index, wanted, get)


def _index(wanted: Filter) -> str | None:
    if wanted.tag is not None:
        return f"tag:{wanted.tag}"
    if wanted.schedule is not None:
        return f"schedule:{wanted.schedule}"
    if wanted.tracked:
        return "tracked"
    if wanted.group is not None and wanted.states == (State.FAILED,):
        return f"group:{wanted.group}"
    return None


def _request(script: str, where: bytes, before: int, wanted: Filter, *more: bytes) -> Script[Any]:
    states = "".join(str(records.STATES.index(state)) for state in wanted.states).encode()
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


def _along(index: str, wanted: Filter, get: Get) -> Looking:
    jobs: list[Snapshot] = []
    before = _begin(wanted)
    for _ in range(STEPS):
        further, *found = yield _request("walk", index.encode(), before, wanted)
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


def _through(wanted: Filter, get: Get) -> Looking:
    """No index of all jobs is paid for by every put: look at them all and keep the newest."""
    newest: dict[str, int] = {}
    before = _begin(wanted)
    for place in (yield from _places(wanted)):
        cursor = b"0"
        while True:
            cursor, *found = yield _request("scan", cursor, before, wanted, place)
            newest.update(_candidates(found, wanted))
            if len(newest) > 10 * wanted.limit or cursor == b"0":
                newest = dict(sorted(newest.items(), key=lambda item: -item[1])[: wanted.limit + 1])
            if cursor == b"0":
                break
    page = list(newest)[: wanted.limit]
    jobs = yield get(page)
    more = len(newest) > wanted.limit
    return Page([job for job in jobs if _fits(job, wanted)], str(newest[page[-1]]) if more else None)


def _places(wanted: Filter) -> Generator[Script[Any], Any, list[bytes]]:
    """Where to look: what a worker's sessions hold, the lists of ended jobs, or everywhere."""
    if wanted.worker is not None:
        return [b"held:" + entry[5] for entry in (yield from sessions(wanted.worker))]
    if wanted.states and all(state.final for state in wanted.states):
        return [state.value.encode() for state in wanted.states]
    return [b""]


def sessions(name: str = "") -> Generator[Script[Any], Any, list[Reply]]:
    """The open ones, or those of one name."""
    entries: list[Reply] = []
    further = b"0"
    while further:
        further, *found = yield Script("sessions", (name.encode(), further), lambda reply, _: reply)
        entries += found
    return entries
