"""Events: what happens to jobs, as it happens.

    for event in app.events(queue="mail", what=("done", "failed")):
        print(event.at, event.what, event.job)

Whoever reads too slowly misses the oldest ones, and is told by an event `missed` in their place; so is one whose store
was away for a while. Nobody who works waits for a reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from datetime import datetime
from threading import Lock
from typing import NamedTuple, TypedDict, cast

from headrace.errors import ConfigurationError, StoreReadOnly, StoreUnavailable
from headrace.store import Store, Waiter
from headrace.store.facets import EVENT_KINDS, Batch, EventRecord, facet
from headrace.store.facets import Events as Facet
from headrace.store.wakeup import left_of
from headrace.values.durations import Duration, as_datetime, milliseconds
from headrace.values.glob import fits

MISSED = "missed"
LOOK_AGAIN = 20.0
"""Seconds after which a reader looks by itself: to say that it still listens, and should a wake-up have been lost."""
LONGEST_PAUSE = 2.0
"""Seconds between two attempts to reach a store that is away."""
PASSING = (StoreUnavailable, StoreReadOnly)


class Event(NamedTuple):
    """Something that happened to a job; or, if `what` is `missed`, that some events before the next were lost."""

    at: datetime
    what: str
    job: str
    """Its id."""
    task: str
    queue: str
    worker: str
    detail: str
    tracked: bool


class _Reader:
    """What reading in a thread and on an event loop have in common."""

    def __init__(self, store: Store, wanted: Callable[[EventRecord], bool], timeout: Duration | None) -> None:
        self._store = store
        self._facet = facet(store, Facet)
        self._wanted = wanted
        self._silence = None if timeout is None else milliseconds(timeout, "timeout") / 1000
        self._heard: deque[Event] = deque()
        self._pause = 0.05
        self._closed = False

    def _hear(self, batch: Batch) -> str:
        """Keep what is wanted; answers with where to go on."""
        self._pause = 0.05
        if batch.missed:
            now = datetime.now().astimezone()
            self._heard.append(Event(now, MISSED, "", "", "", "", "events before this moment were lost", False))
        for event in batch.events:
            if self._wanted(event):
                at = cast("datetime", as_datetime(event.at))
                self._heard.append(
                    Event(at, event.what, event.job, event.task, event.queue, event.worker, event.detail, event.tracked)
                )
        return batch.cursor

    def _longer_pause(self) -> float:
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return self._pause


class Events(_Reader):
    """Events from now on, one by one: an iterator that waits. Ends after `timeout` without one, or when closed.

    `close()` may be called from another thread; as a context manager it closes itself.
    """

    def __init__(self, store: Store, wanted: Callable[[EventRecord], bool], timeout: Duration | None = None) -> None:
        super().__init__(store, wanted, timeout)
        self._ear: Waiter | None = None
        self._reading = Lock()
        self._cursor = store.run(self._facet.listen())
        self._ear = self._facet.event_waiter()

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        from headrace.worker.context import refuse_on_loop  # noqa: PLC0415  (few programs run jobs)

        refuse_on_loop("app.events()", "'async for event in app.aevents(...)'")
        with self._reading:
            event = self._next()
        if event is None:
            self.close()
            raise StopIteration
        return event

    def _next(self) -> Event | None:
        left = left_of(self._silence)
        while not self._closed and self._ear is not None:
            if self._heard:
                return self._heard.popleft()
            try:
                self._ear.arm()
                self._cursor = self._hear(self._store.run(self._facet.events(self._cursor)))
                most = LOOK_AGAIN
            except PASSING:
                most = self._longer_pause()
            if not self._heard:
                seconds = left()
                if seconds is None:
                    return None
                self._ear.wait(min(seconds, most))
        return None

    def close(self) -> None:
        """Stop listening. Whoever waits in another thread comes to its end."""
        self._closed = True
        ear = self._ear
        if ear is None:
            return
        if self._reading.acquire(blocking=False):
            self._ear = None
            self._reading.release()
            ear.close()
        else:
            ear.poke()  # and who reads closes when it has come to its end

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_ear", None) is not None:
            self.close()


class AsyncEvents(_Reader):
    """The same for `async for`. Listens from the first step on, or from `async with`."""

    _ear: Waiter | None = None
    _cursor = ""
    _reading = False

    async def __aenter__(self) -> AsyncEvents:
        if self._ear is None:
            self._cursor = await self._store.arun(self._facet.listen())
            self._ear = self._facet.event_waiter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        await self.__aenter__()
        self._reading = True
        try:
            event = await self._next()
        finally:
            self._reading = False
        if event is None:
            await self.aclose()
            raise StopAsyncIteration
        return event

    async def _next(self) -> Event | None:
        left = left_of(self._silence)
        while not self._closed and self._ear is not None:
            if self._heard:
                return self._heard.popleft()
            try:
                self._ear.arm()
                self._cursor = self._hear(await self._store.arun(self._facet.events(self._cursor)))
                most = LOOK_AGAIN
            except PASSING:
                most = self._longer_pause()
            if not self._heard:
                seconds = left()
                if seconds is None:
                    return None
                await self._ear.wait_async(min(seconds, most))
        return None

    async def aclose(self) -> None:
        """Stop listening. Whoever waits in another asyncio task comes to its end."""
        self._closed = True
        if self._ear is None:
            return
        if self._reading:
            self._ear.poke()  # and who reads closes when it has come to its end
        else:
            self._ear.close()
            self._ear = None


class EventQuery(TypedDict, total=False):
    """Which events `app.events` and `app.aevents` give."""

    job: str | None
    """Of this id."""
    queue: str | None
    """A name or a GLOB."""
    task: str | None
    """A name or a GLOB."""
    what: str | Collection[str] | None
    """One or several kinds."""
    tracked: bool
    """Only of tracked jobs."""


def filter_of(
    *,
    job: str | None = None,
    queue: str | None = None,
    task: str | None = None,
    what: str | Collection[str] | None = None,
    tracked: bool = False,
) -> Callable[[EventRecord], bool]:
    """The test that an `EventQuery` stands for."""
    kinds = frozenset([what] if isinstance(what, str) else what or EVENT_KINDS)
    unknown = kinds - frozenset(EVENT_KINDS)
    if unknown:
        raise ConfigurationError(f"Unknown event {min(unknown)!r}. Events are: {', '.join(EVENT_KINDS)}.")

    def test(event: EventRecord) -> bool:
        return (
            event.what in kinds
            and (job is None or event.job == job)
            and (queue is None or fits(queue, event.queue))
            and (task is None or fits(task, event.task))
            and (event.tracked or not tracked)
        )

    return test
