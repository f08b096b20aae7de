"""The settings of a store and the options of a Qless installation: other units, and `heartbeat` for session-timeout."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import Unsupported
from headrace.store.settings import DEFINITIONS

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


def known(stored: Mapping[str, str]) -> dict[str, int]:
    """What an installation's options say, as settings. What is none, or no sensible number, is passed over.

    >>> known({"mail-heartbeat": "2.5", "stats-history": "7", "application": "shop"})
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


def changes(wanted: Mapping[str, int | None]) -> list[list[str | None]]:
    """Options to set, or (None) to unset.

    >>> changes({"session-timeout:mail": 2_500, "jobs-history": None})
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
