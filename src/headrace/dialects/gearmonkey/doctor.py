"""What clients and workers that died have left behind, and how to put it right.

| left behind | by | found as |
| --- | --- | --- |
| an idle job in no queue | a client between HMSET and LPUSH, a worker between BRPOP and HMSET | stranded, idle |
| a busy job that nobody runs | a published worker that died | stranded, busy (or still running: nobody can tell) |
| a final status without expiry | a worker between the steps on completing a job | half finished |
| a count that is no number, or negative | somebody who deleted count:FN | wrong count |
| a count that is too high | a published worker that died without DECR | more workers than headrace knows |
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from headrace.dialects.gearmonkey import find
from headrace.dialects.gearmonkey.driver import command
from headrace.dialects.gearmonkey.protocol import SIDE, Status
from headrace.dialects.on_redis import Stepwise
from headrace.store.redis.operation import Script

STRANDED = {
    Status.IDLE: "wait in no queue: a client or a worker died between two steps. Repair puts them in line.",
    Status.BUSY: "are busy and not in a headrace worker's hands: a peer's worker runs them, or has died. Repair with "
    "orphan_after, longer than any such job, puts them in line.",
}
HALF_FINISHED = "are finished but would be kept for ever: their worker died before its last steps. Repair takes these."
SETTLED = 2.0
"""Seconds for which an idle job must have been in no queue: a client's next step takes no longer."""


class Stranded(NamedTuple):
    """A job in no queue and in no headrace worker's hands."""

    function: str
    number: int
    status: Status
    seconds: float
    """Since it was first seen like that."""


class Findings(NamedTuple):
    """What an examination found."""

    stranded: list[Stranded]
    half_finished: list[tuple[str, int]]
    wrong_counts: dict[str, str]
    """count:FN that is no whole number, or negative."""
    foreign_counts: dict[str, int]
    """How many workers are registered that are not ours."""


def examine() -> Stepwise[Findings]:
    """Look at all jobs and counts. Remembers beside them since when jobs have been stranded."""
    suspects: dict[str, list[int]] = defaultdict(list)
    half_finished = []
    for job in (yield from find.walk()):
        if job.status in (Status.IDLE, Status.BUSY):
            suspects[job.function].append(job.number)
        elif job.ttl == -1:
            half_finished.append((job.function, job.number))
    stranded: list[Stranded] = []
    for function in sorted(suspects):
        numbers = sorted(suspects[function])
        for first in range(0, len(numbers), 5_000):
            batch = (b"%d" % number for number in numbers[first : first + 5_000])
            for number, status, milliseconds in (yield _ask("stranded", function.encode(), *batch)):
                stranded.append(Stranded(function, int(number), Status(status.decode()), milliseconds / 1000))
    wrong, foreign = yield from _counts()
    return Findings(stranded, sorted(half_finished), wrong, foreign)


def _counts() -> Stepwise[tuple[dict[str, str], dict[str, int]]]:
    wrong: dict[str, str] = {}
    foreign: dict[str, int] = {}
    functions = yield from _functions()
    lines = (yield _ask("lines", *(name.encode() for name in functions))) if functions else []
    for function, (_, _, _, count, ours) in zip(functions, lines, strict=True):
        text = "0" if count is None else count.decode(errors="replace")
        if not text.isdecimal() or int(text) < ours:
            wrong[function] = text
        elif int(text) > ours:
            foreign[function] = int(text) - ours
    return wrong, foreign


def _functions() -> Stepwise[list[str]]:
    """Those that somebody is registered for."""
    cursor, found = b"0", set()
    while True:
        cursor, keys = yield command(
            "SCAN", cursor, "MATCH", "count:*", "COUNT", "500", read=lambda reply: reply, reads=True
        )
        found |= {key.decode(errors="replace").removeprefix("count:") for key in keys}
        if cursor == b"0":
            break
    ours = yield command("SMEMBERS", f"{SIDE}functions", read=lambda reply: reply, reads=True)
    return sorted(found.union(name.decode() for name in ours))


def advice() -> Stepwise[list[str]]:
    """Sentences on what needs attention; none if all is well."""
    findings = yield from examine()
    by_kind: dict[tuple[str, str], list[int]] = defaultdict(list)
    for job in findings.stranded:
        by_kind[job.function, STRANDED[job.status]].append(job.number)
    for function, number in findings.half_finished:
        by_kind[function, HALF_FINISHED].append(number)
    sentences = [f"{_jobs(numbers)} of {function!r} {told}" for (function, told), numbers in by_kind.items()]
    sentences += [
        f"count:{function} is {text!r}, which cannot be right. Repair sets it to the workers that headrace knows."
        for function, text in findings.wrong_counts.items()
    ]
    return sentences


def repair(orphan_after: float | None, alone: bool) -> Stepwise[list[str]]:
    """Put right what can be put right without harm. Every repair looks again, in one step with what it changes."""
    findings = yield from examine()
    done = []
    for job in findings.stranded:
        patience = SETTLED if job.status is Status.IDLE else orphan_after
        if patience is not None and job.seconds >= patience and (yield _rescue(job.function, job.number)):
            done.append(f"Job {job.function}:{job.number} was {job.status} in no queue: it is next in line now.")
    for function, number in findings.half_finished:
        if (yield _rescue(function, number)):
            done.append(f"Job {function}:{number} was finished without its last steps: they have been taken.")
    for function in {*findings.wrong_counts, *(findings.foreign_counts if alone else ())}:
        count = yield _ask("recount", function.encode())
        done.append(f"count:{function} is {count} now.")
    return done


def _rescue(function: str, number: int) -> Script[Any]:
    return _ask("rescue", function.encode(), b"%d" % number)


def _ask(script: str, *arguments: bytes) -> Script[Any]:
    return Script(script, arguments, lambda reply, _: reply)


def _jobs(numbers: list[int]) -> str:
    listed = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    return f"{len(numbers):,} job{'' if len(numbers) == 1 else 's'} ({listed})"
