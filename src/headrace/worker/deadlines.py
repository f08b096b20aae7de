"""Until when runs must have ended, or given a sign of life. (Coroutines have timers of their own for the former.)"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterator

from headrace.worker.outcomes import SILENT, TIMED_OUT
from headrace.worker.run import Run


class Deadlines:
    """Asked by the pump. `watch` is called by the thread that begins a run."""

    def __init__(self, steady: Callable[[], int]) -> None:
        self._steady = steady
        self.begun: deque[Run] = deque()
        """Runs that `next` does not know of yet."""
        self.alarms: list[tuple[int, int, Run]] = []

    def watch(self, run: Run) -> None:
        self.begun.append(run)

    @property
    def next(self) -> int | None:
        """When to ask what was missed, on the steady clock."""
        return self.alarms[0][0] if self.alarms else None

    def missed(self, running: Container[Run]) -> Iterator[tuple[Run, str]]:
        """Each run that is late, with the reason to stop it."""
        while self.begun:
            self._set_alarm(self.begun.popleft())
        now = self._steady()
        while self.alarms and self.alarms[0][0] <= now:
            _, _, run = heapq.heappop(self.alarms)
            if run not in running or run.stop_reason is not None:
                continue
            reason = _missed(run, now)
            if reason is None:
                self._set_alarm(run)
            else:
                yield run, reason

    def _set_alarm(self, run: Run) -> None:
        now = self._steady()
        ends, silence = _moments(run, now if run.began is None else run.began, now if run.began is None else run.beat)
        moments = [moment for moment in (ends, silence) if moment is not None]
        if moments:
            heapq.heappush(self.alarms, (max(min(moments), now + 1), id(run), run))


def _missed(run: Run, now: int) -> str | None:
    if run.began is None:  # it is still being prepared
        return None
    ends, silence = _moments(run, run.began, run.beat)
    if ends is not None and now >= ends:
        return TIMED_OUT
    return SILENT if silence is not None and now >= silence else None


def _moments(run: Run, began: int, beat: int) -> tuple[int | None, int | None]:
    """When a run must have ended, and when it is taken for dead; None: never."""
    limit = run.time_limit
    heartbeat = None if run.task is None else run.task.options.heartbeat
    return None if limit is None else began + limit, None if heartbeat is None else beat + heartbeat
