"""What a handler says about a job, and the thread in which it runs: whatever it throws, the worker goes on."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from headrace.worker.copies import without_copies


class Success(Struct, frozen=True):
    """Done: it will not run again."""


class Retry(Struct, frozen=True):
    """Run it again: it goes to the back of the queue, and the message is logged. There is no limit and no pause."""

    message: str = ""


class Failure(Struct, frozen=True):
    """Give it up: it goes to the list of failures, and the message is logged. It will not run again."""

    message: str = ""


Result: TypeAlias = Success | Retry | Failure


class Hands:
    """Runs one job at a time in a thread of its own. The worker waits beside it, and keeps the job alive meanwhile."""

    def __init__(self, handler: Callable[[Any, Any], Any], state: Any, exceptions: type[Retry] | type[Failure]) -> None:
        self._handler = handler
        self._state = state
        self._exceptions = exceptions
        self._work: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="hworker-job", daemon=True)
        self._thread.start()

    def start(self, job: Any) -> None:
        self._work.put([job])

    def wait(self, seconds: float) -> Result | None:
        try:
            return self._done.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """No more jobs. One that still runs is not waited for."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            self._done.put(self._perform(*work))

    def _perform(self, job: Any) -> Result:
        try:
            with without_copies("of this handler"):
                result = self._handler(self._state, job)
                if asyncio.iscoroutine(result):
                    result = asyncio.run(result)
            if result is None:
                return Success()
            if not isinstance(result, Success | Retry | Failure):
                return Failure(f"the handler returned {type(result).__name__}, not Success, Retry or Failure")
        except BaseException as error:  # SystemExit, too: nothing thrown by a job may end the worker
            return self._exceptions(f"Exception raised: {_text(error)}")
        return result


def _text(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
