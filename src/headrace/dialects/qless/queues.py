"""Controls, statistics and settings of queues.

Settings are the options of a Qless installation: in other units, and `heartbeat` for session-timeout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import Unsupported
from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.facets import DayStats, FailureTimes, QueueControl
from headrace.store.settings import DEFINITIONS, checked

from . import mapping
from .script_store import ScriptStore

UNITS = {
    "session-timeout": 1_000,
    "jobs-history": 1_000,
    "jobs-history-count": 1,
    "max-job-history": 1,
    "stats-history": 86_400_000,
    "histogram-history": 86_400_000,
    "max-worker-age": 1_000,
}
"""What one is worth: settings count milliseconds or things, options seconds, days or things."""

ABSENT = {
    name: f"Qless has no option that does what {name} says. It has {', '.join(UNITS)}; failed jobs are kept."
    for name in DEFINITIONS
    if name not in UNITS
}

_MOST = 1e9
"""As the script reads it: no option is larger, whatever it says."""

HEARTBEAT = 60_000
"""Qless' default for its heartbeat, our session time-out. All other defaults are those of headrace."""


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

    absent_settings = ABSENT

    def settings(self) -> Operation[dict[str, int]]:
        return self._script("Edit.settings", [[]], lambda _, stored: settings_of(stored or {}))

    def set_settings(self, changes: dict[str, int | None]) -> Operation[None]:
        return self._script("Edit.settings", [options_of(checked(changes))], lambda _, __: None)


def settings_of(stored: Mapping[str, str]) -> dict[str, int]:
    """What an installation's options say, as settings. What is none, or no sensible number, is passed over.

    >>> settings_of({"mail-heartbeat": "2.5", "stats-history": "7", "application": "shop"})
    {'session-timeout': 60000, 'session-timeout:mail': 2500, 'stats-history': 604800000}
    """
    found: dict[str, int] = {"session-timeout": HEARTBEAT}
    for option, text in sorted(stored.items()):
        name = _setting(option)
        try:
            value = round(min(max(float(text), -_MOST), _MOST) * UNITS[name.partition(":")[0]])
        except (KeyError, ValueError):
            continue
        if value < 0 or (option.startswith("heartbeat-") and name in found):
            continue
        found[name] = value
    return found


def _setting(option: str) -> str:
    """The setting that an option is: the published name of a queue's heartbeat gives way to the deployed one."""
    if option == "heartbeat":
        return "session-timeout"
    if option.endswith("-heartbeat"):
        return f"session-timeout:{option.removesuffix('-heartbeat')}"
    if option.startswith("heartbeat-"):
        return f"session-timeout:{option.removeprefix('heartbeat-')}"
    return option


def options_of(wanted: Mapping[str, int | None]) -> list[list[str | None]]:
    """Options to set, or (None) to unset.

    >>> options_of({"session-timeout:mail": 2_500, "jobs-history": None})
    [['mail-heartbeat', '2.5'], ['jobs-history', None]]
    """
    made: list[list[str | None]] = []
    for name, value in wanted.items():
        base, _, queue = name.partition(":")
        if base in ABSENT:
            raise Unsupported(ABSENT[base])
        option = f"{queue}-heartbeat" if queue else "heartbeat" if base == "session-timeout" else base
        if value is None:
            made.append([option, None])
            if queue:
                made.append([f"heartbeat-{queue}", None])
            continue
        number = value / UNITS[base]
        made.append([option, str(int(number)) if number.is_integer() else repr(number)])
    return made
