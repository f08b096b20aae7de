"""Statistics of a day: what was summed up of jobs that are gone, and what those that are kept add to it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from headrace.stats import add
from headrace.store.facets import DayStats, Tally
from headrace.store.redis.operation import Script

TRIES = 10
"""How often to begin again when jobs go faster than they can be looked at; then what was seen is good enough."""


def of_day(queue: str, day: int) -> Generator[Script[Any], Any, DayStats]:
    """The first step says what was summed up so far: jobs that go while one looks are in it, or were looked at."""
    for tries in range(TRIES):
        steps = yield from _walk(queue, day, b"done", tries < TRIES - 1)
        if steps:
            break
    failed = yield from _walk(queue, day, b"failed", False)
    summed = {field.decode(): float(v) for field, v in zip(steps[0][9][::2], steps[0][9][1::2], strict=True)}
    first_kept, first_with_buckets = steps[0][10], steps[0][11]
    if day < first_kept:
        return DayStats(queue=queue, day=day)
    waits = add(_summed(summed, "w"), *(_seen(step, 3) for step in steps))
    runs = add(_summed(summed, "r"), *(_seen(step, 6) for step in steps))
    if day < first_with_buckets:
        waits, runs = (Tally(tally.count, tally.total, tally.squares) for tally in (waits, runs))
    return DayStats(
        queue=queue,
        day=day,
        wait=waits,
        run=runs,
        retries=int(summed.get("retries", 0)),
        failures=int(summed.get("failures", 0)),
        failed=sum(step[2] for step in failed),
    )


def _walk(queue: str, day: int, state: bytes, exact: bool) -> Generator[Script[Any], Any, list[Any]]:
    """All steps; none if jobs went meanwhile that had not been looked at."""
    steps: list[Any] = []
    job = b""
    while True:
        arguments = (queue.encode(), b"%d" % day, state, job)
        step = yield Script("durations", arguments, lambda reply, _: reply)
        if step[0] == 1:
            return [] if exact else steps
        steps.append(step)
        job = step[1]
        if not job:
            return steps


def _seen(step: Sequence[Any], at: int) -> Tally:
    buckets = dict(zip(step[at][::2], step[at][1::2], strict=True))
    return Tally(sum(buckets.values()), float(step[at + 1]), float(step[at + 2]), buckets)


def _summed(fields: dict[str, float], kind: str) -> Tally:
    buckets = {int(name[1:]): int(value) for name, value in fields.items() if name[0] == kind and name[1:].isdigit()}
    count, total, squares = (fields.get(kind + what, 0.0) for what in "ntq")
    return Tally(int(count), total, squares, buckets)
