"""Jobs without an entry: what crashes of published listeners and inserters leave behind, unless somebody looks.

A published listener keeps a one-shot job out of `S:next` while it runs it, so an orphan is told by time only: it is a
job that had no entry at every look for long enough.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from headrace.dialects.on_redis import Stepwise
from headrace.schedule import ScheduleError

from .address import Settings
from .payload import read_payload, shown, shown_id
from .times import Timekeeper, next_time, read_cron
from .wire import Wire

log = logging.getLogger("headrace.workkit")

REPORT_AFTER = 120_000
"""Milliseconds without an entry after which a job is reported (or `repair_after`, if that is less)."""
LOOKS = 10
"""How often to look within that time. A recurring job lacks its entry for instants: nobody looks into ten of them."""
THOROUGH = 3_600_000
"""How often to look at every job, even if there are as many entries as jobs."""


class Orphanage:
    """Looks for orphans now and then, reports them once, and repairs them if that was asked for."""

    def __init__(self, settings: Settings, wire: Wire, timekeeper: Timekeeper) -> None:
        self._settings = settings
        self._wire = wire
        self._timekeeper = timekeeper
        self._report_after = REPORT_AFTER if settings.repair_after is None else min(REPORT_AFTER, settings.repair_after)
        self._looked: int | None = None
        self._thorough = timekeeper.steady()
        self._since: dict[str, int] = {}
        self._reported: set[str] = set()

    def tend(self) -> Stepwise[int]:
        """One look, if it is time for one; answers with how many jobs were repaired."""
        now = self._timekeeper.steady()
        if self._looked is not None and now - self._looked < self._report_after // LOOKS:
            return 0
        self._looked = now
        jobs, entries, *_ = yield self._wire.counts(0)
        if jobs <= entries and not self._since and now - self._thorough < THOROUGH:
            return 0
        self._thorough = now
        found = yield from self.find()
        self._since = {name: self._since.get(name, now) for name in found}
        self._reported &= set(found)
        self._report(found, now)
        if (after := self._settings.repair_after) is None:
            return 0
        ripe = {name: found[name] for name, since in self._since.items() if now - since >= after}
        return (yield from self._repair(ripe))

    def find(self) -> Stepwise[dict[str, bytes]]:
        """All jobs that have no entry at present, with their payloads."""
        found: dict[str, bytes] = {}
        cursor = b"0"
        while True:
            cursor, some = yield self._wire.orphans(cursor)
            found.update(some)
            if cursor == b"0":
                break
        while found:
            cursor, strangers = yield self._wire.strangers(cursor)
            for name in strangers:
                found.pop(name, None)
            if cursor == b"0":
                break
        return found

    def _report(self, found: dict[str, bytes], now: int) -> None:
        for name, since in self._since.items():
            if now - since >= self._report_after and name not in self._reported:
                self._reported.add(name)
                payload = read_payload(found[name])
                repairs = self._settings.repair_after is not None
                log.warning(
                    "schedule %s: job %s (%s) has had no entry for %d s: who had it out has died, or runs it still.%s",
                    self._settings.schedule,
                    shown_id(name),
                    shown(payload.job) if payload else "unreadable",
                    (now - since) // 1000,
                    "" if repairs else " With repair_after=... headrace gives it one.",
                )

    def _repair(self, orphans: dict[str, bytes]) -> Stepwise[int]:
        entries = []
        now = self._timekeeper.now()
        for name, text in orphans.items():
            payload = read_payload(text)
            if payload is not None:
                with suppress(ScheduleError):
                    due = next_time(read_cron(payload.cron, self._settings.cron_order), now, inclusive=True)
                    entries.append((name, now // 1000 * 1000 if due is None else due))
        if not entries:
            return 0
        repaired = yield self._wire.repair(entries)
        for (name, _), done in zip(entries, repaired, strict=True):
            self._since.pop(name, None)
            if done:
                schedule = self._settings.schedule
                log.warning("schedule %s: job %s had lost its entry and is scheduled again", schedule, shown_id(name))
        return sum(repaired)
