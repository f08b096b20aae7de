"""The ticker: looks which schedules are due, works out their jobs, and has the store put them.

Any number of workers tick at the same time: a tick counts for the version of the schedule that it was worked out from,
so the one that comes first counts, and the others change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from headrace import crashpoints
from headrace.store import Store
from headrace.store.facets import ScheduleRecord, Schedules, Tick, facet
from headrace.ticks import work_out

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
        ticked = store.run(schedules.tick(list(_ticks(due.records, now))))
        if crashpoints.armed:
            crashpoints.reach("tick.after")
        now, next_tick = ticked.now, ticked.next_tick
    return None if next_tick is None else max(0, next_tick - now)


def _ticks(records: Sequence[ScheduleRecord], now: int) -> Iterator[Tick]:
    jobs = 0
    for record in records:
        if jobs >= JOBS:
            return
        try:
            tick = work_out(record, now)
        except Exception:
            log.exception("schedule %s: when it is due could not be worked out", record.name)
            tick = Tick(name=record.name, version=record.version, next=now + AGAIN)
        jobs += len(tick.jobs)
        yield tick
