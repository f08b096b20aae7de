"""Controls, statistics and settings of queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.facets import DayStats, FailureTimes, QueueControl
from headrace.store.settings import checked

from . import mapping, options
from .script_store import ScriptStore


class Queues(ScriptStore):
    """The facets queue controls, statistics and settings."""

    def controls(self) -> Operation[list[QueueControl]]:
        """Qless notes that a queue is paused, not by whom or since when."""

        def read(_: float, found: Any) -> list[QueueControl]:
            paused, limits = set(found["paused"] or []), found["limits"] or {}
            return [
                QueueControl(queue=queue, limit=limits.get(queue), paused_by="" if queue in paused else None)
                for queue in sorted(paused | limits.keys())
            ]

        return self._script("Edit.controls", [], read)

    def pause(self, queue: str, by: str = "") -> Operation[bool]:
        return self._script("Edit.pause", [queue, "SADD"], lambda _, added: bool(added), repeatable=False)

    def resume(self, queue: str) -> Operation[bool]:
        return self._script("Edit.pause", [queue, "SREM"], lambda _, removed: bool(removed), repeatable=False)

    def limit(self, queue: str, running: int | None) -> Operation[None]:
        limits.check_limit(queue, running)
        value = None if running is None else str(running)
        return self._script("Edit.settings", [[[f"{queue}-max-concurrency", value]]], lambda _, __: None)

    def stats(self, queue: str, day: int) -> Operation[DayStats]:
        date = day * mapping.DAY_SECONDS
        return self._script("Statistics.report", [queue, date], lambda _, found: mapping.day_stats(queue, day, found))

    def failures(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        def read(_: float, groups: Any) -> list[tuple[str, int]]:
            counted = [(str(group), int(jobs)) for group, jobs in (groups or {}).items()]
            return sorted(counted, key=lambda found: (-found[1], found[0]))[:limit]

        return self._script("Failures.groups", [], read)

    def failure_times(self, groups: Sequence[str]) -> Operation[list[FailureTimes]]:
        self.refuse("failure_times")

    absent_settings = options.ABSENT

    def settings(self) -> Operation[dict[str, int]]:
        return self._script("Edit.settings", [[]], lambda _, stored: options.known(stored or {}))

    def set_settings(self, changes: dict[str, int | None]) -> Operation[None]:
        return self._script("Edit.settings", [options.changes(checked(changes))], lambda _, __: None)
