"""A queue as its owner sees it: pause it, limit it, look at what stands in line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.handle import Job
from headrace.job import Filter, State
from headrace.names import check_count, check_name, check_queue
from headrace.store.facets import Editing, QueueControl, Queues, facet

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
    """

    def __init__(self, app: Headrace, name: str) -> None:
        self.app = app
        self.name = check_name("queue", name)

    def __repr__(self) -> str:
        return f"<queue {self.name}>"

    def counts(self) -> dict[State, int]:
        """How many of its jobs are in which state."""
        store = self.app.store
        found = [count for count in store.run(store.counts()) if count.queue == self.name]
        return found[0].by_state if found else {}

    def peek(self, limit: int = 50) -> list[Job[Any]]:
        """The jobs that stand in line, in the order in which they will be handed out.

        One that falls due gets in line when a worker looks for work.
        """
        check_count("limit", limit)
        store = self.app.store
        return [
            Job(self.app, snapshot.id, snapshot=snapshot)
            for snapshot in store.run(facet(store, Editing).peek(self.name, limit))
        ]

    # -- pausing --

    @property
    def paused_by(self) -> str | None:
        """Who paused it; None: it is not paused."""
        return self._control.paused_by

    @property
    def running_at_most(self) -> int | None:
        return self._control.limit

    @property
    def _control(self) -> QueueControl:
        store = self.app.store
        controls = store.run(facet(store, Queues).controls())
        return next((control for control in controls if control.queue == self.name), QueueControl(queue=self.name))

    def pause(self, by: str = "", *, stop_running: bool = False) -> bool:
        """Hand out nothing more from it. False: it was paused already.

        `stop_running`: what runs is taken from its workers and put back in line, without spending an attempt.
        """
        check_queue(self.name)
        if by:
            check_name("name", by)
        store = self.app.store
        changed = store.run(facet(store, Queues).pause(self.name, by))
        if stop_running:
            self.stop_running()
        return changed

    def stop_running(self) -> int:
        """Take away what runs, back in line. How many that were."""
        store = self.app.store
        editing = facet(store, Editing)
        wanted = Filter(states=(State.RUNNING,), queue=self.name, limit=200)
        stopped = 0
        while True:
            page = store.run(store.find(wanted))
            done = store.run(editing.time_out([job.id for job in page.jobs])) if page.jobs else []
            stopped += sum(done)
            if page.cursor is None:
                return stopped
            wanted = Filter(states=wanted.states, queue=self.name, limit=200, after=page.cursor)

    def resume(self) -> bool:
        """Go on. False: it was not paused."""
        store = self.app.store
        return store.run(facet(store, Queues).resume(self.name))

    def limit(self, running: int | None) -> None:
        """Let at most so many of its jobs run at once, on all workers together; None: as many as come."""
        if running is not None:
            check_queue(self.name)
        store = self.app.store
        store.run(facet(store, Queues).limit(self.name, running))
