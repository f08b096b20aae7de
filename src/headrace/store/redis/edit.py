"""Acts on jobs that are there, so many with one script: cancel, delete, revive, take back, edit, tag, log, update."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

import msgspec

from headrace.records import State
from headrace.store import limits
from headrace.store.batches import thousands
from headrace.store.contract import Operation
from headrace.store.facets import Edit, Past
from headrace.store.redis import records, requests
from headrace.store.redis.layout import IDS_AT_ONCE, PARENTS_AT_ONCE, STATES
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.store.redis.requests import as_named


def each(script: str, ids: Sequence[str], *first: bytes, repeatable: bool = True) -> Operation[list[bool]]:
    """Call a script that takes ids, and what comes first."""
    return _in_parts(ids, lambda part: Script(script, (*first, *map(as_named, part)), _answers, repeatable=repeatable))


def revive(ids: Sequence[str], to: str | None, states: Collection[State]) -> Generator[Script[Any], Any, list[bool]]:
    """In the order of arrival, whatever the order of the ids: one that comes after another of them waits for it."""
    allowed, queue = "".join(str(STATES.index(state)) for state in states).encode(), (to or "").encode()
    revived, left = [False] * len(ids), list(range(len(ids)))
    if len(ids) > IDS_AT_ONCE:
        arrivals: list[int] = []
        for part in thousands(ids):
            arrivals += yield Script("revive", (b"order", b"", *map(as_named, part)), lambda reply, _: reply)
        left.sort(key=arrivals.__getitem__)
    while left:
        places, left = left[:IDS_AT_ONCE], left[IDS_AT_ONCE:]
        named = (as_named(ids[place]) for place in places)
        answers = yield Script("revive", (allowed, queue, *named), lambda reply, _: reply, repeatable=False)
        for place, answer in zip(places, answers, strict=True):
            revived[place] = answer == 1
        left = [place for place, answer in zip(places, answers, strict=True) if answer < 0] + left
    return revived


def depend(job_id: str, add: Sequence[str], remove: Sequence[str]) -> Operation[bool]:
    """Work out what the job is to come after from what it comes after, unless that changes meanwhile."""
    added = tuple(dict.fromkeys(requests.names([job]) for job in add))
    gone = {requests.names([job]) for job in remove}.difference(added)
    words = limits.what_depends(add, remove).encode()
    changes = (*_in_parts_of(sorted(gone), b"r"), *_in_parts_of(added, b"m"))

    def work() -> Generator[Script[Any], Any, bool]:
        answer = 2
        while answer == 2:
            before = b""
            for part in _in_parts_of(added) or [b""]:
                before = (yield Script("parents", (as_named(job_id), part), lambda reply, _: reply)) or b""
            kept = (piece for piece in records.pieces(before) if piece not in gone)
            after = tuple(dict.fromkeys((*kept, *added)))
            limits.check_parents(job_id, len(after))
            arguments = (as_named(job_id), before, b"".join(after), words, *changes)
            answer = yield Script("depend", arguments, lambda reply, _: reply, repeatable=False)
        return bool(answer)

    return Steps(work, writes=True)


def _in_parts_of(pieces: Sequence[bytes], letter: bytes = b"") -> list[bytes]:
    """As many at a time as one step links."""
    return [letter + b"".join(pieces[i : i + PARENTS_AT_ONCE]) for i in range(0, len(pieces), PARENTS_AT_ONCE)]


def edit(ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
    limits.check_moment(change.run_at, change.delay)
    edited = (*requests.edit(change), limits.what_changes(change).encode())
    return _in_parts(ids, lambda part: Script("edit", (*edited, *map(as_named, part)), _answers, repeatable=False))


def restore(pasts: Sequence[Past]) -> Operation[list[bool]]:
    by_id = {past.id: past for past in pasts}

    def act(part: Sequence[str]) -> Script[list[bool]]:
        return Script("restore", (requests.pasts([by_id[job_id] for job_id in part]),), _answers, repeatable=False)

    return _in_parts(list(by_id), act)


def log(ids: Sequence[str], line: str) -> Operation[list[bool]]:
    return each("log", ids, line.encode(), repeatable=False)


def update(job_id: str, expected: bytes | None, data: bytes) -> Operation[bool | None]:
    def read(reply: Reply, _: bool) -> bool | None:
        return None if reply < 0 else bool(reply)

    return Script("update", (as_named(job_id), expected or b"", data), read, repeatable=False)


def tag(ids: Sequence[str], remove: Sequence[str], add: Sequence[str], tracked: bool | None) -> Operation[list[bool]]:
    return _in_parts(ids, lambda part: Script("tag", (msgspec.msgpack.encode([part, remove, add, tracked]),), _answers))


def _answers(reply: Reply, _: bool) -> list[bool]:
    return [bool(answer) for answer in reply]


def _in_parts(ids: Sequence[str], act: Callable[[Sequence[str]], Script[list[bool]]]) -> Operation[list[bool]]:
    if len(ids) <= IDS_AT_ONCE:
        return act(ids)

    def work() -> Generator[Script[Any], Any, list[bool]]:
        found: list[bool] = []
        for first in range(0, len(ids), IDS_AT_ONCE):
            found += yield act(ids[first : first + IDS_AT_ONCE])
        return found

    return Steps(work, writes=True)
