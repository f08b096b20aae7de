"""The ticker: looks which schedules are due, works out their jobs, and has the store put them.

Any number of workers tick at the same time: a tick counts for the version of the schedule that it was worked out from,
so the one that comes first counts, and the others change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from headrace import crashpoints
from headrace.errors import ConfigurationError, StoreError
from headrace.records import ScheduleRecord, Tick
from headrace.store import Store
from headrace.store.facets import Schedules, Ticked, facet

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

    def __init__(self, store: Store, steady: Callable[[], int]) -> None:
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
            self.expect(tick_some(self._store))
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


def tick_some(store: Store) -> int | None:
    """Tick what is due, in one bounded step. In how many milliseconds to come again (0: at once); None: no need."""
    schedules = facet(store, Schedules)
    due = store.run(schedules.due_schedules(SCHEDULES))
    now, next_tick = due.now, due.next_tick
    if due.records:
        crashpoints.passing("tick.before")
        ticks = list(_ticks(due.records, now))
        try:
            ticked = store.run(schedules.tick(ticks))
        except ConfigurationError:
            ticked = _one_by_one(store, schedules, ticks, now)
        crashpoints.passing("tick.after")
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
            tick = Tick(name=record.name, version=record.version, next=now + AGAIN)
        jobs += len(tick.jobs)
        yield tick
