"""Until when runs must have ended, or given a sign of life. (Coroutines have timers of their own for the former.)"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterator

from headrace.worker.outcomes import SILENT, TIMED_OUT
from headrace.worker.run import Run


class Deadlines:
    """Asked by the pump. `watch` is called by whoever begins a run, in any thread."""

    def __init__(self, steady: Callable[[], int]) -> None:
        self._steady = steady
        self._begun: deque[Run] = deque()
        self._alarms: list[tuple[int, int, Run]] = []

    def watch(self, run: Run) -> None:
        self._begun.append(run)

    @property
    def untold(self) -> bool:
        """Whether runs have begun that `next` does not know of."""
        return bool(self._begun)

    @property
    def next(self) -> int | None:
        """When to ask what was missed, on the steady clock."""
        return self._alarms[0][0] if self._alarms else None

    def missed(self, running: Container[Run]) -> Iterator[tuple[Run, str]]:
        """Each run that is late, with the reason to stop it."""
        while self._begun:
            self._set_alarm(self._begun.popleft())
        now = self._steady()
        while self._alarms and self._alarms[0][0] <= now:
            _, _, run = heapq.heappop(self._alarms)
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
            heapq.heappush(self._alarms, (max(min(moments), now + 1), id(run), run))


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
