"""Coroutine functions on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from headrace.worker.executors import line_up
from headrace.worker.outcomes import TIMED_OUT
from headrace.worker.run import Run, perform_async

if TYPE_CHECKING:
    from headrace.worker.leases import Leases
    from headrace.worker.resources import Resources

log = logging.getLogger("headrace.worker")


class LoopExecutor:
    """One loop, many coroutines, at most so many at once. The loop starts with the first that is submitted."""

    can_stop = True
    resources: Resources
    """Set before the first run."""

    def __init__(self, leases: Leases, most: int) -> None:
        self._leases = leases
        self._room = most
        self._line: deque[Run] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="headrace-loop", daemon=True).start()
            return self._loop

    def run_coroutine(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a hook or make a provided value on the loop that tasks run on."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running_loop()).result()

    def submit(self, runs: list[Run]) -> None:
        line_up(self._line, runs)
        self._running_loop().call_soon_threadsafe(self._start_some)

    def _start_some(self) -> None:
        assert self._loop is not None
        while self._room and self._line:
            run = self._line.popleft()
            if self._leases.begin(run):
                self._room -= 1
                run.stopper = self._loop.create_task(self._run(run))

    async def _run(self, run: Run) -> None:
        limit = run.time_limit
        timer = None
        if limit is not None:
            timer = asyncio.get_running_loop().call_later(limit / 1000, self._time_out, run)
        try:
            outcome = await perform_async(run, self.resources, self._leases.steady)
        finally:
            if timer is not None:
                timer.cancel()
            run.stopper = None
            self._room += 1
        self._leases.end(run, outcome)
        self._start_some()

    def _time_out(self, run: Run) -> None:
        run.stop_reason = run.stop_reason or TIMED_OUT
        self._cancel(run)

    def stop_run(self, run: Run) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel, run)

    def _cancel(self, run: Run) -> None:
        if run.stopper is None:
            return
        if run.began is None:  # cancelled before its first step a coroutine would never see it
            assert self._loop is not None
            self._loop.call_soon(self._cancel, run)
        else:
            run.stopper.cancel()

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Until it is stopped; then coroutines that are left get to clean up."""
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
