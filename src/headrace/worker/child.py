"""A worker process as its supervisor knows it."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass, field

from headrace.records import SessionInfo
from headrace.values.clock import SystemClock
from headrace.worker.custody import Custody
from headrace.worker.ledger import Ledger
from headrace.worker.process import AT_ONCE
from headrace.worker.session import MARGIN


@dataclass(eq=False)
class Child:
    """A worker process, and what its supervisor needs to know of it."""

    process: subprocess.Popen[bytes]
    info: SessionInfo
    timeout: int
    """How long it may be silent. Its session lasts longer if there is a grace."""
    ledger: Ledger
    custody: Custody
    born: float = field(default_factory=time.monotonic)
    renewed: int = field(default_factory=SystemClock().steady)
    stopping: bool = False
    warned: bool = False
    cut_off: bool = False

    @property
    def margin(self) -> int:
        return min(MARGIN, self.timeout // 4)

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
