"""Jobs that a filter finds, and schedules, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count

from msgspec.structs import replace

from headrace.records import Filter, Page, ScheduleRecord, Snapshot
from headrace.store.contract import Store
from headrace.store.courses import Course, run_course
from headrace.store.facets import ScheduleLook, Schedules, facet

PAGE = 500
PASSES = 100
"""How often to begin again, at most, for jobs that moved up past a page that was found by counting."""


def pages(store: Store, wanted: Filter) -> Iterator[list[Snapshot]]:
    """Pages of `wanted.limit` or fewer. Jobs of a page may be changed before the next is asked for."""
    rest: Filter | None = wanted
    while rest is not None:
        page = store.run(store.find(rest))
        if page.jobs:
            yield page.jobs
        rest = following(rest, page)


async def apages(store: Store, wanted: Filter) -> AsyncIterator[list[Snapshot]]:
    """The same on an event loop."""
    rest: Filter | None = wanted
    while rest is not None:
        page = await store.arun(store.find(rest))
        if page.jobs:
            yield page.jobs
        rest = following(rest, page)


def following(wanted: Filter, page: Page) -> Filter | None:
    """What to ask for after a page; None: it was the last one."""
    return None if page.cursor is None else replace(wanted, after=page.cursor)


def list_schedules(store: Store, names: Sequence[str] = ()) -> Course[list[ScheduleRecord]]:
    """All schedules, by name, or those of these names."""
    schedules = facet(store, Schedules)
    if names:
        named: ScheduleLook = yield schedules.schedules(names)
        return named.records
    found: list[ScheduleRecord] = []
    while True:
        look: ScheduleLook = yield schedules.schedules(after=found[-1].name if found else "", limit=PAGE)
        found += look.records
        if not look.more:
            return found


LOOKS = 5
"""So often a store is asked for one page, at most: each time it goes through 20,000 jobs or fewer."""


def whole_page(store: Store, wanted: Filter, looks: int | None = LOOKS) -> Page:
    """One page as long as asked for: a store cuts a look short that has gone through many jobs in vain.

    After so many `looks` this one is cut short, too: it has fewer jobs than asked for, and a cursor.
    """
    return run_course(store, whole_page_course(store, wanted, looks))


def whole_page_course(store: Store, wanted: Filter, looks: int | None = LOOKS) -> Course[Page]:
    """What `whole_page` asks the store for."""
    jobs: list[Snapshot] = []
    for look in count(1):
        page: Page = yield store.find(wanted)
        jobs += page.jobs
        if page.cursor is None or len(page.jobs) == wanted.limit or look == looks:
            return Page(jobs, page.cursor)
        wanted = replace(wanted, after=page.cursor, limit=wanted.limit - len(page.jobs))
    raise AssertionError
