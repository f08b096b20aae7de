"""Jobs that are left for others. They are met at every look, and reported now and then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

log = logging.getLogger("headrace.workkit")

LATELY, MOST = 300_000, 1_000
"""For how many milliseconds a job is remembered, and how many jobs are."""
LONGEST = 200


def shown(text: str) -> str:
    """What others wrote, so that it can't disturb a terminal or fill a disk."""
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


class Lately:
    """Ids that were met in the last minutes."""

    def __init__(self, steady: Callable[[], int]) -> None:
        self._steady = steady
        self._met: dict[str, int] = {}

    def add(self, identity: str) -> bool:
        """False: it is among them already."""
        new = identity not in self.ids()
        if new:
            self._met[identity] = self._steady()
        return new

    def ids(self) -> tuple[str, ...]:
        horizon = self._steady() - LATELY
        while self._met and (len(self._met) > MOST or next(iter(self._met.values())) <= horizon):
            del self._met[next(iter(self._met))]
        return tuple(self._met)


class Warnings:
    """Tells operators of each job once in a while."""

    def __init__(self, schedule: str, steady: Callable[[], int]) -> None:
        self._schedule = schedule
        self._said = Lately(steady)

    def passed_over(self, jobs: Sequence[tuple[str, str]]) -> None:
        """Due jobs that have no handler here."""
        for identity, job in jobs:
            self.unusable(identity, f"{shown(job)} is not known here" if job else "it is not a job that can be read")

    def unusable(self, identity: str, reason: str) -> None:
        """A due job that has a handler and can't be run all the same."""
        if self._said.add(identity):
            name = identity if identity.isalnum() else shown(identity)
            log.warning("schedule %s: job %s is left for others: %s", self._schedule, name, reason)
