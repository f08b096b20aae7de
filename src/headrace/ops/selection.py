"""Jobs that an operator means: by a filter, all of them, or by part of an id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import JobNotFound, UnclearId
from headrace.ops.forms import forms
from headrace.records import Filter, Page, Snapshot
from headrace.store import Store
from headrace.store.contract import CORE_FACETS
from headrace.store.courses import Course
from headrace.store.facets import SEARCH, Tags, facet
from headrace.store.paging import LOOKS, PAGE, following, whole_page_course
from headrace.values.codec import decode_error

if TYPE_CHECKING:
    from headrace.app import Headrace

LOOK = 10_000
"""How many of the newest jobs are looked at for part of an id, or of a task's name."""
ID_LENGTH = 32
"""Of the ids that headrace makes."""
SHOWN = 5
"""How many ids an error names, at most."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which jobs: what a store's own filter finds, and of those the ones that fit the rest."""

    wanted: Filter
    put_before_ms: int | None = None
    put_after_ms: int | None = None
    error: str | None = None
    """Part of the error's type or message, in any case."""
    not_group: str | None = None
    """None that failed in this group."""

    def fits(self, job: Snapshot) -> bool:
        """Whether it fits what the store's filter does not know."""
        if self.put_before_ms is not None and job.created >= self.put_before_ms:
            return False
        if self.put_after_ms is not None and job.created <= self.put_after_ms:
            return False
        if self.not_group is not None and job.group == self.not_group:
            return False
        if self.error is None:
            return True
        error = decode_error(job.error)
        return self.error.casefold() in f"{error.type}: {error.message}".casefold()


def check_searchable(store: Store, selection: Selection) -> None:
    """Refuse what a store without tags cannot look for."""
    wanted = selection.wanted
    if wanted.tag is not None or wanted.task_like is not None or wanted.tracked or wanted.worker is not None:
        facet(store, Tags, SEARCH)


def page_of_course(app: Headrace, selection: Selection) -> Course[Page]:
    """One page of as many jobs as the filter's limit says, if there are as many, newest first.

    A search in vain is cut short after some looks: its page has fewer, and a cursor.
    """
    store = app.store
    check_searchable(store, selection)
    if selection == Selection(wanted=selection.wanted):
        return (yield from whole_page_course(store, selection.wanted))
    wanted, missing = replace(selection.wanted, limit=PAGE), selection.wanted.limit
    jobs: list[Snapshot] = []
    left = LOOKS * LOOK
    while True:
        page: Page = yield from whole_page_course(store, wanted)
        left -= PAGE
        fitting = [place for place, job in enumerate(page.jobs) if selection.fits(job)]
        if len(fitting) > missing:  # it ends within this page: once more, for the cursor behind its last job
            wanted = replace(wanted, limit=fitting[missing - 1] + 1)
            continue
        jobs += (page.jobs[place] for place in fitting)
        missing -= len(fitting)
        if page.cursor is None or not missing or left <= 0 or len(page.jobs) < wanted.limit:
            return Page(jobs, page.cursor)
        wanted = replace(wanted, after=page.cursor)


page_of, apage_of = forms(page_of_course)


def count_course(app: Headrace, selection: Selection, limit: int | None = None) -> Course[int]:
    """How many jobs there are, counted up to a limit."""
    check_searchable(app.store, selection)
    total = 0
    wanted: Filter | None = replace(selection.wanted, limit=PAGE)
    while wanted is not None:
        page: Page = yield app.store.find(wanted)
        total += sum(map(selection.fits, page.jobs))
        if limit is not None and total >= limit:
            return limit
        wanted = following(wanted, page)
    return total


count, acount = forms(count_course)


class IdSearch(NamedTuple):
    """Which ids have a part in them, and how many jobs were looked at."""

    ids: list[str]
    looked: int


def search_ids_course(app: Headrace, part: str) -> Course[IdSearch]:
    """Look for part of an id among the newest jobs."""
    looked, found = 0, list[str]()
    if not part or (len(part) >= ID_LENGTH and app.store.facets >= CORE_FACETS):
        return IdSearch(found, looked)  # it is a whole id already, or a variable of a shell that is not set
    wanted: Filter | None = Filter(limit=PAGE)
    while wanted is not None and looked < LOOK and len(found) <= SHOWN:
        page: Page = yield app.store.find(wanted)
        found += [job.id for job in page.jobs if part in job.id]
        looked += len(page.jobs)
        wanted = following(wanted, page)
    return IdSearch(found, looked)


search_ids, asearch_ids = forms(search_ids_course)


def whole_ids_course(app: Headrace, parts: Sequence[str]) -> Course[list[str]]:
    """The ids that are meant: each by itself, or by a part that one job alone has in its id.

    A part that no job has stays as it is. One that several have is refused, before anything is done.
    """
    jobs: list[Snapshot | None] = yield app.store.get(parts)
    whole: list[str] = []
    for part, job in zip(parts, jobs, strict=True):
        only = None if job is not None else (yield from _only_one(app, part))
        whole.append(only or part)
    return whole


whole_ids, awhole_ids = forms(whole_ids_course)


def find_job_course(app: Headrace, part: str) -> Course[Snapshot]:
    """The job with this id, or the only one of the newest that has this in its id. `JobNotFound` if there is none."""
    (job_id,) = yield from whole_ids_course(app, [part])
    (job,) = yield app.store.get([job_id])
    if job is not None:
        return cast("Snapshot", job)
    if job_id != part or len(part) >= ID_LENGTH:
        raise JobNotFound(job_id)
    looked = (yield from search_ids_course(app, part)).looked
    raise UnclearId(f"There is no job {part!r}, and none of the newest {looked:,} has that in its id.")


find_job, afind_job = forms(find_job_course)


def _only_one(app: Headrace, part: str) -> Course[str | None]:
    found = (yield from search_ids_course(app, part)).ids
    if len(found) > 1:
        shown = ", ".join(found[:SHOWN]) + (" and others" if len(found) > SHOWN else "")
        raise UnclearId(f"{part!r} is part of several ids: {shown}. Give more of it.")
    return found[0] if found else None
