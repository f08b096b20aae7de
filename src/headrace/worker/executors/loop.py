"""Coroutine functions on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from headrace.worker.copies import ADVICE, end_process
from headrace.worker.executors import line_up
from headrace.worker.outcomes import TIMED_OUT, about
from headrace.worker.run import Run, perform_async

if TYPE_CHECKING:
    from types import FrameType

    from headrace.worker.leases import Leases
    from headrace.worker.resources import Resources

log = logging.getLogger("headrace.worker")

BLOCKED_SECONDS = 2.0
"""A loop that answers nothing for so long, while it has coroutines to run, is blocked by one of them."""


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
        self._thread: threading.Thread | None = None
        self._most = most
        self._asked_at: float | None = None
        """When the loop was last asked for a sign of life that it has not given; None: it has."""
        self._said_so = False
        """Whether the log has that it is blocked."""
        _executors.add(self)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="headrace-loop", daemon=True)
                self._thread.start()
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
        else:  # once: another cancellation, by the timer and by the pump, would end the clean-up after the first
            stopper, run.stopper = run.stopper, None
            stopper.cancel()

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def look(self) -> None:
        """Called now and then by the pump: log which job blocks the loop, if one does."""
        if self._loop is None or self._thread is None:
            return
        if self._asked_at is None:
            if self._room < self._most:
                self._asked_at = time.monotonic()
                self._loop.call_soon_threadsafe(self._alive)
            return
        seconds = time.monotonic() - self._asked_at
        frame = sys._current_frames().get(self._thread.ident or 0)
        if seconds < BLOCKED_SECONDS or self._said_so or frame is None:
            return
        self._said_so = True
        run, place = _found_in(frame)
        who = "a coroutine" if run is None else f"job {run.id} ({run.lease.task})"
        log.warning(
            "%s has blocked the event loop for %.1f s, in %s: no other coroutine of this process can go on. Await "
            "what takes time, or leave it to a thread: await asyncio.to_thread(...)",
            *(who, seconds, place),
            extra={"event": "loop_blocked"} if run is None else about(run.lease, "loop_blocked"),
        )

    def _alive(self) -> None:
        """On the loop."""
        if self._said_so and self._asked_at is not None:
            seconds = time.monotonic() - self._asked_at
            log.warning("the event loop goes on after %.1f s", seconds, extra={"event": "loop_unblocked"})
        self._asked_at, self._said_so = None, False

    def end_in_child(self) -> None:
        """In a child that was forked on the loop: what comes next there, after the code that forked, is its end."""
        if self._loop is None or self._thread is not threading.current_thread():
            return
        if isinstance(ready := getattr(self._loop, "_ready", None), deque):  # the next steps of other coroutines
            ready.clear()
        self._loop.call_soon(_end_child)


def _end_child() -> None:
    log.warning(
        "a child that was forked on the event loop came back to the loop, and has been ended. %s",
        ADVICE,
        extra={"event": "child_ended"},
    )
    end_process(1)


def _found_in(frame: FrameType) -> tuple[Run | None, str]:
    """The run whose coroutine is at work in a stack, and its innermost line of the file that the task is in."""
    frames = [frame]
    while (outer := frames[-1].f_back) is not None and outer.f_code is not perform_async.__code__:
        frames.append(outer)
    run: Run | None = None if outer is None else outer.f_locals["run"]
    own = [each for each in frames if run is not None and each.f_code.co_filename == _file_of(run)]
    innermost = own[0] if own else frames[0]
    return run, f"{innermost.f_code.co_filename}, line {innermost.f_lineno}"


def _file_of(run: Run) -> str:
    code = getattr(run.task.function, "__code__", None)
    return "" if code is None else str(code.co_filename)


_executors: WeakSet[LoopExecutor] = WeakSet()


def _after_fork() -> None:
    for executor in list(_executors):
        executor.end_in_child()


os.register_at_fork(after_in_child=_after_fork)


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
