"""What runs say on the way: progress, data and lines for their history, sent by the pump now and then."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace import crashpoints
from headrace.records import Lease, Report
from headrace.store.contract import Operation, Reported
from headrace.store.history import encode_account
from headrace.values.merging import merged
from headrace.worker.outcomes import give_account

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
    """What one run has said, and what it has heard of its job's data. Safe to use from any thread."""

    def __init__(self, data: bytes | None) -> None:
        self.progress: tuple[float, float] | None = None
        self.unsent = False
        self._lines: deque[tuple[int, str]] | None = None
        self._stored = data
        """The data that the store has, as far as is known here."""
        self._own: bytes | None = None
        """What the run has made of it, until the store has recorded that."""
        self.seen = data
        """What the task has read or written last: what it says next is a change of that."""
        self._has_changed = False
        """Whether the store has recorded a change of the data."""

    @property
    def data(self) -> bytes | None:
        """The job's data, with what the run has made of it."""
        return self._stored if self._own is None else self._own

    def look(self) -> bytes | None:
        """The same for the task, which has seen it then."""
        with _lock:
            self.seen = self.data
            return self.seen

    def change(self, data: bytes, base: bytes | None = None) -> None:
        """The task has made this of `base` (b"": of nothing), or of what it has seen."""
        with _lock:
            base = self.seen if base is None else base or None
            self._own, self.seen = merged(base, data, self.data), merged(base, data, self.seen)

    def hear(self, data: bytes | None) -> None:
        """The store has this data: what the run has changed since is changed in it."""
        with _lock:
            if self._own is not None:
                self._own = merged(self._stored, self._own, data)
            self._stored = data

    def recorded(self, report: Report) -> None:
        """The store has what was taken with this report."""
        with _lock:
            if report.data is not None:
                self._stored, self._has_changed = report.data, True
                self._own = None if self._own is report.data else self._own

    def add(self, progress: tuple[float, float] | None, lines: Iterable[tuple[int, str]] = ()) -> bool:
        """False: it will go out with what was said before."""
        self.progress = progress or self.progress
        if lines:
            with _lock:
                if self._lines is None:
                    self._lines = deque(maxlen=MOST_LINES)
                self._lines.extend(lines)
        unsent, self.unsent = self.unsent, True
        return not unsent

    def take(self, lease: Lease) -> Report:
        """The latest progress, and the data and lines that the store does not have."""
        self.unsent = False
        with _lock:
            lines, self._lines = self._lines, None
            data, base, is_first = self._own, self._stored, not self._has_changed
        return Report(
            ref=lease.ref,
            token=lease.token,
            id=lease.id,
            progress=self.progress,
            data=data,
            base=None if data is None else base or b"",
            account=encode_account(None, lease.data, None) if data is not None and is_first else None,
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
        self.due_at = 0.0
        """When what waits may be sent, on the monotonic clock."""

    def spoke(self, run: Run) -> None:
        """A run has something to report."""
        self.waiting.append(run)
        self._leases.wake()

    def heard(self, run: Run) -> None:
        """A run has given a sign of life."""
        run.beat = self.steady()

    def look(self, run: Run) -> bytes | None:
        """The data of a run's job, for its task to see."""
        return run.lease.data if run.said is None else run.said.look()

    def lease_until(self, run: Run) -> int:
        """Until when no other worker can have a run's job, on the steady clock."""
        return run.sure_until or self._session.sure_until

    def send(self, *, once: bool = False) -> None:
        """Send what runs said: the latest of each. `once`: raise what goes wrong, instead of trying again."""
        self.due_at = time.monotonic() + REPORT_SECONDS
        runs = [self.waiting.popleft() for _ in range(len(self.waiting))]
        while runs:
            runs = self._send(runs, self._session.store.run if once else self._session.insist)

    def _send(self, runs: Sequence[Run], ask: Callable[[Operation[Any]], Any]) -> list[Run]:
        """Returns those that have to report again: others have changed the data of their jobs."""
        crashpoints.passing("report.before")
        session = self._session
        reports = [run.speaking.take(run.lease) for run in runs]
        request = session.store.report(session.id, session.next_number(), reports, steady=self.steady())
        answers, outdated = ask(request), []
        for run, report, answer in zip(runs, reports, answers, strict=True):
            if answer is Reported.CHANGED:
                outdated.append(run)
            else:
                run.speaking.recorded(report)
        crashpoints.passing("report.after")
        if outdated:
            found = ask(session.store.get([run.id for run in outdated]))
            for run, job in zip(outdated, found, strict=True):
                run.speaking.hear(None if job is None else job.data)
                if run.outcome is not None:
                    give_account(run, run.outcome)
        return outdated

    def send_unsent(self) -> None:
        """What a run said comes before its outcome."""
        if any(run.said is not None and run.said.unsent for run in tuple(self.waiting)):
            self.send()
