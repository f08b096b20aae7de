"""Plain functions on a pool of threads.

What a thread can't do: be stopped. A run that should stop finds `current().cancelled` true, and a time-out raises
in it at the next line of Python; neither reaches a thread that sits in C code or in a blocking call. A run far past
its time-out gets its process killed by the supervisor. `isolate=True` is for code that needs more than that.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headrace.errors import Timeout
from headrace.records import Outcome
from headrace.worker.executors import line_up
from headrace.worker.outcomes import SILENT, TIMED_OUT, conclude
from headrace.worker.run import Run, perform

if TYPE_CHECKING:
    from headrace.worker.leases import Leases
    from headrace.worker.resources import Resources

LATELY = 8
"""About so many jobs tell whether jobs are quick."""
SLOW = 1.1
"""Milliseconds that slow jobs count as, so that a quick one may be the first of many."""
HARDLY = 0.01
"""Milliseconds: the average of quick jobs need not be known more exactly."""
MANY = 1_000
"""When so many jobs end in a second, they may be quick: one thread tries."""


class ThreadExecutor:
    """Threads are started as they are needed, up to a number, and then kept.

    Quick jobs are run by one thread: more would only take the interpreter from each other, and from the pump. As soon
    as jobs take a millisecond on the average it is one for each job. How long they take shows when one thread runs
    them: those that share the interpreter with others seem to be slow.
    """

    can_stop = False

    def __init__(self, leases: Leases, resources: Resources, most: int) -> None:
        self._leases = leases
        self._resources = resources
        self._most = most
        self._line: deque[Run] = deque()
        self._threads: list[threading.Thread] = []
        self._asleep: list[threading.Lock] = []
        """A lock of each thread that sleeps: to release it wakes it."""
        self._requests: deque[Callable[[], None]] = deque()
        self._lent = False
        self._took = 1.0
        """Milliseconds that a job takes alone. Clocks count whole ones: the average of many is right all the same."""
        self._closed = False
        self._guard = threading.Lock()

    def submit(self, runs: list[Run]) -> None:
        if self._line:
            line_up(self._line, runs)
        else:
            self._line.extend(runs)
        all_asleep = len(self._asleep) == len(self._threads)
        if self._took >= 1 and not (all_asleep and self._leases.ahead.pace.rate >= MANY):
            self._wake(len(self._line) - self._lent)  # the thread that brings them takes one
        elif all_asleep:
            self._wake(1)

    def lend_thread(self, work: Callable[[], None]) -> None:
        """Have a thread do something, and wait for that. A run that is submitted on the way it can start at once."""
        back = threading.Lock()
        back.acquire()
        trouble: list[BaseException] = []

        def go() -> None:
            self._lent = True
            try:
                work()
            except BaseException as error:
                trouble.append(error)
            self._lent = False
            back.release()

        self._requests.append(go)
        self._wake(1)
        back.acquire()
        if trouble:
            raise trouble[0]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Start no quick jobs meanwhile: they take the interpreter from the pump each time it waits for the store."""
        held: list[Run] = []
        if self._took < 1:
            with suppress(IndexError):
                while True:
                    held.append(self._line.popleft())
        try:
            yield
        finally:
            self._line.extendleft(reversed(held))
            if held:
                self._wake(1)

    def hurry(self) -> None:
        """What was quick seems to be slow: a thread for each job."""
        self._took = max(self._took, 1.0)
        self._wake(len(self._line))

    def _wake(self, number: int) -> None:
        for _ in range(min(number, self._most)):
            try:
                self._asleep.pop().release()
            except IndexError:
                if len(self._threads) < self._most:
                    thread = threading.Thread(target=self._work, name=f"headrace-job-{len(self._threads)}", daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _rest(self, nap: threading.Lock) -> None:
        """Nothing is in line, or another thread sees to it: do what the pump asks for, or sleep."""
        if self._requests:  # there is one pump, so there is one request
            self._requests.popleft()()
            return
        self._asleep.append(nap)
        # Looked at once more, as it may have changed before this thread was among the sleepers.
        left = self._line and (self._took >= 1 or len(self._asleep) == len(self._threads))
        if left or self._requests or self._closed:
            with suppress(ValueError):
                self._asleep.remove(nap)
                return
        nap.acquire()

    def _work(self) -> None:
        leases = self._leases
        line, asleep, threads = self._line, self._asleep, self._threads
        steady = leases.steady
        resources = self._resources
        me = threading.get_ident()
        nap = threading.Lock()
        nap.acquire()
        alone = self._one_is_awake()
        while True:
            try:
                run = line.popleft()
            except IndexError:
                if self._closed:
                    return
                self._rest(nap)
                alone = self._one_is_awake()
                continue
            if not leases.begin(run):
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
            leases.end(run, outcome)
            was_alone, alone = alone, len(asleep) == len(threads) - 1
            if alone and was_alone and (self._took > HARDLY or outcome.ended != outcome.began):
                self._learn(outcome)
            if self._took >= 1:
                if line:
                    self._wake(1)
            elif not alone:
                self._rest(nap)
                alone = self._one_is_awake()

    def _learn(self, outcome: Outcome) -> None:
        """How long a job took that ran alone."""
        if outcome.began is not None and outcome.ended is not None:
            self._took = min(self._took + (outcome.ended - outcome.began - self._took) / LATELY, SLOW)

    def _one_is_awake(self) -> bool:
        return len(self._asleep) == len(self._threads) - 1

    def stop_run(self, run: Run) -> None:
        if run.stop_reason not in (TIMED_OUT, SILENT):
            return
        with self._guard:
            if run.thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(run.thread), ctypes.py_object(Timeout))

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):
            while True:
                self._asleep.pop().release()
