"""Jobs that a filter finds, and schedules, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import count
from typing import TypedDict

from msgspec.structs import replace

from headrace.errors import ConfigurationError
from headrace.records import Filter, Page, ScheduleRecord, Snapshot, State
from headrace.store.contract import Store
from headrace.store.courses import Course, run_course
from headrace.store.facets import SEARCH, ScheduleLook, Schedules, Tags, facet
from headrace.values.glob import is_glob

PAGE = 500
PASSES = 100
"""How often to begin again, at most, for jobs that moved up past a page that was found by counting."""


class JobQuery(TypedDict, total=False):
    """Which jobs `app.jobs` and `app.ajobs` find: those that fit all that is given."""

    state: State | str | Iterable[State | str]
    """One or several."""
    queue: str | None
    task: str | None
    """A name or a GLOB."""
    group: str | None
    tag: str | None
    tracked: bool | None
    worker: str | None
    """Running under this one."""


def query_of(
    store: Store,
    *,
    state: State | str | Iterable[State | str] = (),
    queue: str | None = None,
    task: str | None = None,
    group: str | None = None,
    tag: str | None = None,
    tracked: bool | None = None,
    worker: str | None = None,
) -> Filter:
    """A `JobQuery` as the store takes it."""
    states = (state,) if isinstance(state, str) else tuple(state)
    try:
        named = tuple(State(one) for one in states)
    except ValueError as error:
        raise ConfigurationError(f"{error}. A state is one of {', '.join(State)}.") from None
    like = task is not None and is_glob(task)
    if like or tag is not None or tracked is not None or worker is not None:
        facet(store, Tags, SEARCH)
    return Filter(
        states=named, queue=queue, task=None if like else task, task_like=task if like else None,
        group=group, tag=tag, tracked=tracked, worker=worker, limit=PAGE,
    )  # fmt: skip


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
