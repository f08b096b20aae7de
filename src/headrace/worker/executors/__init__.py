"""Ways to run a job: on a thread, on an event loop, in a process of its own."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Protocol

from headrace.worker.run import Run


def line_up(line: deque[Run], runs: list[Run]) -> None:
    """Add runs to those that wait: each before those of its queue that have a lower priority.

    Other threads may take from the line meanwhile.
    """
    before = {run.lease.priority for run in tuple(line)}
    if before and max(run.lease.priority for run in runs) > min(before):
        waiting = []
        with suppress(IndexError):
            while True:
                waiting.append(line.popleft())
        waiting += runs
        queues: dict[str, deque[Run]] = {}
        for run in sorted(waiting, key=lambda run: -run.lease.priority):
            queues.setdefault(run.lease.queue, deque()).append(run)
        runs = [queues[run.lease.queue].popleft() for run in waiting]
    line.extend(runs)


class Executor(Protocol):
    """Runs jobs. It asks `Leases` whether a run may still start, and leaves the outcome there."""

    can_stop: bool
    """Whether a run stops when it is made to, or only when it looks itself."""

    def submit(self, runs: list[Run]) -> None:
        """Run these as soon as there is room."""

    def stop_run(self, run: Run) -> None:
        """Make a run stop, by whatever means there are. Its `stop_reason` is set."""

    def close(self) -> None:
        """No more runs. Does not wait for those that can't be stopped."""
