"""A queue as its owner sees it: pause it, limit it and its lanes, look at what stands in line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.job import Job
from headrace.records import Counts, Filter, Page, Snapshot, State
from headrace.store.ages import Aging, Oldest
from headrace.store.contract import Operation
from headrace.store.courses import Course, arun_course, run_course
from headrace.store.facets import Editing, QueueControl, Queues, facet
from headrace.store.lanes import Lanes
from headrace.store.paging import following
from headrace.values.durations import Duration, parse_rate
from headrace.values.names import check_count, check_flag, check_name, check_queue

if TYPE_CHECKING:
    from headrace.app import Headrace


class Queue:
    """A handle on one queue. Made by `app.queue("mail")`.

    A pattern (`www-*`) is for workers: what is said about queues is said about each by its name.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> mail = app.queue("mail")
    >>> mail.pause(by="ada")
    True
    >>> mail.paused_by
    'ada'
    >>> mail.resume()
    True
    >>> mail.limit(3)
    >>> mail.lane("customer-7").limit(2)
    """

    def __init__(self, app: Headrace, name: str) -> None:
        self.app = app
        self.name = check_name("queue", name)

    def __repr__(self) -> str:
        return f"<queue {self.name}>"

    def counts(self) -> dict[State, int]:
        """How many of its jobs are in which state."""
        return run_course(self.app.store, self._counts())

    async def acounts(self) -> dict[State, int]:
        """The same, from async code."""
        return await arun_course(self.app.store, self._counts())

    def _counts(self) -> Course[dict[State, int]]:
        counts: list[Counts] = yield self.app.store.counts()
        return next((count.by_state for count in counts if count.queue == self.name), {})

    def peek(self, limit: int = 50) -> list[Job[Any]]:
        """The jobs that stand in line, in the order in which they will be handed out.

        One that falls due gets in line when a worker looks for work.
        """
        return self._handles(self.app.store.run(self._peek(limit)))

    async def apeek(self, limit: int = 50) -> list[Job[Any]]:
        """The same, from async code."""
        return self._handles(await self.app.store.arun(self._peek(limit)))

    def _peek(self, limit: int) -> Operation[list[Snapshot]]:
        return facet(self.app.store, Editing).peek(self.name, check_count("limit", limit))

    def _handles(self, found: list[Snapshot]) -> list[Job[Any]]:
        return [Job(self.app, snapshot.id, snapshot=snapshot) for snapshot in found]

    def oldest_ready_seconds(self) -> float | None:
        """How many seconds ago its oldest ready job was due: what workers are scaled by. None: no job is ready.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> app.queue("mail").oldest_ready_seconds() is None
        True
        """
        return self.app.store.run(self._oldest()).age(self.name)

    async def aoldest_ready_seconds(self) -> float | None:
        """The same, from async code."""
        return (await self.app.store.arun(self._oldest())).age(self.name)

    def _oldest(self) -> Operation[Oldest]:
        return facet(self.app.store, Aging).oldest()

    # -- pausing --

    @property
    def paused_by(self) -> str | None:
        """Who paused it; None: it is not paused."""
        return run_course(self.app.store, self._control()).paused_by

    async def apaused_by(self) -> str | None:
        """The same, from async code."""
        return (await arun_course(self.app.store, self._control())).paused_by

    @property
    def running_at_most(self) -> int | None:
        return run_course(self.app.store, self._control()).limit

    async def arunning_at_most(self) -> int | None:
        """The same, from async code."""
        return (await arun_course(self.app.store, self._control())).limit

    def _control(self) -> Course[QueueControl]:
        controls: list[QueueControl] = yield facet(self.app.store, Queues).controls()
        return next((control for control in controls if control.queue == self.name), QueueControl(queue=self.name))

    def pause(self, by: str = "", *, stop_running: bool = False) -> bool:
        """Hand out nothing more from it. False: it was paused already.

        `stop_running`: what runs is taken from its workers and put back in line, without spending an attempt.
        """
        return run_course(self.app.store, self.pausing(by, stop_running))

    async def apause(self, by: str = "", *, stop_running: bool = False) -> bool:
        """The same, from async code."""
        return await arun_course(self.app.store, self.pausing(by, stop_running))

    def pausing(self, by: str, stop_running: bool) -> Course[bool]:
        """What `pause` asks the store for."""
        check_queue(self.name, test=True)
        if by:
            check_name("name", by)
        changed: bool = yield facet(self.app.store, Queues).pause(self.name, by)
        if check_flag("stop_running", stop_running):
            yield from self.stopping()
        return changed

    def stop_running(self) -> int:
        """Take away what runs, back in line. How many that were."""
        return run_course(self.app.store, self.stopping())

    async def astop_running(self) -> int:
        """The same, from async code."""
        return await arun_course(self.app.store, self.stopping())

    def stopping(self) -> Course[int]:
        """What `stop_running` asks the store for."""
        store = self.app.store
        editing = facet(store, Editing)
        wanted: Filter | None = Filter(states=(State.RUNNING,), queue=self.name, limit=200)
        stopped = 0
        while wanted is not None:
            page: Page = yield store.find(wanted)
            if page.jobs:
                done: list[bool] = yield editing.take_back([job.id for job in page.jobs])
                stopped += sum(done)
            wanted = following(wanted, page)
        return stopped

    def resume(self) -> bool:
        """Go on. False: it was not paused."""
        return self.app.store.run(self.resuming())

    async def aresume(self) -> bool:
        """The same, from async code."""
        return await self.app.store.arun(self.resuming())

    def resuming(self) -> Operation[bool]:
        """What `resume` asks the store for."""
        return facet(self.app.store, Queues).resume(self.name)

    def limit(self, running: int | None) -> None:
        """Let at most so many of its jobs run at once, on all workers together; None: as many as come."""
        self.app.store.run(self.limiting(running))

    async def alimit(self, running: int | None) -> None:
        """The same, from async code."""
        await self.app.store.arun(self.limiting(running))

    def limiting(self, running: int | None) -> Operation[None]:
        """What `limit` asks the store for."""
        if running is not None:
            check_queue(self.name, test=True)
        return facet(self.app.store, Queues).limit(self.name, running)

    def lane(self, key: str) -> QueueLane:
        """A handle on one of its lanes: set the lane's limit and rate."""
        return QueueLane(self.app, self.name, key)


class QueueLane:
    """A handle on one lane of a queue. Made by `app.queue("mail").lane("customer-7")`.

    What is set here holds whatever the calls say, also for lanes that have no jobs at present, until `clear()`.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> lane = app.queue("mail").lane("customer-7")
    >>> lane.limit(2)
    >>> lane.rate("100/minute")
    >>> lane.clear()
    True
    """

    def __init__(self, app: Headrace, queue: str, key: str) -> None:
        self.app = app
        self.queue = check_queue(queue, test=True)
        self.key = check_name("lane", key)

    def __repr__(self) -> str:
        return f"<lane {self.key} of queue {self.queue}>"

    def limit(self, running: int | None, by: str = "") -> None:
        """Let at most so many of its jobs run at once; None: as many as come. `by`: your name, shown by `why`."""
        self.app.store.run(self.limiting(running, by))

    async def alimit(self, running: int | None, by: str = "") -> None:
        """The same, from async code."""
        await self.app.store.arun(self.limiting(running, by))

    def limiting(self, running: int | None, by: str = "") -> Operation[None]:
        """What `limit` asks the store for."""
        limit = 0 if running is None else check_count("limit", running, 1)
        return facet(self.app.store, Lanes).set_lane(self.queue, self.key, limit=limit, by=by)

    def rate(self, starts: str | tuple[int, Duration] | None, by: str = "") -> None:
        """Let at most so many of its jobs start within a time, as in `rate="10/minute"`; None: at any rate."""
        self.app.store.run(self.rating(starts, by))

    async def arate(self, starts: str | tuple[int, Duration] | None, by: str = "") -> None:
        """The same, from async code."""
        await self.app.store.arun(self.rating(starts, by))

    def rating(self, starts: str | tuple[int, Duration] | None, by: str = "") -> Operation[None]:
        """What `rate` asks the store for."""
        rate, per = (0, 1_000) if starts is None else parse_rate(starts)
        return facet(self.app.store, Lanes).set_lane(self.queue, self.key, rate=rate, per=per, by=by)

    def clear(self) -> bool:
        """Let the calls decide again about its limit and its rate. False: nothing was set."""
        return self.app.store.run(self.clearing())

    async def aclear(self) -> bool:
        """The same, from async code."""
        return await self.app.store.arun(self.clearing())

    def clearing(self) -> Operation[bool]:
        """What `clear` asks the store for."""
        return facet(self.app.store, Lanes).clear_lane(self.queue, self.key)
