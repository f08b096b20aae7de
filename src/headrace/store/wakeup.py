"""How one who waits for files to be readable is woken up from within its own process."""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

Left: TypeAlias = Callable[[], float | None]
"""For how many seconds to sleep, at most. None: no longer."""


def left_of(timeout: float | None) -> Left:
    """What is left of a time-out that begins now; without one it never ends."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    return lambda: left if (left := end - time.monotonic()) > 0 else None


def readable(descriptors: Iterable[int], seconds: float | None) -> list[int]:
    """Those with something to read, as soon as there are any. (`select` cannot watch a process' thousandth file.)"""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else math.ceil(seconds * 1000))]


async def areadable(descriptors: Iterable[int], seconds: float | None) -> None:
    """Return as soon as one of these has something to read, on an event loop."""
    import asyncio  # noqa: PLC0415  (takes time to load, and most programs do without)

    loop = asyncio.get_running_loop()
    stirred = asyncio.Event()
    watched = list(descriptors)
    for descriptor in watched:
        loop.add_reader(descriptor, stirred.set)
    try:
        async with asyncio.timeout(seconds):
            await stirred.wait()
    except TimeoutError:
        pass
    finally:
        for descriptor in watched:
            loop.remove_reader(descriptor)


class Pokes:
    """A pipe to be poked through: from any thread, from a signal handler that interrupts who waits, even after `close`.

    `reader` is what to wait for.
    """

    _open = False

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._open = True
        # A descriptor must not be closed, and become another file's, between being looked up and being written to.
        # Reentrant, because a signal handler may poke while its own thread does.
        self._guard = threading.RLock()

    def poke(self) -> None:
        """End the present or the next sleep."""
        with self._guard:
            if self._open:
                with suppress(BlockingIOError):  # full: it will wake up
                    os.write(self._writer, b"!")

    def taken(self) -> bool:
        """Forget all pokes so far; were there any? (The end counts as one that nobody can forget.)"""
        with self._guard:
            if not self._open:
                return True
            poked = False
            with suppress(BlockingIOError):
                while os.read(self.reader, 4096):
                    poked = True
            return poked

    def close(self) -> None:
        with self._guard:
            if self._open:
                self._open = False
                os.close(self.reader)
                os.close(self._writer)

    def __del__(self) -> None:
        if self._open:
            self.close()
