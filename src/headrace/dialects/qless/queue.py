"""A queue, to put jobs into and to take them from."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, overload
from uuid import uuid4

from .job import Job, name_of

if TYPE_CHECKING:
    from .client import Client


class Queue:
    """Jobs by priority, then by age. Made by `client.queues[name]`; needs no declaration."""

    def __init__(self, name: str, client: Client, worker_name: str | None = None) -> None:
        self.name = name
        self.client = client
        self._worker_name = worker_name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def worker_name(self) -> str:
        """The name under which jobs are popped: the client's, unless this object got one of its own."""
        return self._worker_name or self.client.worker_name

    def put(
        self,
        klass: type | str,
        data: Any,
        priority: float | None = None,
        tags: Sequence[str] | None = None,
        delay: float | None = None,
        retries: int | None = None,
        jid: str | None = None,
        depends: Sequence[str] | None = None,
        *,
        _command: str = "put",
    ) -> str:
        """Put a job, and answer with its jid. `klass` is a class or its name, `data` whatever JSON can carry."""
        arguments = (
            self.worker_name, self.name, jid or uuid4().hex, name_of(klass), json.dumps(data), delay or 0,
            "priority", self.client.signed(priority or 0), "tags", json.dumps(list(tags)) if tags else "[]",
            "retries", 5 if retries is None else retries, "depends", json.dumps(list(depends)) if depends else "[]",
        )  # fmt: skip
        return str(self.client(_command, *arguments))

    def requeue(
        self,
        klass: type | str,
        data: Any,
        priority: float | None = None,
        tags: Sequence[str] | None = None,
        delay: float | None = None,
        retries: int | None = None,
        jid: str | None = None,
        depends: Sequence[str] | None = None,
    ) -> str:
        """The same for a job that must exist."""
        return self.put(klass, data, priority, tags, delay, retries, jid, depends, _command="requeue")

    def recur(
        self,
        klass: type | str,
        data: Any,
        interval: float,
        offset: float = 0,
        priority: float | None = None,
        tags: Sequence[str] | None = None,
        retries: int | None = None,
        jid: str | None = None,
        backlog: int = 0,
    ) -> str:
        """A job that occurs every `interval` seconds, first after `offset`. Missed occurrences are made up for; with
        `backlog` at most so many of them. Answers with its jid; occurrences are called `<jid>-1`, `<jid>-2`, …
        """
        arguments = (
            self.name, jid or uuid4().hex, name_of(klass), json.dumps(data), "interval", interval, offset,
            "priority", self.client.signed(priority or 0), "tags", json.dumps(list(tags)) if tags else "[]",
            "retries", 5 if retries is None else retries, "backlog", backlog,
        )  # fmt: skip
        return str(self.client("recur", *arguments))

    @overload
    def pop(self, count: None = None) -> Job | None: ...
    @overload
    def pop(self, count: int) -> list[Job]: ...
    def pop(self, count: int | None = None) -> Job | list[Job] | None:
        """Take a job, or None; or a list of up to `count`."""
        return self._jobs(self.client("pop", self.name, self.worker_name, 1 if count is None else count), count)

    @overload
    def peek(self, count: None = None) -> Job | None: ...
    @overload
    def peek(self, count: int) -> list[Job]: ...
    def peek(self, count: int | None = None) -> Job | list[Job] | None:
        """Look at what a pop would consider."""
        return self._jobs(self.client("peek", self.name, 1 if count is None else count), count)

    def _jobs(self, reply: str, count: int | None) -> Job | list[Job] | None:
        jobs = [Job(self.client, fields) for fields in json.loads(reply)]
        if count is not None:
            return jobs
        return jobs[0] if jobs else None

    @property
    def counts(self) -> dict[str, Any]:
        """How many jobs are waiting, running, stalled, scheduled, depends, recurring; and whether it is `paused`."""
        return dict(json.loads(self.client("queues", self.name)))

    @property
    def jobs(self) -> QueueJobs:
        """Jids by state."""
        return QueueJobs(self)

    def stats(self, date: float | None = None) -> dict[str, Any]:
        """Statistics of a day, today's if none is given."""
        return dict(json.loads(self.client("stats", self.name, time.time() if date is None else date)))

    def pause(self) -> None:
        """Until `unpause` nobody gets jobs of this queue."""
        self.client("pause", self.name)

    def unpause(self) -> None:
        """Go on."""
        self.client("unpause", self.name)

    @property
    def heartbeat(self) -> int:
        """Seconds for which a job is locked by pop and heartbeat. Assign to set it for this queue."""
        config = self.client.config
        for option in (f"{self.name}-heartbeat", f"heartbeat-{self.name}", "heartbeat"):
            value = config[option]
            if value is not None:
                return int(value)
        return 60

    @heartbeat.setter
    def heartbeat(self, seconds: float) -> None:
        self.client.config[f"{self.name}-heartbeat"] = seconds

    def __len__(self) -> int:
        return int(self.client("length", self.name))

    def __bool__(self) -> bool:
        return True


class Jids(Protocol):
    """Lists jids: those from `offset` on, `count` at most."""

    def __call__(self, offset: int = 0, count: int = 25) -> list[str]: ...


class QueueJobs:
    """`queue.jobs`: jids by state."""

    running: Jids
    """Those that workers have, by the end of the lock; those whose locks have ended are `stalled`."""
    stalled: Jids
    scheduled: Jids
    depends: Jids
    recurring: Jids
    """Those that occur again and again, by the time of the next occurrence."""

    def __init__(self, queue: Queue) -> None:
        def jids(state: str, offset: int = 0, count: int = 25) -> list[str]:
            return list(queue.client("jobs", state, queue.name, offset, count))

        for state in ("running", "stalled", "scheduled", "depends", "recurring"):
            setattr(self, state, partial(jids, state))
