"""Named places where tests make a process die: `HEADRACE_CRASH=exchange.after:3` dies at the third pass.

`HEADRACE_CRASH_MARK` names a file that whoever dies leaves behind; while it is there nobody else dies. Free when
unused: callers look at `armed` first.
"""

from __future__ import annotations

import os

POINTS = (
    "put.before",
    "put.after",
    "commit.before",
    "commit.after",
    "session.opened",
    "session.started",
    "renew.before",
    "renew.after",
    "close.before",
    "close.after",
    "exchange.before",
    "exchange.after",
    "run.begin",
    "run.end",
    "report.before",
    "report.after",
    "isolated.begin",
    "isolated.end",
    "tick.before",
    "tick.after",
)
"""Around each request that changes the store, and each step of a job's run."""
DRAINING = (
    "drain.claiming", "drain.claimed", "drain.put", "drain.brought", "drain.released", "drain.deleted",
    "drain.schedule",
)  # fmt: skip
"""The same around the steps of a drain (`headrace.ops.drain`)."""

_name, _, _pass = os.environ.get("HEADRACE_CRASH", "").partition(":")
_countdown = int(_pass or 1)
_mark = os.environ.get("HEADRACE_CRASH_MARK")

armed = bool(_name)


def reach(point: str) -> None:
    """Die here if this is the place and the time."""
    global _countdown  # noqa: PLW0603
    assert point in POINTS + DRAINING, point
    if point != _name:
        return
    _countdown -= 1
    if _countdown == 0 and _leave_mark():
        os._exit(137)


def passing(point: str) -> None:
    """The same, for callers that are in no hurry: it looks at `armed` itself."""
    if armed:
        reach(point)


def _leave_mark() -> bool:
    if _mark is None:
        return True
    try:
        os.close(os.open(_mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
