"""Helpers for tests of schedules."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headrace.records import Definition, Filter, ScheduleRecord, Snapshot
from headrace.schedule.next_runs import first_tick
from headrace.store.contract import Store
from headrace.store.facets import Schedules, facet
from headrace.worker.ticker import tick_some

MINUTE = 60_000
HOUR = 3_600_000
DAY = 86_400_000
NOON = 1_700_006_400_000 - 1_700_006_400_000 % DAY + DAY // 2
LARGE = b"L" * 5_000


def definition(rule: str = "every minute UTC", **fields: Any) -> Definition:
    return Definition(**{"rule": rule, "task": "task", "body": b"B", **fields})


def keep(store: Store, name: str = "s", rule: str = "every minute UTC", **fields: Any) -> ScheduleRecord:
    """Store a schedule as a client would."""
    schedules = facet(store, Schedules)
    wanted = definition(rule, **fields)
    now = store.run(schedules.schedules([])).now
    assert store.run(
        schedules.put_schedule(ScheduleRecord(name=name, definition=wanted, next=first_tick(wanted, now)), None)
    )
    return seen(store, name)


def seen(store: Store, name: str = "s") -> ScheduleRecord:
    (record,) = store.run(facet(store, Schedules).schedules([name])).records
    return record


def change(store: Store, name: str = "s", **fields: Any) -> ScheduleRecord:
    record = seen(store, name)
    assert store.run(facet(store, Schedules).put_schedule(replace(record, **fields), record.version))
    return seen(store, name)


def tick_all(store: Store) -> int | None:
    """As a worker does: step by step, until nothing is due."""
    for _ in range(1_000):
        left = tick_some(store)
        if left != 0:
            return left
    raise AssertionError("it never ends")


def jobs(store: Store, name: str = "s") -> list[Snapshot]:
    """All jobs of a schedule, oldest tick first."""
    found: list[Snapshot] = []
    after = None
    while True:
        page = store.run(store.find(Filter(schedule=name, limit=500, after=after)))
        found += page.jobs
        after = page.cursor
        if after is None:
            return sorted(found, key=lambda job: job.tick or 0)


def ticks(store: Store, name: str = "s") -> list[int]:
    """The ticks that have jobs, in minutes after noon."""
    return [((job.tick or 0) - NOON) // MINUTE for job in jobs(store, name)]
