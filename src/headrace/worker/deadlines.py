"""Until when runs must have ended, or given a sign of life. (Coroutines have timers of their own for the former.)"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterator

from headrace.worker.outcomes import SILENT, TIMED_OUT
from headrace.worker.run import Run


class Deadlines:
    """Asked by the pump."""

    def __init__(self, steady: Callable[[], int]) -> None:
        self._steady = steady
        self.begun: deque[Run] = deque()
        """Runs that have no alarm yet, as added by the threads that begin them."""
        self.alarms: list[tuple[int, int, Run]] = []
        """A heap: when to ask what was missed, on the steady clock, and of which run."""

    def missed(self, running: Container[Run]) -> Iterator[tuple[Run, str]]:
        """Each run that is late, with the reason to stop it."""
        now = self._steady()
        while self.begun:
            self._set_alarm(self.begun.popleft(), now)
        while self.alarms and self.alarms[0][0] <= now:
            _, _, run = heapq.heappop(self.alarms)
            if run not in running or run.stop_reason is not None:
                continue
            reason = next((reason for moment, reason in _limits(run, now) if moment <= now), None)
            if reason is None:
                self._set_alarm(run, now)
            else:
                yield run, reason

    def _set_alarm(self, run: Run, now: int) -> None:
        moments = [moment for moment, _ in _limits(run, now)]
        if moments:
            heapq.heappush(self.alarms, (max(min(moments), now + 1), id(run), run))


def _limits(run: Run, now: int) -> Iterator[tuple[int, str]]:
    """When a run must have ended, and when it is taken for dead. One that is still being prepared begins now."""
    began, beat = (now, now) if run.began is None else (run.began, run.beat)
    limit = run.time_limit
    if limit is not None:
        yield began + limit, TIMED_OUT
    heartbeat = run.task.options.heartbeat
    if heartbeat is not None:
        yield beat + heartbeat, SILENT
