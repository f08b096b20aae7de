"""Families: jobs that are related by dependencies, however indirectly.

A store fails a job whose parent is removed. So a family leaves its store as a whole, or stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from graphlib import TopologicalSorter
from typing import TypeVar

from msgspec import Struct

from headrace.records import Filter, State
from headrace.store import Store
from headrace.store.paging import pages

WAITING = (State.READY, State.SCHEDULED, State.BLOCKED)
T = TypeVar("T")


class Family(Struct, frozen=True):
    """Jobs that wait, parents first, and why they can't leave (empty: they can)."""

    ids: list[str]
    tied: str


def families(source: Store, at_once: int) -> list[Family]:
    """All families with a job that is blocked by its parents."""
    listed = list(pages(source, Filter(states=(State.BLOCKED,), limit=at_once)))
    known = {job.id: job for page in reversed(listed) for job in reversed(page) if job.after}  # the oldest first
    related = {name: job.after for name, job in known.items()}
    others = {parent for after in related.values() for parent in after} - known.keys()
    for part in parts(sorted(others), at_once):
        known |= {
            job.id: job for job in source.run(source.get(part)) if job is not None and job.state is not State.DONE
        }
    head = _heads({name: [parent for parent in after if parent in known] for name, after in related.items()})
    found: dict[str, list[str]] = {}
    tied: dict[str, str] = {}
    for name in TopologicalSorter(related).static_order():
        if name in known and known[name].state in WAITING:
            found.setdefault(head(name), []).append(name)
        elif name in known:
            tied[head(name)] = f"It is related to job {name}, which stays: it is {known[name].state.value}."
    return [Family(ids, tied.get(first, "")) for first, ids in found.items()]


def _heads(related: dict[str, list[str]]) -> Callable[[str], str]:
    """Finds the same job for all members of a family."""
    above: dict[str, str] = {}

    def head(name: str) -> str:
        while (over := above.get(name, name)) != name:
            above[name] = above.get(over, over)
            name = over
        return name

    for name, parents in related.items():
        for parent in parents:
            above[head(name)] = head(parent)
    return head


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
