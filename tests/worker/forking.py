"""Tasks that fork, beside those of `worker.tasks`: `worker.forking:app`."""

from __future__ import annotations

import asyncio
import os
import sys

from processes import tell
from worker.tasks import app, of_three_kinds

__all__ = ["app", "forking", "forking_async", "forking_awaits", "forking_isolated"]


def _fork(how: str) -> int:
    """The parent returns how its child ended."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tell("child")
    if how == "raise":
        raise ValueError("in the child")
    if how == "exit":
        sys.exit(3)
    return 0


forking, forking_isolated, forking_async = of_three_kinds("forking", _fork)


@app.task
async def forking_awaits() -> int:
    """The child goes back to the event loop instead."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    await asyncio.sleep(0)
    tell("child")
    return 0
