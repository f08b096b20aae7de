"""Jobs that fit what a store's own filter knows, and what only a look at each job tells: time, error, arguments."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import ConfigurationError
from headrace.records import Filter, Page, Snapshot, State
from headrace.store.contract import Store
from headrace.store.courses import Course
from headrace.store.facets import SEARCH, Tags, facet
from headrace.store.paging import PAGE, whole_page_course
from headrace.values.codec import decode_error
from headrace.values.durations import Duration, milliseconds
from headrace.values.glob import is_glob

LONGEST_SEARCH = 2.0
"""Seconds after which a search that has no index ends where it is, and says how far it looked."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which jobs: what a store's own filter finds, and of those the ones that fit the rest."""

    wanted: Filter
    put_before_ms: int | None = None
    put_after_ms: int | None = None
    error: str | None = None
    """Part of the error's type or message, in any case."""
    arguments: tuple[tuple[str, str], ...] = ()
    """The name of an argument (`user.id`: of a value within it), and a text that its value has in it, in any case."""
    not_group: str | None = None
    """None that failed in this group."""

    @property
    def is_indexed(self) -> bool:
        """Whether the store's own filter says it all."""
        return self == Selection(wanted=self.wanted)

    def fits(self, job: Snapshot) -> bool:
        """Whether it fits what the store's filter does not know."""
        if self.put_before_ms is not None and job.created >= self.put_before_ms:
            return False
        if self.put_after_ms is not None and job.created <= self.put_after_ms:
            return False
        if self.not_group is not None and job.group == self.not_group:
            return False
        if self.error is not None:
            error = decode_error(job.error)
            if self.error.casefold() not in f"{error.type}: {error.message}".casefold():
                return False
        return not self.arguments or _has(job.body, self.arguments)


def _has(body: bytes, wanted: Iterable[tuple[str, str]]) -> bool:
    """Whether the values of all these arguments have these texts in them.

    >>> body = b'{"to": "Ada@example.org", "order": {"id": 17, "tags": ["eu"]}}'
    >>> [_has(body, [pair]) for pair in (("to", "ada@"), ("order.id", "17"), ("order.tags", "eu"), ("cc", ""))]
    [True, True, True, False]
    """
    try:
        arguments = json.loads(body)
    except (ValueError, RecursionError):
        return False  # not ours, or damaged: it has no arguments to look into
    return all(_value_has(arguments, path.split("."), text.casefold()) for path, text in wanted)


def _value_has(value: Any, path: list[str], text: str) -> bool:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return text in (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).casefold()


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
    before: datetime | Duration | None
    """Put before this moment, or longer ago than this."""
    after: datetime | Duration | None
    error: str | None
    """With this in the error's type or message, in any case."""
    args: Mapping[str, str] | None
    """With these texts in the values of these arguments, in any case. `user.id` is a value within an argument."""


def query_of(
    store: Store,
    zone: ZoneInfo,
    now: int,
    *,
    state: State | str | Iterable[State | str] = (),
    queue: str | None = None,
    task: str | None = None,
    group: str | None = None,
    tag: str | None = None,
    tracked: bool | None = None,
    worker: str | None = None,
    before: datetime | Duration | None = None,
    after: datetime | Duration | None = None,
    error: str | None = None,
    args: Mapping[str, str] | None = None,
) -> Selection:
    """A `JobQuery` as a search takes it."""
    states = (state,) if isinstance(state, str) else tuple(state)
    try:
        named = tuple(State(one) for one in states)
    except ValueError as problem:
        raise ConfigurationError(f"{problem}. A state is one of {', '.join(State)}.") from None
    like = task is not None and is_glob(task)
    wanted = Filter(
        states=named, queue=queue, task=None if like else task, task_like=task if like else None,
        group=group, tag=tag, tracked=tracked, worker=worker, limit=PAGE,
    )  # fmt: skip
    selection = Selection(
        wanted=wanted,
        put_before_ms=_past("before", before, zone, now),
        put_after_ms=_past("after", after, zone, now),
        error=error,
        arguments=_argument_texts(args or {}),
    )
    check_searchable(store, selection)
    return selection


def _past(name: str, at: datetime | Duration | None, zone: ZoneInfo, now: int) -> int | None:
    if at is None:
        return None
    if isinstance(at, datetime):
        return round((at if at.tzinfo else at.replace(tzinfo=zone)).timestamp() * 1000)
    return now - milliseconds(at, name)


def _argument_texts(args: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if not isinstance(args, Mapping) or not all(isinstance(part, str) for pair in args.items() for part in pair):
        raise ConfigurationError(f"args= is a mapping of names to texts, as in {{'to': 'ada@'}}, not {args!r}.")
    return tuple(args.items())


def check_searchable(store: Store, selection: Selection) -> None:
    """Refuse what a store without tags cannot look for."""
    wanted = selection.wanted
    if wanted.tag is not None or wanted.task_like is not None or wanted.tracked or wanted.worker is not None:
        facet(store, Tags, SEARCH)


class Found(Page, frozen=True):
    """A page of a search, and how far it looked."""

    looked: int | None = None
    """How many jobs were looked at one by one. None: the store's own filter found them."""
    reached: int | None = None
    """When the last of these was put."""


def search_course(store: Store, selection: Selection) -> Course[Found]:
    """One page of as many jobs as the filter's limit says, if there are as many, newest first.

    A search in vain is cut short after some looks or seconds: its page has fewer jobs, and a cursor.
    """
    check_searchable(store, selection)
    if selection.is_indexed:
        page: Page = yield from whole_page_course(store, selection.wanted)
        return Found(page.jobs, page.cursor)
    wanted, missing = replace(selection.wanted, limit=PAGE), selection.wanted.limit
    jobs: list[Snapshot] = []
    looked, reached, until = 0, None, time.monotonic() + LONGEST_SEARCH
    while True:
        page = yield from whole_page_course(store, wanted)
        fitting = [place for place, job in enumerate(page.jobs) if selection.fits(job)]
        if len(fitting) > missing:  # it ends within this page: once more, for the cursor behind its last job
            wanted = replace(wanted, limit=fitting[missing - 1] + 1)
            continue
        jobs += (page.jobs[place] for place in fitting)
        missing -= len(fitting)
        looked += len(page.jobs)
        reached = page.jobs[-1].created if page.jobs else reached
        is_over = time.monotonic() >= until
        if page.cursor is None or not missing or is_over or len(page.jobs) < wanted.limit:
            return Found(jobs, page.cursor, looked, reached)
        wanted = replace(wanted, after=page.cursor)
