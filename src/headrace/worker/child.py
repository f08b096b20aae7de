"""A worker process as its supervisor knows it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from enum import Enum

from headrace.records import SessionInfo
from headrace.values.clock import SystemClock
from headrace.worker.custody import Custody
from headrace.worker.ledger import Ledger
from headrace.worker.lifeline import Lifeline
from headrace.worker.meter import Meter
from headrace.worker.session import MARGIN


class Measure(Enum):
    """What becomes of a process whose session can't be renewed."""

    WARN = "telling its jobs to stop"
    END = "ending it"


@dataclass(eq=False)
class Child:
    """A worker process, and what its supervisor needs to know of it."""

    process: subprocess.Popen[bytes]
    info: SessionInfo
    timeout: int
    """How long it may be silent. Its session lasts longer if there is a grace."""
    ledger: Ledger
    custody: Custody
    lifeline: Lifeline
    meter: Meter | None = None
    """Counters of the process. None: nothing is counted."""
    born: float = field(default_factory=time.monotonic)
    renewed: int = field(default_factory=SystemClock().steady)
    stopping: bool = False
    warned: bool = False
    cut_off: bool = False
    """It was ended because its session could not be renewed. Its jobs are not to blame for that."""

    @property
    def margin(self) -> int:
        return min(MARGIN, self.timeout // 4)

    @property
    def last_renewal(self) -> int:
        """When its session was last renewed, from here or by the process itself, on the steady clock."""
        return max(self.renewed, self.ledger.last_renewal)

    def due_measure(self, silence: int) -> Measure | None:
        """What to do after so many milliseconds without a renewal: a warning comes first, if it has a grace."""
        if silence > self.info.timeout - self.margin and not self.cut_off:
            self.cut_off = True
            return Measure.END
        if silence > self.timeout - self.margin and not (self.warned or self.cut_off):
            self.warned = True
            return Measure.WARN
        return None

    def close(self) -> None:
        """Let go of what was shared with it."""
        self.ledger.close()
        self.lifeline.close()
