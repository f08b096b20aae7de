"""A worker inside a program: the same pump and executors, without a supervisor."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from headrace.errors import ConfigurationError, SessionGone, StoreError, StoreUnavailable
from headrace.loading import path_of, refuse_while_loading
from headrace.store.contract import Guard
from headrace.store.settings import session_timeout as session_timeout_of
from headrace.traffic import as_test
from headrace.values.clock import SystemClock
from headrace.values.durations import Duration, milliseconds
from headrace.values.names import check_count, check_flag, check_name
from headrace.worker.identity import introduce, resident_memory
from headrace.worker.pump import Pump
from headrace.worker.reconcile import reconcile
from headrace.worker.session import MARGIN, RENEW_AGAIN, TELL_WITHIN, renew_within
from headrace.worker.versions import version_of

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

GRACE = 30.0
"""Seconds that jobs have to finish when a worker stops."""
PAUSE = 0.5
"""Seconds before a worker looks again for a store that is not there."""


def default_queues(app: Headrace) -> tuple[str, ...]:
    """All queues that the app's tasks and its declared schedules go to, those that it names itself, and `default`."""
    of_schedules = {definition.queue for definition in app.declared.values()}
    of_tasks = {task.options.queue for task in app.tasks.values()}
    return tuple(sorted({"default", *of_schedules, *of_tasks, *app.more_queues}))


def default_slots(app: Headrace) -> int:
    """How many jobs at once in one process: coroutines cost little, threads a little more."""
    return 100 if app.tasks and all(task.is_async for task in app.tasks.values()) else 8


class Worker:
    """A worker inside a program, without a supervisor. Made by `app.worker(...)`.

    `queues`: in the order in which they are emptied. If not given: all that the app's tasks and declared schedules go
    to, in turn.
    `slots`: how many jobs at once. `round_robin`: one from each queue in turn.
    `session_timeout`: how long after its last sign of life others may take over its jobs; unless given, as the store's
    settings say (`session-timeout`). `session_grace`: so much later still, so that jobs whose worker is cut off from
    the store see `current().cancelled` and can wind up before others start them.
    `test`: it runs the test traffic of its queues (`using(test=True)`), and nothing else.
    `monitor`: whether it looks after jobs of workers that have died; if nobody does, those stay where they are.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> @app.task
    ... def shout(word: str) -> str:
    ...     return word.upper()
    >>> with app.worker():
    ...     shout.enqueue("hello").result(timeout=10)
    'HELLO'
    """

    def __init__(
        self,
        app: Headrace,
        *,
        queues: Sequence[str] | None = None,
        slots: int | None = None,
        round_robin: bool | None = None,
        session_timeout: Duration | None = None,
        session_grace: Duration = 0,
        monitor: bool = True,
        max_jobs: int | None = None,
        test: bool = False,
    ) -> None:
        if isinstance(queues, str):
            raise ConfigurationError(f"queues is a list of names: queues=[{queues!r}].")
        self.app = app
        app.load_included()
        named = [check_name("queue", queue) for queue in queues or default_queues(app)]
        self.queues = tuple(map(as_test, named) if check_flag("test", test) else named)
        self.slots = check_count("slots", default_slots(app) if slots is None else slots, 1)
        self.round_robin = queues is None if round_robin is None else check_flag("round_robin", round_robin)
        self.timeout = None if session_timeout is None else milliseconds(session_timeout, "session_timeout")
        if self.timeout is not None and self.timeout < 1000:
            raise ConfigurationError("session_timeout must be at least a second.")
        self._grace = milliseconds(session_grace, "session_grace")
        self._monitor = check_flag("monitor", monitor)
        self._max_jobs = None if max_jobs is None else check_count("max_jobs", max_jobs, 1)
        self._pump: Pump | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._started: Future[None] = Future()
        """Whether it has ever worked, or why it did not, for `start`."""

    # -- ways to run it --

    def run(self) -> None:
        """Work until `stop` is called from another thread (or from a signal handler)."""
        self._stopped.clear()
        while not self._stopped.is_set():
            try:
                self._run_session(burst=False)
            except SessionGone as error:
                log.warning("%s Opening a new session.", error, extra={"event": "session_lost"})
            except StoreUnavailable as error:
                if not self._started.done():
                    raise  # it has never worked: that is for the caller to know
                log.warning("%s Trying again in %g s.", error, PAUSE, extra={"event": "store_unavailable"})
                self._stopped.wait(PAUSE)
            else:
                return

    async def arun(self) -> None:
        """The same in another thread, for async code. Cancelling it stops the worker."""
        await self._elsewhere(self.run)

    def run_until_empty(self) -> None:
        """Work until nothing is ready and nothing runs. Jobs that are due later stay where they are."""
        self._run_session(burst=True)

    async def arun_until_empty(self) -> None:
        """The same in another thread, for async code."""
        await self._elsewhere(self.run_until_empty)

    async def _elsewhere(self, run: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(run)
        except asyncio.CancelledError:
            self.stop()
            raise

    def start(self) -> Worker:
        """Work in a thread of this program until `stop`."""
        self._started = Future()
        self._thread = threading.Thread(target=self._run_in_thread, name="headrace-pump", daemon=True)
        self._thread.start()
        self._started.result()
        return self

    async def astart(self) -> Worker:
        """The same, from async code."""
        return await asyncio.to_thread(self.start)

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except BaseException as error:
            if self._started.done():
                raise  # it did start: nobody waits for it any more
            self._started.set_exception(error)

    def stop(self, grace: float = GRACE) -> None:
        """Stop taking jobs; let those that run finish for up to `grace` seconds; give the rest back."""
        self._stopped.set()
        if self._pump is not None:
            self._pump.stopping.stop(grace)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(grace + 10)

    async def astop(self, grace: float = GRACE) -> None:
        """The same, from async code."""
        await asyncio.to_thread(self.stop, grace)

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Worker:
        return await self.astart()

    async def __aexit__(self, *_: object) -> None:
        await self.astop()

    # -- a session --

    def _run_session(self, *, burst: bool) -> None:
        refuse_while_loading()
        store = self.app.store
        self.app._create_store()
        reconcile(self.app)
        timeout = self.timeout or session_timeout_of(store, self.queues)
        tasks, path = tuple(sorted(self.app.tasks)), path_of(self.app)
        info = introduce(self.queues, tasks, timeout + self._grace, version=version_of(self.app, path))
        guard = store.guard(info.id)
        store.run(store.open(info))
        try:
            self._pump = pump = Pump(
                self.app,
                info.id,
                queues=self.queues,
                slots=self.slots,
                round_robin=self.round_robin,
                burst=burst,
                monitor=self._monitor,
                timeout=timeout,
                app_path=path,
                max_jobs=self._max_jobs,
                meter=None if self.app.board is None else self.app.board.begin(),
            )
        except BaseException:
            guard.close()
            raise
        keeper = Keeper(pump, timeout)
        try:
            try:
                pump.resources.start()
            except BaseException:
                pump.close()
                raise
            keeper.start()
            if not self._started.done():
                self._started.set_result(None)
            if self._stopped.is_set() and not burst:
                pump.stopping.stop()
            pump.run()
        finally:
            if pump.leases.in_hand:
                # Threads can't be stopped, and nobody else may run their jobs while they do.
                log.warning(
                    "%d jobs go on in threads: their session stays open until they end",
                    pump.leases.in_hand,
                    extra={"event": "threads_outlast"},
                )
                threading.Thread(target=_outlast, args=(pump, keeper, guard), name="headrace-rest", daemon=True).start()
            else:
                _close(pump, keeper, guard)


def _outlast(pump: Pump, keeper: Keeper, guard: Guard) -> None:
    """Wait for threads that did not stop in time, and tell the store what became of their jobs."""
    try:
        pump.stopping.settle_late()
    except StoreError as error:
        log.warning("%s", error, extra={"event": "store_unavailable"})
    _close(pump, keeper, guard)


def _close(pump: Pump, keeper: Keeper, guard: Guard) -> None:
    keeper.stop()
    store = pump.app.store
    try:
        store.run(store.close_session(pump.session.id))
    except StoreError as error:
        log.warning("%s", error, extra={"event": "session_not_closed"})
    if pump.meter is not None and pump.app.board is not None:
        pump.app.board.retire(pump.meter)
    guard.close()


class Keeper:
    """Renews the session of a worker without supervisor, and stops its jobs in time when that can't be done."""

    def __init__(self, pump: Pump, timeout: int) -> None:
        self._pump = pump
        self._timeout = timeout
        self._margin = min(MARGIN, timeout // 4)
        self._steady = SystemClock().steady
        self._renewed = self._steady()
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, name="headrace-keeper", daemon=True),
            threading.Thread(target=self._watch, name="headrace-watch", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(5)

    @property
    def last_renewal(self) -> int:
        """When the session was last renewed, from here or by the pump, on the steady clock."""
        return max(self._renewed, self._pump.session.renewed)

    def _keep(self) -> None:
        wait = self._timeout // 3
        while not self._done.wait(wait / 1000):
            try:
                wait = self.renew()
            except SessionGone:
                self._pump.stopping.abandon()
                return

    def renew(self) -> int:
        """Renew the session unless the pump has lately. Returns after how many milliseconds to come again."""
        sent, often = self._steady(), self._timeout // 3
        idle = not self._pump.leases.running
        due = min(self.last_renewal + renew_within(self._timeout, idle=idle), self._renewed + TELL_WITHIN)
        if sent < due:
            return min(due - sent, often)  # by then it may have jobs
        store = self._pump.app.store
        try:
            renewal = store.run(store.renew(self._pump.session.id, memory=resident_memory() or None))
            self._renewed = sent
            if renewal.stop:
                self._pump.session.to_stop = True
        except SessionGone:
            raise
        except StoreError as error:
            log.warning("the session could not be renewed: %s", error, extra={"event": "session_not_renewed"})
            return min(RENEW_AGAIN, often)
        return often

    def _watch(self) -> None:
        """Asks the store nothing: while a renewal waits for an answer, time runs out all the same.

        And stops the worker if an operator has asked for that.
        """
        while not self._done.wait(self._margin / 4000):
            if self._pump.session.to_stop:
                self._pump.stopping.stop(GRACE)
            if self._steady() - self.last_renewal > self._timeout - self._margin:
                self._pump.stopping.abandon()
                return
