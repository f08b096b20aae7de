"""A worker process as its supervisor knows it."""

from __future__ import annotations

import signal
import subprocess
import time

from headrace.records import SessionInfo
from headrace.store.contract import Guard
from headrace.values.clock import SystemClock
from headrace.worker.custody import Custody
from headrace.worker.ledger import Ledger
from headrace.worker.process import AT_ONCE
from headrace.worker.session import MARGIN


class Child:
    """A worker process, and what its supervisor needs to know of it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        info: SessionInfo,
        timeout: int,
        ledger: Ledger,
        custody: Custody,
        guard: Guard,
    ) -> None:
        self.process = process
        self.info = info
        self.timeout = timeout
        """How long it may be silent. Its session lasts longer if there is a grace."""
        self.warned = False
        self.ledger = ledger
        self.custody = custody
        self.guard = guard
        self.margin = min(MARGIN, timeout // 4)
        self.born = time.monotonic()
        self.renewed = SystemClock().steady()
        self.stopping = False
        self.cut_off = False

    @property
    def last_renewal(self) -> int:
        """When its session was last renewed, from here or by the process itself, on the steady clock."""
        return max(self.renewed, self.ledger.last_renewal)

    def due_signal(self, silence: int) -> signal.Signals | None:
        """What to send it after so many milliseconds without a renewal: a warning first, if it has a grace."""
        if silence > self.info.timeout - self.margin and not self.cut_off:
            self.cut_off = True
            return signal.SIGKILL
        if silence > self.timeout - self.margin and not (self.warned or self.cut_off):
            self.warned = True
            return AT_ONCE
        return None
