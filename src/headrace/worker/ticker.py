"""The ticker: looks which schedules are due, works out their jobs, and has the store put them.

Any number of workers tick at the same time: a tick counts for the version of the schedule that it was worked out from,
so the one that comes first counts, and the others change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace import crashpoints
from headrace.enqueueing import announced
from headrace.errors import ConfigurationError, StoreError, Veto
from headrace.hooks import AroundPuts
from headrace.records import Put, ScheduleRecord, Tick
from headrace.store import Store
from headrace.store.facets import Schedules, Ticked, facet
from headrace.values.durations import as_datetime

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

SCHEDULES = 100
"""How many schedules are looked at in one step."""
JOBS = 500
"""And about how many jobs are put in one."""
AGAIN = 60_000
"""A schedule that can't be worked out here (a newer headrace may have written it) is looked at again after this."""
RETRY, LONGEST_RETRY = 1_000, 10_000
"""Milliseconds after which schedules are looked at again when that did not work: at first, and after many times."""


class Ticker:
    """When the pump is to tick."""

    def __init__(self, app: Headrace, store: Store, steady: Callable[[], int]) -> None:
        self._app = app
        self._store = store
        self._steady = steady
        self.next: int | None = None
        """On the steady clock. None: there is nothing to tick, as far as is known."""
        self._rests_until = 0
        self._pause = RETRY

    def expect(self, milliseconds: int | None) -> None:
        """The store says when the next schedule ticks. After a failure it is left in peace for a while all the same."""
        self.next = None if milliseconds is None else max(self._steady() + milliseconds, self._rests_until)

    def tick(self) -> None:
        """Put the jobs of schedules that are due. Others may do the same at this moment: each tick counts once."""
        try:
            self.expect(tick_some(self._store, self._app))
            self._pause = RETRY
        except StoreError as error:
            log.warning(
                "schedules could not be looked at: %s Trying again in %g s.",
                *(error, self._pause / 1000),
                extra={"event": "store_unavailable"},
            )
            self._rests_until = self._steady() + self._pause
            self._pause = min(2 * self._pause, LONGEST_RETRY)
            self.expect(0)


def tick_some(store: Store, app: Headrace | None = None) -> int | None:
    """Tick what is due, in one bounded step. In how many milliseconds to come again (0: at once); None: no need.

    `app`: whose hooks see the jobs.
    """
    schedules = facet(store, Schedules)
    due = store.run(schedules.due_schedules(SCHEDULES))
    now, next_tick = due.now, due.next_tick
    if due.records:
        crashpoints.passing("tick.before")
        ticks = list(_ticks(due.records, now, app))
        ticked = _put_jobs(store, schedules, ticks, now, None if app is None else app.around_puts)
        crashpoints.passing("tick.after")
        now, next_tick = ticked.now, ticked.next_tick
    return None if next_tick is None else max(0, next_tick - now)


def _put_jobs(store: Store, schedules: Schedules, ticks: Sequence[Tick], now: int, around: AroundPuts | None) -> Ticked:
    if around is not None:
        return _put_inside(around, store, schedules, ticks, now)
    try:
        return store.run(schedules.tick(ticks))
    except ConfigurationError:
        return _one_by_one(store, schedules, ticks, now)


def _put_inside(around: AroundPuts, store: Store, schedules: Schedules, ticks: Sequence[Tick], now: int) -> Ticked:
    """Put the jobs inside of what instrumentation wants around them, which is one thing for each schedule."""
    replaced: list[Tick] = []
    told: list[list[Put]] = []
    with ExitStack() as stack:
        for tick in ticks:
            puts: list[Put] = []
            jobs = stack.enter_context(around(list(tick.jobs), puts)) if tick.jobs else ()
            replaced.append(replace(tick, jobs=tuple(jobs)))
            told.append(puts)
        ticked = _put_jobs(store, schedules, replaced, now, None)
        for tick, puts, done in zip(replaced, told, ticked.done, strict=True):
            puts += [Put(id=job.id, created=done) for job in tick.jobs]
    return ticked


def _one_by_one(store: Store, schedules: Schedules, ticks: Sequence[Tick], now: int) -> Ticked:
    """One of them has jobs that the store refuses: it is put off, and the others are not held up."""
    done = []
    for tick in ticks:
        try:
            ticked = store.run(schedules.tick([tick]))
            done += ticked.done
        except ConfigurationError as error:
            done.append(False)
            log.error("schedule %r: its jobs are refused: %s", tick.name, error, extra={"event": "schedule_refused"})
            ticked = store.run(schedules.tick([Tick(name=tick.name, version=tick.version, next=now + AGAIN)]))
    return replace(ticked, done=done)


def _ticks(records: Sequence[ScheduleRecord], now: int, app: Headrace | None) -> Iterator[Tick]:
    from headrace.schedule.next_runs import work_out  # noqa: PLC0415  (the language of schedules takes time to load)

    jobs = 0
    for record in records:
        if jobs >= JOBS:
            return
        try:
            tick = work_out(record, now)
        except Exception:
            log.exception(
                "schedule %r: when it is due could not be worked out", record.name, extra={"event": "schedule_unclear"}
            )
            tick = _put_off(record, now)
        if tick.jobs and app is not None and app.enqueue_hooks:
            tick = _announced(app, record, tick, now)
        jobs += len(tick.jobs)
        yield tick


def _put_off(record: ScheduleRecord, now: int) -> Tick:
    return Tick(name=record.name, version=record.version, next=now + AGAIN)


# -- hooks --


def _announced(app: Headrace, record: ScheduleRecord, tick: Tick, now: int) -> Tick:
    """The tick with what the app's hooks add to its jobs, without the jobs that they veto."""
    from headrace.schedule.next_runs import tick_after  # noqa: PLC0415

    jobs = []
    for job in tick.jobs:
        try:
            jobs.append(announced(app, job))
        except Veto as veto:
            log.warning(
                "schedule %r: its tick of %s is skipped: %s",
                *(record.name, as_datetime(job.tick), veto),
                extra={"event": "schedule_vetoed", "task": job.task},
            )
        except Exception:
            log.exception(
                "schedule %r: a hook failed; its tick is put off for %d s",
                *(record.name, AGAIN // 1_000),
                extra={"event": "schedule_hook_failed", "task": job.task},
            )
            return _put_off(record, now)
    if not jobs and record.definition.follows:  # there will be no end of a job for the next tick to come after
        return replace(tick, jobs=(), next=tick_after(record.definition, now))
    return replace(tick, jobs=tuple(jobs))
