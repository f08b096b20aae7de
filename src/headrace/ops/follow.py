"""Following a store: an overview again and again, as something happens.

    with Follower(app) as follower:
        while True:
            show(follower.look())
            follower.wait()

On an event loop: `async with`, `alook` and `await_`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from headrace.ops.overview import Overview, Rates, aoverview, overview
from headrace.store.contract import Waiter
from headrace.store.courses import Course, arun_course, run_course
from headrace.store.facets import Batch, Events, facet

if TYPE_CHECKING:
    from headrace.app import Headrace

REFRESH = 1.0
"""Seconds between two looks, at least."""
QUIET = 5.0
"""And when nothing happens."""
NAP = 0.2
"""Seconds between two reads of events while they come."""
ENDS_OR_REVIVES = frozenset({"failed", "cancelled", "revived", "deleted"})
"""Events after which other jobs are failed than before."""


class Follower:
    """Measures rates from events, and knows when it is time to look again. Used by one thread, or one event loop."""

    def __init__(self, app: Headrace) -> None:
        self.rates = Rates()
        self._app = app
        self._events = facet(app.store, Events)
        self._looked = 0.0
        self._last: Overview | None = None
        """The last look, as long as its failures are those that there are."""
        self._cursor = ""
        self._ear: Waiter | None = None
        self._attention = threading.Event()

    def __enter__(self) -> Follower:
        self._listen(self._app.store.run(self._events.listen()))
        return self

    async def __aenter__(self) -> Follower:
        self._listen(await self._app.store.arun(self._events.listen()))
        return self

    def __exit__(self, *_: object) -> None:
        self._waiter.close()

    async def __aexit__(self, *_: object) -> None:
        self._waiter.close()

    def look(self) -> Overview:
        """An overview, with the rates of the last seconds."""
        self._looked = time.monotonic()
        self._last = overview(self._app, self.rates, self._last)
        return self._last

    async def alook(self) -> Overview:
        """The same, from async code."""
        self._looked = time.monotonic()
        self._last = await aoverview(self._app, self.rates, self._last)
        return self._last

    def wait(self) -> bool:
        """Block until it is time to look again (True), or until another thread pokes (False)."""
        happened = False
        while True:
            self._waiter.arm()
            if self._attention.is_set():
                self._attention.clear()
                return False
            happened = run_course(self._app.store, self._hearing()) or happened
            left = self._left(happened)
            if left <= 0:
                return True
            if happened:  # no need to hear of every single event until then
                self._attention.wait(min(left, NAP))
            else:
                self._waiter.wait(left)

    async def await_(self) -> None:
        """Wait until it is time to look again, from async code."""
        from asyncio import sleep  # noqa: PLC0415  (`headrace top` has no event loop)

        happened = False
        while True:
            self._waiter.arm()
            happened = await arun_course(self._app.store, self._hearing()) or happened
            left = self._left(happened)
            if left <= 0:
                return
            if happened:
                await sleep(min(left, NAP))
            else:
                await self._waiter.wait_async(left)

    def poke(self) -> None:
        """End the present or the next `wait`. Safe from any thread."""
        self._attention.set()
        self._waiter.poke()

    @property
    def _waiter(self) -> Waiter:
        assert self._ear is not None, "it is used in a with block"
        return self._ear

    def _listen(self, cursor: str) -> None:
        self._cursor, self._ear = cursor, self._events.event_waiter()

    def _left(self, happened: bool) -> float:
        """Seconds until it is time to look again."""
        return self._looked + (REFRESH if happened else QUIET) - time.monotonic()

    def _hearing(self) -> Course[bool]:
        """Read what has happened: whether anything has."""
        batch: Batch = yield self._events.events(self._cursor, 10_000)
        self._cursor = batch.cursor
        self.rates.hear(batch.events)
        if batch.missed or any(event.what in ENDS_OR_REVIVES for event in batch.events):
            self._last = None
        return bool(batch.events) or batch.missed
