"""What is left open: connections that nobody closed, found by collecting the garbage; descriptors, by counting."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def nothing_unclosed() -> Iterator[None]:
    """Fails if something that is dropped within was not closed before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # what others have left is not what this is about
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/dev/fd"))


def at_every_step(work: Callable[[], Awaitable[Any]], disturb: Callable[[asyncio.Task[Any]], object]) -> int:
    """Disturb some work on an event loop of its own after its first step, its second, and so on until it is quicker.
    Answers with how often.
    """

    async def session(steps: int) -> bool:
        task = asyncio.ensure_future(work())
        for _ in range(steps):
            await asyncio.sleep(0)
        if task.done():
            return False
        disturb(task)
        with suppress(asyncio.CancelledError):
            await task
        del task
        gc.collect()  # while the loop is there, too
        return True

    times = steps = 0
    while asyncio.run(session(steps)):
        times += 1
        steps += 1 + steps // 8  # most of the later ones wait for the server
    return times
