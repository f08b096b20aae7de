"""What runs say on the way: progress, data and lines for their history, sent by the pump now and then."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace import crashpoints
from headrace.records import Lease, Report

if TYPE_CHECKING:
    from headrace.worker.leases import Leases
    from headrace.worker.run import Run
    from headrace.worker.session import Session

REPORT_SECONDS = 0.1
"""Progress and data of running jobs are sent at most this often."""

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


class Reports:
    """The channel of runs in this process: collects those that have said something, for the pump to send."""

    def __init__(self, session: Session, leases: Leases, payload_limit: int) -> None:
        self.payload_limit = payload_limit
        self.steady = session.steady
        self.waiting: deque[Run] = deque()
        self._session = session
        self._leases = leases
        self._sent_at = 0.0

    def spoke(self, run: Run) -> None:
        """A run has something to report."""
        self.waiting.append(run)
        self._leases.wake()

    def heard(self, run: Run) -> None:
        """A run has given a sign of life."""
        run.beat = self.steady()

    @property
    def due_at(self) -> float:
        """When what waits may be sent, on the monotonic clock."""
        return self._sent_at + REPORT_SECONDS

    def send(self) -> None:
        """Send what runs said: the latest of each."""
        self._sent_at = time.monotonic()
        runs = [self.waiting.popleft() for _ in range(len(self.waiting))]
        reports = [run.said.take(run.lease) for run in runs if run.said is not None]
        if reports:
            if crashpoints.armed:
                crashpoints.reach("report.before")
            session = self._session
            number = session.next_number()
            session.insist(session.store.report(session.id, number, reports, steady=self.steady()))
            if crashpoints.armed:
                crashpoints.reach("report.after")

    def send_unsent(self) -> None:
        """What a run said comes before its outcome."""
        if any(run.said is not None and run.said.unsent for run in tuple(self.waiting)):
            self.send()
