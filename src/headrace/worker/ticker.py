"""The ticker: looks which schedules are due, works out their jobs, and has the store put them.

Any number of workers tick at the same time: a tick counts for the version of the schedule that it was worked out from,
so the one that comes first counts, and the others change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from headrace import crashpoints
from headrace.errors import ConfigurationError
from headrace.schedule.next_runs import work_out
from headrace.store import Store
from headrace.store.facets import ScheduleRecord, Schedules, Tick, Ticked, facet

log = logging.getLogger("headrace.worker")

SCHEDULES = 100
"""How many schedules are looked at in one step."""
JOBS = 500
"""And about how many jobs are put in one."""
AGAIN = 60_000
"""A schedule that can't be worked out here (a newer headrace may have written it) is looked at again after this."""


def tick_some(store: Store) -> int | None:
    """Tick what is due, in one bounded step. In how many milliseconds to come again (0: at once); None: no need."""
    schedules = facet(store, Schedules)
    due = store.run(schedules.due_schedules(SCHEDULES))
    now, next_tick = due.now, due.next_tick
    if due.records:
        if crashpoints.armed:
            crashpoints.reach("tick.before")
        ticks = list(_ticks(due.records, now))
        try:
            ticked = store.run(schedules.tick(ticks))
        except ConfigurationError:
            ticked = _one_by_one(store, schedules, ticks, now)
        if crashpoints.armed:
            crashpoints.reach("tick.after")
        now, next_tick = ticked.now, ticked.next_tick
    return None if next_tick is None else max(0, next_tick - now)


def _one_by_one(store: Store, schedules: Schedules, ticks: Sequence[Tick], now: int) -> Ticked:
    """One of them has jobs that the store refuses: it is put off, and the others are not held up."""
    for tick in ticks:
        try:
            ticked = store.run(schedules.tick([tick]))
        except ConfigurationError as error:
            log.error("schedule %r: its jobs are refused: %s", tick.name, error, extra={"event": "schedule_refused"})
            ticked = store.run(schedules.tick([Tick(name=tick.name, version=tick.version, next=now + AGAIN)]))
    return ticked


def _ticks(records: Sequence[ScheduleRecord], now: int) -> Iterator[Tick]:
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
            tick = Tick(name=record.name, version=record.version, next=now + AGAIN)
        jobs += len(tick.jobs)
        yield tick
