"""What a worker does once a second, whether or not it has jobs: sweep the store, look at its own memory."""

from __future__ import annotations

import logging
import random
import time

from headrace.errors import StoreError
from headrace.store import Store
from headrace.worker.identity import resident_memory
from headrace.worker.ticker import Ticker

log = logging.getLogger("headrace.worker")

SWEEP_SECONDS = 1.0
SWEEP_EVERY = 900
"""Milliseconds between two sweeps of a store by all workers together: less than a lone worker lets pass."""
CROWD_SECONDS = 15.5
"""A worker that leaves sweeps to others for longer than this is one of so many that one of them looks for work every
moment, and each within this time: what they hear then is enough."""


class Upkeep:
    """Done by the pump, or by the thread that waits in its stead."""

    def __init__(self, store: Store, ticker: Ticker, *, monitor: bool, max_memory: int | None) -> None:
        self._store = store
        self._ticker = ticker
        self._monitor = monitor
        self._max_memory = max_memory
        self._looked = False
        self.born_too_large = False
        """Whether the process takes more than `max_memory` without having run a job."""
        self.due_at = 0.0
        """On the monotonic clock."""
        self._sweep_at = 0.0
        """Not before then: other workers sweep this store as well."""
        self._again_in = 0.0
        """For how many seconds a worker leaves that to the others, at most."""

    def do(self) -> None:
        now = time.monotonic()
        self.due_at = now + SWEEP_SECONDS + random.uniform(0.0, 0.4)  # noqa: S311
        if not self._looked:
            self._looked = True
            self._look_at_birth()
        if self._monitor and now >= self._sweep_at:
            self._sweep()

    def was_swept(self, milliseconds: int) -> None:
        """Another request has said how long ago the store was swept. One of many idle workers need not ask then.

        Each of them hears that within the time that it would leave to others, and the first one that it is time sweeps.
        """
        if self._monitor and self._again_in >= CROWD_SECONDS:
            now = time.monotonic()
            if milliseconds < SWEEP_EVERY:
                self._sweep_at = now + self._again_in
            else:
                self._sweep_at = self.due_at = now

    def _look_at_birth(self) -> None:
        size = resident_memory()
        if self._max_memory is not None and size > self._max_memory:
            self.born_too_large = True
            log.warning(
                "this process takes %d MB before its first job, and --max-memory is %d MB: it makes way after each "
                "moment of work. Raise --max-memory",
                *(size // 1_000_000, self._max_memory // 1_000_000),
                extra={"event": "memory_too_small"},
            )

    @property
    def too_large(self) -> str | None:
        """Why this process is to be replaced by a fresh one; None: it need not."""
        if self._max_memory is None or resident_memory() <= self._max_memory:
            return None
        return f"more than {self._max_memory // 1_000_000} MB in use"

    def _sweep(self) -> None:
        try:
            swept = self._store.run(self._store.sweep(every=SWEEP_EVERY))
        except StoreError as error:
            log.warning("%s", error, extra={"event": "store_unavailable"})
            return
        self._ticker.expect(swept.ticks_in)
        if swept.again_in is not None and not swept.more:
            self._again_in = swept.again_in / 1000
            self._sweep_at = time.monotonic() + self._again_in * random.uniform(0.7, 1.0)  # noqa: S311
        if swept.sessions_closed:
            log.warning(
                "closed %d dead sessions, returned %d jobs to their queues",
                *(swept.sessions_closed, swept.jobs_returned),
                extra={"event": "jobs_returned"},
            )
        if swept.failed_purged_early:
            log.warning(
                "purged %d failed jobs before their age (failed-history): ended jobs took more than history-memory",
                swept.failed_purged_early,
                extra={"event": "failed_purged_early"},
            )
        if swept.more:
            self.due_at -= SWEEP_SECONDS * 0.95
