"""What runs say on the way: progress, data and lines for their history, sent by the pump now and then."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from headrace.records import Lease, Report

MOST_LINES = 10_000
"""As many as a history can be set to keep: of those that wait to be sent, the latest are kept."""

_lock = threading.Lock()


class Said:
    """What one run has said. Safe to use from any thread."""

    def __init__(self) -> None:
        self.progress: tuple[float, float] | None = None
        self.data: bytes | None = None
        self.unsent = False
        self._lines: deque[tuple[int, str]] | None = None

    def add(
        self, progress: tuple[float, float] | None, data: bytes | None, lines: Iterable[tuple[int, str]] = ()
    ) -> bool:
        """False: it will go out with what was said before."""
        self.progress = progress or self.progress
        self.data = data or self.data
        if lines:
            with _lock:
                if self._lines is None:
                    self._lines = deque(maxlen=MOST_LINES)
                self._lines.extend(lines)
        unsent, self.unsent = self.unsent, True
        return not unsent

    def take(self, lease: Lease) -> Report:
        """The latest progress and data, and the lines since the last time."""
        self.unsent = False
        with _lock:
            lines, self._lines = self._lines, None
        return Report(
            ref=lease.ref,
            token=lease.token,
            id=lease.id,
            progress=self.progress,
            data=self.data,
            log=() if lines is None else tuple(lines),
        )
