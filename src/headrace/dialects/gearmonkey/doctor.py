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
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headrace.dialects.gearmonkey import find
from headrace.dialects.gearmonkey.driver import GearMonkeyDriver, command
from headrace.dialects.gearmonkey.protocol import SIDE, Status
from headrace.store.redis.operation import Script, Steps

STRANDED = {
    Status.IDLE: "wait in no queue: a client or a worker died between two steps. Repair puts them in line.",
    Status.BUSY: "are busy and not in a headrace worker's hands: a peer's worker runs them, or has died. Repair with "
    "orphan_after, longer than any such job, puts them in line.",
}
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


class Doctor:
    """Examines and repairs. Every repair looks again, in one step with what it changes."""

    def __init__(self, driver: GearMonkeyDriver) -> None:
        self._driver = driver

    def examine(self) -> Findings:
        """Look at all jobs and counts. Remembers beside them since when jobs have been stranded."""
        jobs = self._driver.run(Steps(find.walk))
        suspects: dict[str, list[int]] = defaultdict(list)
        half_finished = []
        for job in jobs:
            if job.status in (Status.IDLE, Status.BUSY):
                suspects[job.function].append(job.number)
            elif job.ttl == -1:
                half_finished.append((job.function, job.number))
        stranded = [found for function in sorted(suspects) for found in self._stranded(function, suspects[function])]
        wrong, foreign = self._counts()
        return Findings(stranded, sorted(half_finished), wrong, foreign)

    def _stranded(self, function: str, numbers: Sequence[int]) -> Iterator[Stranded]:
        for first in range(0, len(numbers), 5_000):
            batch = (b"%d" % number for number in sorted(numbers)[first : first + 5_000])
            found = self._driver.run(Script("stranded", (function.encode(), *batch), lambda reply, _: reply))
            for number, status, milliseconds in found:
                yield Stranded(function, int(number), Status(status.decode()), milliseconds / 1000)

    def _counts(self) -> tuple[dict[str, str], dict[str, int]]:
        functions = sorted(self._functions())
        if not functions:
            return {}, {}
        lines = self._driver.run(Script("lines", tuple(name.encode() for name in functions), lambda reply, _: reply))
        wrong: dict[str, str] = {}
        foreign: dict[str, int] = {}
        for function, (_, _, _, count, ours) in zip(functions, lines, strict=True):
            text = "0" if count is None else count.decode(errors="replace")
            if not text.isdecimal() or int(text) < ours:
                wrong[function] = text
            elif int(text) > ours:
                foreign[function] = int(text) - ours
        return wrong, foreign

    def _functions(self) -> set[str]:
        """Those that somebody is registered for."""
        cursor, found = b"0", set()
        while True:
            page: Any = self._driver.run(
                command("SCAN", cursor, "MATCH", "count:*", "COUNT", "500", read=lambda reply: reply, reads=True)
            )
            cursor = page[0]
            found |= {key.decode(errors="replace").removeprefix("count:") for key in page[1]}
            if cursor == b"0":
                break
        registered = self._driver.run(
            command("SMEMBERS", f"{SIDE}functions", read=lambda reply: {name.decode() for name in reply}, reads=True)
        )
        return found | registered

    def advice(self) -> list[str]:
        """Sentences on what needs attention; none if all is well."""
        findings = self.examine()
        by_kind: dict[tuple[str, Status], list[int]] = defaultdict(list)
        for job in findings.stranded:
            by_kind[job.function, job.status].append(job.number)
        sentences = [
            f"{_jobs(numbers)} of {function!r} {STRANDED[status]}" for (function, status), numbers in by_kind.items()
        ]
        halves: dict[str, list[int]] = defaultdict(list)
        for function, number in findings.half_finished:
            halves[function].append(number)
        sentences += [
            f"{_jobs(numbers)} of {function!r} are finished but would be kept for ever: their worker died before its "
            "last steps. Repair takes these."
            for function, numbers in halves.items()
        ]
        sentences += [
            f"count:{function} is {text!r}, which cannot be right. Repair sets it to the workers that headrace knows."
            for function, text in findings.wrong_counts.items()
        ]
        return sentences

    def repair(self, *, orphan_after: float | None = None, alone: bool = False) -> list[str]:
        """Put right what can be put right without harm; answers with what was done, in sentences.

        `orphan_after`: also put back busy jobs that no headrace worker holds, if they were first seen like that at
        least so many seconds ago; it must be longer than any job of a peer's worker takes. `alone`: no peer's worker
        runs, so counts above what headrace knows are wrong, too.
        """
        findings = self.examine()
        done = []
        for job in findings.stranded:
            patience = SETTLED if job.status is Status.IDLE else orphan_after
            if patience is not None and job.seconds >= patience and self._rescue(job.function, job.number):
                done.append(f"Job {job.function}:{job.number} was {job.status} in no queue: it is next in line now.")
        done += [
            f"Job {function}:{number} was finished without its last steps: they have been taken."
            for function, number in findings.half_finished
            if self._rescue(function, number)
        ]
        for function in {*findings.wrong_counts, *(findings.foreign_counts if alone else ())}:
            count = self._driver.run(Script("recount", (function.encode(),), lambda reply, _: int(reply)))
            done.append(f"count:{function} is {count} now.")
        return done

    def _rescue(self, function: str, number: int) -> bool:
        return self._driver.run(Script("rescue", (function.encode(), b"%d" % number), lambda reply, _: bool(reply)))


def _jobs(numbers: list[int]) -> str:
    listed = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    return f"{len(numbers):,} job{'' if len(numbers) == 1 else 's'} ({listed})"
