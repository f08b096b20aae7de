"""Named places where tests make a process die: `HEADRACE_CRASH=exchange.after:3` dies at the third pass.

Free when unused: callers look at `armed` first.
"""

from __future__ import annotations

import os
from collections import Counter

POINTS = ("exchange.before", "exchange.after", "run.begin", "run.end", "put.before", "put.after")

_name, _, _pass = os.environ.get("HEADRACE_CRASH", "").partition(":")
_countdown = int(_pass or 1)
_seen: Counter[str] = Counter()

armed = bool(_name)


def reach(point: str) -> None:
    """Die here if this is the place and the time."""
    if point != _name:
        return
    _seen[point] += 1
    if _seen[point] == _countdown:
        os._exit(137)
