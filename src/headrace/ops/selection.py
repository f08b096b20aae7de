"""Jobs that an operator means: by a filter, all of them, or by part of an id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import JobNotFound, StillNeeded, UnclearId
from headrace.records import Filter, Page, Snapshot
from headrace.store import Store
from headrace.store.contract import CORE_FACETS
from headrace.store.paging import PAGE, PASSES, pages, whole_page
from headrace.values.codec import decode_error

LOOK = 10_000
"""How many of the newest jobs are looked at for part of an id."""
ID_LENGTH = 32
"""Of the ids that headrace makes."""
SHOWN = 5
"""How many ids an error names, at most."""

Act = Callable[[Sequence[str]], Sequence[bool]]
"""Does something to jobs, and answers per job whether it was done."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which jobs: what a store's own filter finds, and of those the ones that fit the rest."""

    wanted: Filter
    put_before: int | None = None
    put_after: int | None = None
    error: str | None = None
    """Part of the error's type or message, in any case."""
    not_group: str | None = None
    """None that failed in this group."""

    def fits(self, job: Snapshot) -> bool:
        """Whether it fits what the store's filter does not know."""
        if self.put_before is not None and job.created >= self.put_before:
            return False
        if self.put_after is not None and job.created <= self.put_after:
            return False
        if self.not_group is not None and job.group == self.not_group:
            return False
        if self.error is None:
            return True
        error = decode_error(job.error)
        return self.error.casefold() in f"{error.type}: {error.message}".casefold()


def select(store: Store, selection: Selection) -> Iterator[list[Snapshot]]:
    """The jobs, page by page, newest first. Jobs of a page may be changed before the next is asked for."""
    for jobs in pages(store, replace(selection.wanted, limit=PAGE)):
        if found := [job for job in jobs if selection.fits(job)]:
            yield found


def page_of(store: Store, selection: Selection) -> Page:
    """One page of as many jobs as the filter's limit says, if there are as many."""
    if selection == Selection(wanted=selection.wanted):
        return whole_page(store, selection.wanted)
    wanted, missing = replace(selection.wanted, limit=PAGE), selection.wanted.limit
    jobs: list[Snapshot] = []
    while True:
        page = store.run(store.find(wanted))
        fitting = [place for place, job in enumerate(page.jobs) if selection.fits(job)]
        if len(fitting) > missing:  # it ends within this page: once more, for the cursor behind its last job
            wanted = replace(wanted, limit=fitting[missing - 1] + 1)
            continue
        jobs += (page.jobs[place] for place in fitting)
        missing -= len(fitting)
        if page.cursor is None or not missing:
            return Page(jobs, page.cursor)
        wanted = replace(wanted, after=page.cursor)


def count(store: Store, selection: Selection, limit: int | None = None) -> int:
    """How many there are, counted up to a limit."""
    total = 0
    for jobs in select(store, selection):
        total += len(jobs)
        if limit is not None and total >= limit:
            return limit
    return total


def act_on_all(
    store: Store,
    selection: Selection,
    act: Act,
    *,
    limit: int | None = None,
    advance: Callable[[int], None] = lambda number: None,
) -> tuple[int, int]:
    """Do something to all jobs of a selection. Returns for how many it was done, and for how many not.

    Where a store finds a page by counting, jobs that leave the selection make others move up past the next page. So it
    begins again until it meets no job that it has not met before; a job that comes back is not met twice.
    """
    met: set[str] = set()
    done = 0
    for _ in range(PASSES):
        before = len(met)
        for jobs in select(store, selection):
            ids = [job.id for job in jobs if job.id not in met]
            if limit is not None:
                ids = ids[: limit - len(met)]
            if ids:
                done += sum(act(ids))
                met.update(ids)
                advance(len(ids))
            if limit is not None and len(met) >= limit:
                return done, len(met) - done
        if len(met) == before:
            break
    return done, len(met) - done


def delete_unneeded(store: Store, ids: Sequence[str]) -> list[bool]:
    """Delete all but those that other jobs still need."""
    try:
        return store.run(store.delete(ids)) if ids else []
    except StillNeeded:
        if len(ids) == 1:
            return [False]
    middle = len(ids) // 2
    return [*delete_unneeded(store, ids[:middle]), *delete_unneeded(store, ids[middle:])]


class IdSearch(NamedTuple):
    """Which ids have a part in them, and how many jobs were looked at."""

    ids: list[str]
    looked: int


def search_ids(store: Store, part: str) -> IdSearch:
    """Look for part of an id among the newest jobs."""
    looked, found = 0, list[str]()
    if len(part) >= ID_LENGTH and store.facets >= CORE_FACETS:
        return IdSearch(found, looked)  # it is a whole id already
    for jobs in pages(store, Filter(limit=PAGE)):
        found += [job.id for job in jobs if part in job.id]
        looked += len(jobs)
        if looked >= LOOK or len(found) > SHOWN:
            break
    return IdSearch(found, looked)


def whole_ids(store: Store, parts: Sequence[str]) -> list[str]:
    """The ids that are meant: each by itself, or by a part that one job alone has in its id.

    A part that no job has stays as it is. One that several have is refused, before anything is done.
    """
    jobs = store.run(store.get(parts))
    return [part if job is not None else _only_one(store, part) or part for part, job in zip(parts, jobs, strict=True)]


def whole_id(store: Store, part: str) -> str:
    """The id that is meant. `JobNotFound` if there is none."""
    (found,) = whole_ids(store, [part])
    if found == part and store.run(store.get([part]))[0] is None:
        if len(part) >= ID_LENGTH:
            raise JobNotFound(part)
        raise UnclearId(
            f"There is no job {part!r}, and none of the newest {search_ids(store, part).looked:,} has that in its id."
        )
    return found


def _only_one(store: Store, part: str) -> str | None:
    found = search_ids(store, part).ids
    if len(found) > 1:
        shown = ", ".join(found[:SHOWN]) + (" and others" if len(found) > SHOWN else "")
        raise UnclearId(f"{part!r} is part of several ids: {shown}. Give more of it.")
    return found[0] if found else None
