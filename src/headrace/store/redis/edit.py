"""Acts on jobs that are there, so many with one script: cancel, delete, revive, take back, edit, tag."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec

from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.facets import Edit
from headrace.store.redis import requests
from headrace.store.redis.layout import IDS_AT_ONCE
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.store.redis.requests import as_named


def each(script: str, ids: Sequence[str], *, repeatable: bool = True) -> Operation[list[bool]]:
    """Call a script that takes ids and nothing else."""
    return _in_parts(ids, lambda part: Script(script, tuple(map(as_named, part)), _answers, repeatable=repeatable))


def revive(ids: Sequence[str]) -> Generator[Script[Any], Any, list[bool]]:
    """In the order of arrival, whatever the order of the ids: `behind` is the last one that has been seen to."""
    named, revived = tuple(map(as_named, ids)), [False] * len(ids)
    behind = b"0"
    while behind:
        behind, *answers = yield Script("revive", (behind, *named), lambda reply, _: reply, repeatable=False)
        revived = [before or bool(answer) for before, answer in zip(revived, answers, strict=True)]
    return revived


def edit(ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
    limits.check_moment(change.run_at, change.delay)
    edited = (*requests.edit(change), limits.what_changes(change).encode())
    return _in_parts(ids, lambda part: Script("edit", (*edited, *map(as_named, part)), _answers, repeatable=False))


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
