"""Jobs that an operator means: by a filter, all of them, or by part of an id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec.structs import replace

from headrace.errors import JobNotFound, UnclearId
from headrace.ops.forms import forms
from headrace.records import Filter, Page, Snapshot
from headrace.store.contract import CORE_FACETS
from headrace.store.courses import Course
from headrace.store.paging import PAGE, following
from headrace.store.selecting import Found as Found  # noqa: PLC0414  (for operators, who ask no store)
from headrace.store.selecting import Selection as Selection  # noqa: PLC0414
from headrace.store.selecting import check_searchable, search_course

if TYPE_CHECKING:
    from headrace.app import Headrace

LOOK = 10_000
"""How many of the newest jobs are looked at for part of an id, or of a task's name."""
ID_LENGTH = 32
"""Of the ids that headrace makes."""
SHOWN = 5
"""How many ids an error names, at most."""


def page_of_course(app: Headrace, selection: Selection) -> Course[Found]:
    """One page of jobs that fit, newest first: see `search_course`."""
    return (yield from search_course(app.store, selection))


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
