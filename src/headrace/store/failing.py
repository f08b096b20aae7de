"""When jobs failed, by group: the first and the last time, and how many in each of the last hours.

Redis computes the same by itself (store/redis/lua/failing.lua).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.store.facets import FailureTimes

HOUR = 3_600_000
HOURS_KEPT = 48


def with_failures(known: FailureTimes, times: Iterable[int], now: int) -> FailureTimes:
    """What is known of a group, and that jobs have failed in it at these times.

    >>> with_failures(FailureTimes("g", 3, 3, {0: 1}), [7 * HOUR, 7 * HOUR + 1], 8 * HOUR)
    FailureTimes(group='g', first=3, last=25200001, hours={0: 1, 7: 2})
    """
    times = list(times)
    hours = Counter(known.hours)
    hours.update(at // HOUR for at in times)
    first, last = min(known.first, *times), max(known.last, *times)
    return FailureTimes(known.group, first, last, recent(hours, now))


def recent(hours: Mapping[int, int], now: int) -> dict[int, int]:
    """The hours that are still kept."""
    return {hour: hours[hour] for hour in sorted(hours) if hour > now // HOUR - HOURS_KEPT}


def in_hours(hours: Mapping[int, int], now: int) -> list[int]:
    """How many there were in each of the hours that are kept, the present one last.

    >>> in_hours({7: 2, 8: 1}, 8 * HOUR)[-3:]
    [0, 2, 1]
    """
    present = now // HOUR
    return [hours.get(hour, 0) for hour in range(present - HOURS_KEPT + 1, present + 1)]
