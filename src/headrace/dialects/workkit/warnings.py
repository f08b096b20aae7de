"""Reports on jobs that are left for others, at most now and then: they are met at every look."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

log = logging.getLogger("headrace.workkit")

PAUSE = 300.0
"""Seconds before the same job is reported again."""
REMEMBERED = 1_000
LONGEST = 200


def shown(text: str) -> str:
    """What others wrote, so that it can't disturb a terminal or fill a disk."""
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


class Warnings:
    """What this process has said about which job, and when."""

    def __init__(self, schedule: str) -> None:
        self._schedule = schedule
        self._said: dict[str, float] = {}

    def passed_over(self, jobs: Sequence[tuple[str, str]]) -> None:
        """Due jobs that have no handler here."""
        for identity, job in jobs:
            self.unusable(identity, f"{shown(job)} is not known here" if job else "it is not a job that can be read")

    def unusable(self, identity: str, reason: str) -> None:
        """A due job that has a handler and can't be run all the same."""
        if self._fresh(identity):
            name = identity if identity.isalnum() else shown(identity)
            log.warning("schedule %s: job %s is left for others: %s", self._schedule, name, reason)

    def _fresh(self, identity: str) -> bool:
        now = time.monotonic()
        last = self._said.get(identity)
        if last is not None and now - last < PAUSE:
            return False
        self._said.pop(identity, None)
        self._said[identity] = now
        while len(self._said) > REMEMBERED:
            del self._said[next(iter(self._said))]
        return True
