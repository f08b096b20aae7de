"""What the schedule tests share: a readable way to write instants, and a count of the work done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

from headrace.schedule import Schedule

NOW = datetime(2026, 5, 14, 10, 20, 30, tzinfo=UTC)
"""The now of WorkKit's tables, a Thursday."""


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(moment: datetime | None) -> str:
    """An instant as the specifications write it."""
    return "none" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def from_on(schedule: Schedule, start: datetime, count: int) -> list[str]:
    """Successive runs, the first one inclusive, with 'none' at the end if there is one."""
    runs: list[str] = []
    run = schedule.next(start, inclusive=True)
    while len(runs) < count:
        runs.append(shown(run))
        if run is None:
            break
        run = schedule.next(run)
    return runs


def local(schedule: Schedule, after: datetime, count: int) -> list[str]:
    """Successive runs on the schedule's own clock."""
    return [str(run.astimezone(schedule.tz)) for run in schedule.upcoming(after, count)]


def calls(work: Callable[[], object]) -> int:
    """How many function calls some work takes: the same on every machine, unlike its time."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
