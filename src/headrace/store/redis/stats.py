"""Statistics of a day, as they were summed up when jobs ended (lua/stats.lua), in and out rates, and what is most."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from struct import Struct
from typing import Any

from headrace.store import limits
from headrace.store.facets import DayStats, FailureTimes, Tally
from headrace.store.failing import recent
from headrace.store.redis.layout import LATEST
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.records import pairs, text
from headrace.store.throughput import Row, Throughput, throughput_of

_FIRST_AND_LAST, _HOUR = Struct(">dd"), Struct(">II")


def of_day(queue: str, day: int) -> Script[DayStats]:
    def read(reply: Any, _: bool) -> DayStats:
        fields, first_kept, first_with_buckets = reply
        if day < first_kept:
            return DayStats(queue=queue, day=day)
        summed = {field.decode(): float(value) for field, value in pairs(fields)}
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


def throughput() -> Generator[Script[Any], Any, Throughput]:
    """From the jobs that came last, those that ended last and those that are gone, in bounded steps."""
    now, looks = b"", []
    gone: dict[tuple[str, int], int] = {}
    for index in (b"arrivals", b"done", b"failed", b"cancelled", b"gone"):
        look: list[Row] = []
        further, left = b"", limits.LATELY
        while left > 0:
            request = (index, now, further, b"%d" % left)
            now, further, *found = yield Script("lately", request, lambda reply, _: reply)
            for name, slot, number in zip(found[::3], found[1::3], found[2::3], strict=True):
                if index == b"gone":
                    gone[text(name), int(slot)] = int(number)
                else:
                    look.append((text(name), int(slot), int(number)))
                    left -= int(number)
            if not further:
                break
        looks.append(look)
    places = {(name[1:], slot) for name, slot in gone}
    rows = [(name, slot, gone.get(("c" + name, slot), 0), gone.get(("e" + name, slot), 0)) for name, slot in places]
    return throughput_of(int(now), limits.LATELY, looks[0], looks[1:4], rows)


def most(what: str, limit: int) -> Script[list[tuple[str, int]]]:
    """The most used tags, or the groups with the most failures."""

    def read(reply: Reply, _: bool) -> list[tuple[str, int]]:
        return [(text(word), -int(number)) for word, number in pairs(reply)]

    return Script("most", (what.encode(), b"%d" % limit), read)


def failure_times(groups: Sequence[str]) -> Script[list[FailureTimes]]:
    """When jobs failed, by group (lua/failing.lua). What another program has written there is left out."""

    def read(reply: Any, _: bool) -> list[FailureTimes]:
        now, values = int(reply[0]), reply[1]
        found = []
        for group, value in zip(groups, values, strict=True):
            if value and len(value) >= _FIRST_AND_LAST.size and len(value) % _HOUR.size == 0:
                first, last = _FIRST_AND_LAST.unpack_from(value)
                if 0 <= first <= last <= LATEST:
                    hours = dict(_HOUR.iter_unpack(value[_FIRST_AND_LAST.size :]))
                    found.append(FailureTimes(group, int(first), int(last), recent(hours, now)))
        return found

    return Script("failing", tuple(group.encode() for group in groups), read)
