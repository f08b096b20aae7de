"""Tasks that are blocked for all workers of a store: which, why, and since when."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.errors import ConfigurationError
from headrace.ops import audit
from headrace.ops.documents import moment
from headrace.ops.forms import forms
from headrace.ops.selection import LOOK
from headrace.records import Filter, Page, SessionSnapshot
from headrace.store.blocking import Block, Blocking
from headrace.store.courses import Course
from headrace.store.facets import facet
from headrace.store.paging import PAGE, following
from headrace.values.names import check_name

if TYPE_CHECKING:
    from headrace.app import Headrace

LONGEST_REASON = 1_000


class BlockedTask(Struct, frozen=True):
    """A task whose jobs are not handed out."""

    task: str
    reason: str
    by: str
    since: datetime
    jobs: int
    """How many jobs wait because of it. Those that no worker has met in line yet are not among them."""


class BlockChange(Struct, frozen=True):
    """What became of a request to block or unblock a task."""

    task: str
    blocked: bool
    changed: bool
    """False: it was so already."""


def blocks_course(app: Headrace) -> Course[list[BlockedTask]]:
    """The tasks that are blocked, by name."""
    found: list[Block] = yield facet(app.store, Blocking).blocks()
    return [BlockedTask(block.task, block.reason, block.by, moment(block.at), block.jobs) for block in found]


blocks, ablocks = forms(blocks_course)


def known_tasks_course(app: Headrace) -> Course[set[str]]:
    """The names of tasks that the app, a worker or one of the newest jobs has: those that there are to block."""
    facet(app.store, Blocking)
    sessions: list[SessionSnapshot] = yield app.store.sessions()
    names = {*app.tasks, *(task for session in sessions for task in session.info.tasks)}
    looked = 0
    wanted: Filter | None = Filter(limit=PAGE)
    while wanted is not None and looked < LOOK:
        page: Page = yield app.store.find(wanted)
        names.update(job.task for job in page.jobs)
        looked, wanted = looked + len(page.jobs), following(wanted, page)
    return names


known_tasks, aknown_tasks = forms(known_tasks_course)


def block_course(app: Headrace, task: str, reason: str = "", by: str | None = None) -> Course[BlockChange]:
    """Hand out no more jobs of a task. What runs goes on. `by`: who wants that, if it is not who acts here."""
    if not reason.isprintable():
        raise ConfigurationError(f"The reason {reason!r} contains a character that cannot be printed.")
    if len(reason) > LONGEST_REASON:
        raise ConfigurationError(f"A reason has {LONGEST_REASON:,} characters at most, not {len(reason):,}.")
    who = by or audit.operator()
    changed = yield facet(app.store, Blocking).block(check_name("task", task), reason, who)
    yield from audit.note(app.store, "block", f"task {task}{f': {reason}' if reason else ''}", who)
    return BlockChange(task, True, changed)


block, ablock = forms(block_course)


def unblock_course(app: Headrace, task: str) -> Course[BlockChange]:
    """Let the jobs of a task run again: those that were kept back are in line where they were."""
    changed = yield facet(app.store, Blocking).unblock(check_name("task", task))
    yield from audit.note(app.store, "unblock", f"task {task}" if changed else "")
    return BlockChange(task, False, changed)


unblock, aunblock = forms(unblock_course)
