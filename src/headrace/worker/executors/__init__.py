"""Ways to run a job: on a thread, on an event loop, in a process of its own."""

from __future__ import annotations

from typing import Protocol

from headrace.worker.run import Run


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
