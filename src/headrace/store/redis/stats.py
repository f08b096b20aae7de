"""Statistics of a day, as they were summed up when jobs ended (lua/stats.lua)."""

from __future__ import annotations

from typing import Any

from headrace.store.facets import DayStats, Tally
from headrace.store.redis.operation import Script


def of_day(queue: str, day: int) -> Script[DayStats]:
    def read(reply: Any, _: bool) -> DayStats:
        fields, first_kept, first_with_buckets = reply
        if day < first_kept:
            return DayStats(queue=queue, day=day)
        summed = {field.decode(): float(value) for field, value in zip(fields[::2], fields[1::2], strict=True)}
        return DayStats(
            queue=queue,
            day=day,
            wait=_tally(summed, "w", day >= first_with_buckets),
            run=_tally(summed, "r", day >= first_with_buckets),
            retries=int(summed.get("retries", 0)),
            failures=int(summed.get("failures", 0)),
            failed=int(summed.get("failed", 0)),
        )

    return Script("durations", (queue.encode(), b"%d" % day), read)


def _tally(fields: dict[str, float], kind: str, with_buckets: bool) -> Tally:
    count, total, squares = (fields.get(kind + what, 0.0) for what in "ntq")
    if not with_buckets:
        return Tally(int(count), total, squares)
    buckets = {int(name[1:]): int(value) for name, value in fields.items() if name[0] == kind and name[1:].isdigit()}
    return Tally(int(count), total, squares, buckets)
