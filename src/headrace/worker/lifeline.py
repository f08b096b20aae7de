"""A pipe from a supervisor to one of its processes. A byte in it is a warning; its end is the supervisor's end.

Signals would not do: a handler runs in the main thread, which may be waiting for the store.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.worker.pump import Pump

EXIT_ORPHANED = 75


class Lifeline:
    """The supervisor's end. `descriptor` is for the process to inherit."""

    def __init__(self) -> None:
        self.descriptor, self._end = os.pipe()

    def handed_over(self) -> None:
        """The process has its own copy of the descriptor."""
        os.close(self.descriptor)

    def warn(self) -> None:
        """Tell the process that it is cut off from the store."""
        with suppress(OSError):  # it is gone
            os.write(self._end, b"!")

    def close(self) -> None:
        os.close(self._end)


class Follower:
    """The process' end, read by a thread of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pump: Pump | None = None
        self._warned = False

    def start(self) -> None:
        threading.Thread(target=self._follow, name="headrace-lifeline", daemon=True).start()

    def warn(self, pump: Pump) -> None:
        """A warning is for this pump from now on, and one that has come already."""
        self._pump = pump
        if self._warned:
            pump.stopping.abandon()

    def _follow(self) -> None:
        """Without its supervisor the session of a worker process is not renewed: it must not go on."""
        while os.read(self._descriptor, 1):
            self._warned = True
            if self._pump is not None:
                self._pump.stopping.abandon()
        os._exit(EXIT_ORPHANED)
