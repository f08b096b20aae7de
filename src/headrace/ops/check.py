"""Whether an app's code can run what its store has: the arguments of jobs and schedules, decoded as a worker would.

What a run records for later runs to read belongs here as well: one more kind of `Misfit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from headrace.editing import WAITING
from headrace.errors import ArgumentsError, Unsupported
from headrace.ops.forms import forms
from headrace.records import Filter, Page, ScheduleRecord, State
from headrace.store.contract import Facet
from headrace.store.courses import Course
from headrace.store.facets import ScheduleLook, Schedules, facet
from headrace.store.paging import PAGE, following
from headrace.values.codec import clean
from headrace.worker.reconcile import app_name

if TYPE_CHECKING:
    from headrace.app import Headrace

AGAIN = (State.RUNNING, State.FAILED, State.CANCELLED)
"""States of jobs that may run once more: after a crash or an error, or when they are revived."""

What: TypeAlias = Literal["job", "schedule"]

MOST_TASKS = 500
MOST_REASONS = 20
"""How many tasks, and reasons of a task, are told apart. The rest is counted together: memory has a bound."""
LONGEST_REASON = 300
OTHER = "(other reasons)"
OTHERS = "(other tasks)"
UNKNOWN = "this app has no such task"


class Misfit(Struct, frozen=True):
    """Jobs or schedules of one task that would fail for the same reason."""

    what: What
    task: str
    count: int
    example: str
    """Id of one of the jobs, or name of one of the schedules."""
    why: str


class Checked(Struct, frozen=True):
    """What a check has found."""

    ok: bool
    jobs: int
    """How many were looked at."""
    schedules: int
    misfits: list[Misfit]
    """Most first."""
    left_out: list[str]
    """What this store can't show, in sentences."""


class _Tally:
    """Misfits, counted as they are found."""

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[What, str], tuple[int, str]]] = {}

    def add(self, what: What, task: str, example: str, why: str) -> None:
        task = task if task in self._found or len(self._found) < MOST_TASKS else OTHERS
        reasons = self._found.setdefault(task, {})
        key = what, clean(why)[:LONGEST_REASON]
        if key not in reasons and len(reasons) >= MOST_REASONS:
            key = what, OTHER
        count, first = reasons.get(key, (0, example))
        reasons[key] = count + 1, first

    def misfits(self) -> list[Misfit]:
        found = [
            Misfit(what, task, count, example, why)
            for task, reasons in self._found.items()
            for (what, why), (count, example) in reasons.items()
        ]
        return sorted(found, key=lambda misfit: (-misfit.count, misfit.task, misfit.why))


def check_course(
    app: Headrace, *, states: Sequence[State] = WAITING, advance: Callable[[int], Any] = lambda number: None
) -> Course[Checked]:
    """Decode the arguments of all jobs in these states, and of all schedules, with the tasks of this app.

    Nothing is written. `advance` hears how many more jobs have been looked at.

    >>> from headrace import Headrace
    >>> old, new = Headrace("sqlite:///:memory:"), Headrace("sqlite:///:memory:")
    >>> @old.task(name="pay")
    ... def pay(amount: float) -> None: ...
    >>> @new.task(name="pay")
    ... def pay_in(amount: float, currency: str) -> None: ...
    >>> job = pay.enqueue(9.5)
    >>> _ = new.use_store(old.store)
    >>> found = check(new)
    >>> found.ok, found.misfits[0].why, found.misfits[0].example == job.id
    (False, 'the arguments do not fit pay: Object missing required field `currency`', True)
    """
    tally = _Tally()
    jobs = 0
    wanted: Filter | None = Filter(states=tuple(states), limit=PAGE)
    while wanted is not None:
        page: Page = yield app.store.find(wanted)
        for job in page.jobs:
            if why := _misfit(app, job.task, job.body):
                tally.add("job", job.task, job.id, why)
        jobs += len(page.jobs)
        advance(len(page.jobs))
        wanted = following(wanted, page)
    left_out: list[str] = []
    schedules = 0
    if Facet.SCHEDULES in app.store.facets:
        try:
            schedules = yield from _check_schedules(app, tally)
        except Unsupported as error:  # a server that does not show them
            left_out.append(str(error))
    misfits = tally.misfits()
    return Checked(not misfits, jobs, schedules, misfits, left_out)


check, acheck = forms(check_course)


def _check_schedules(app: Headrace, tally: _Tally) -> Course[int]:
    store, name = facet(app.store, Schedules), app_name(app)
    checked, after = 0, ""
    while True:
        look: ScheduleLook = yield store.schedules(after=after, limit=PAGE)
        for record in look.records:
            if _is_rewritten(app, name, record):
                continue
            checked += 1
            if why := _misfit(app, record.definition.task, record.definition.body):
                tally.add("schedule", record.definition.task, record.name, why)
        if not look.more:
            return checked
        after = look.records[-1].name


def _is_rewritten(app: Headrace, name: str, record: ScheduleRecord) -> bool:
    """Whether the first worker with this code stores a schedule anew, or removes it, as its code declares."""
    return record.name in app.declared or record.definition.declared_by == name


def _misfit(app: Headrace, name: str, body: bytes) -> str:
    """Why a worker could not call a task with these arguments; empty: it could."""
    task = app.tasks.get(name)
    if task is None:
        return UNKNOWN
    try:
        task.arguments.decode(body)
    except ArgumentsError as error:
        return str(error)
    except Exception as error:  # of the user's own classes
        return f"{type(error).__name__}: {error}"
    return ""
