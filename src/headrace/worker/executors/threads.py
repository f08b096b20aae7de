"""Plain functions on a pool of threads.

What a thread can't do: be stopped. A run that should stop finds `current().cancelled` true, and a time-out raises
in it at the next line of Python; neither reaches a thread that sits in C code or in a blocking call. A run far past
its time-out gets its process killed by the supervisor. `isolate=True` is for code that needs more than that.
"""

from __future__ import annotations

import ctypes
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from headrace.errors import Timeout
from headrace.worker.context import Context
from headrace.worker.run import SILENT, TIMED_OUT, conclude, perform

if TYPE_CHECKING:
    from headrace.worker.pump import Pump


class ThreadExecutor:
    """Threads are started as they are needed, up to a number, and then kept."""

    def __init__(self, pump: Pump, most: int) -> None:
        self._pump = pump
        self._most = most
        self._line: SimpleQueue[Context | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._guard = threading.Lock()

    def submit(self, runs: list[Context]) -> None:
        for run in runs:
            self._line.put(run)
        # As many threads as there are jobs in hand, so that a worker of quick jobs needs only one or two.
        while len(self._threads) < min(self._most, self._pump.in_hand):
            thread = threading.Thread(target=self._work, name=f"headrace-job-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        pump = self._pump
        get = self._line.get
        steady = pump.steady
        resources = pump.resources
        me = threading.get_ident()
        while (run := get()) is not None:
            if not pump.begin(run):
                continue
            outcome = None
            run.thread = me
            try:
                outcome = perform(run, resources, steady)
                with self._guard:  # from here on no time-out may be thrown at this thread
                    run.thread = None
            except Timeout as late:  # it came after the task's own code: in time for the outcome, or not
                with self._guard:
                    run.thread = None
                outcome = outcome or conclude(run, late)
            pump.end(run, outcome)

    def stop_run(self, run: Context) -> None:
        if run.stop_reason not in (TIMED_OUT, SILENT):
            return
        with self._guard:
            if run.thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(run.thread), ctypes.py_object(Timeout))

    def close(self) -> None:
        for _ in self._threads:
            self._line.put(None)
