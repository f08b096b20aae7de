"""Jobs that a filter finds, page by page."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.job import Filter, Page, Snapshot
from headrace.store.contract import Store

PAGE = 500
PASSES = 100
"""How often to begin again, at most, for jobs that moved up past a page that was found by counting."""


def pages(store: Store, wanted: Filter) -> Iterator[list[Snapshot]]:
    """Pages of `wanted.limit` or fewer. Jobs of a page may be changed before the next is asked for."""
    while True:
        page = store.run(store.find(wanted))
        if page.jobs:
            yield page.jobs
        if page.cursor is None:
            return
        wanted = msgspec.structs.replace(wanted, after=page.cursor)


def whole_page(store: Store, wanted: Filter) -> Page:
    """One page as long as asked for: a store cuts a look short that has gone through many jobs in vain."""
    jobs: list[Snapshot] = []
    while True:
        page = store.run(store.find(wanted))
        jobs += page.jobs
        if page.cursor is None or len(page.jobs) == wanted.limit:
            return Page(jobs, page.cursor)
        wanted = msgspec.structs.replace(wanted, after=page.cursor, limit=wanted.limit - len(page.jobs))
