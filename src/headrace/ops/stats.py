"""How long jobs waited and ran on a day, and what went wrong."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from headrace.ops.forms import forms
from headrace.store.courses import Course, ask
from headrace.store.facets import DayStats, Statistics, Tally, facet
from headrace.store.stats import QueueStats, day_of, deviation, filled, mean, of_day, percentile
from headrace.values.names import check_name

if TYPE_CHECKING:
    from headrace.app import Headrace

PERCENTILES = (50, 90, 99)


def stats_course(app: Headrace, queue: str | None = None, day: date | str | None = None) -> Course[list[QueueStats]]:
    """What happened in a queue, or in each that has jobs, on a day (UTC; today if not given)."""
    statistics, wanted = facet(app.store, Statistics), day_of(day, app.clock.now())
    if queue is not None:
        names = [check_name("queue", queue)]
    else:
        names = [count.queue for count in (yield from ask(app.store.counts()))]
    found: list[QueueStats] = []
    for name in names:
        of_queue: DayStats = yield statistics.stats(name, wanted)
        found.append(of_day(of_queue))
    return found


stats, astats = forms(stats_course)


def stats_document(found: QueueStats) -> dict[str, Any]:
    """A queue's day as JSON."""
    return {
        "queue": found.queue,
        "wait": _tally(found.wait.tally),
        "run": _tally(found.run.tally),
        "retries": found.retries,
        "failures": found.failures,
        "failed": found.failed,
    }


def _tally(tally: Tally) -> dict[str, Any]:
    """In milliseconds."""
    bars = [list(bar) for bar in filled(tally)]
    percentiles = {f"p{percent}": percentile(tally, percent) for percent in PERCENTILES}
    return {
        "count": tally.count, "mean": mean(tally), "deviation": deviation(tally), **percentiles, "histogram": bars
    }  # fmt: skip
