"""A job, as somebody who popped or looked it up sees it, and a recurring job: what its occurrences will be like."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from . import running
from .driver import LostLockException, QlessException

if TYPE_CHECKING:
    from .client import Client
    from .queue import Queue

_ON_THE_SERVER = frozenset({"priority", "retries", "interval", "data", "klass", "backlog"})


class BaseJob:
    """What jobs and recurring jobs have in common."""

    def __init__(self, client: Client, fields: dict[str, Any]) -> None:
        self.client = client
        self.jid: str = fields["jid"]
        self.tags: list[str] = list(fields["tags"] or [])
        self.data: Any = json.loads(fields["data"] or "{}")
        self.klass_name: str = fields["klass"]
        self.queue_name: str = fields["queue"]
        self._priority: float = client.signed(fields["priority"])

    def __repr__(self) -> str:
        return f"<{self.klass_name} {self.jid}>"

    @property
    def klass(self) -> Any:
        return running.find_class(self.klass_name)

    @property
    def queue(self) -> Queue:
        return self.client.queues[self.queue_name]


class Job(BaseJob):
    """One job. Attributes are as they were when it was popped or looked up.

    `job[key]` reads and changes `data` in memory; the next `heartbeat`, `complete`, `fail` or `move` stores it.
    """

    reload = staticmethod(running.reload)

    def __init__(self, client: Client, fields: dict[str, Any]) -> None:
        super().__init__(client, fields)
        self.state: str = fields["state"]
        self.tracked: bool = fields["tracked"]
        self.failure: dict[str, Any] = fields["failure"]
        self.history: list[dict[str, Any]] = list(fields["history"] or [])
        self.dependents: list[str] = list(fields["dependents"] or [])
        self.dependencies: list[str] = list(fields["dependencies"] or [])
        self.expires_at: float = fields["expires"]
        self.original_retries: int = fields["retries"]
        self.retries_left: int = fields["remaining"]
        self.worker_name: str = fields["worker"]
        self.spawned_from_jid: str | None = fields["spawned_from_jid"] or None
        self.sandbox: str | None = None
        """In a worker: a directory that was empty when the job began and will be emptied after it."""
        self.settled = False
        """Whether this object was used to end the run: by complete, fail, retry, move, cancel or timeout."""

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[key] = value

    @property
    def priority(self) -> float:
        """Larger runs first. Assigning changes it on the server."""
        return self._priority

    @priority.setter
    def priority(self, priority: float) -> None:
        self.client("priority", self.jid, self.client.signed(priority))
        self._priority = priority

    @property
    def ttl(self) -> float:
        """Seconds until the lock ends."""
        return self.expires_at - time.time()

    # -- ending a run --

    def complete(
        self, nextq: str | Queue | None = None, delay: float | None = None, depends: list[str] | None = None
    ) -> str:
        """Say that it is done, or done here: `nextq` is where it goes on. Answers with its new state."""
        options: list[str | float] = []
        if nextq is not None:
            options = ["next", str(nextq), "delay", delay or 0, "depends", json.dumps(depends or [])]
        elif delay or depends:
            raise ValueError("delay and depends are for the next queue: name it with nextq.")
        told = (self.client.worker_name, self.queue_name, json.dumps(self.data), *options)
        self.state = str(self._end("complete", self.jid, *told))
        return self.state

    def fail(self, group: str, message: str) -> str:
        """Say that it has failed. `group` is what failures are counted by."""
        jid = self._end("fail", self.jid, self.client.worker_name, group, message, json.dumps(self.data))
        self.state = "failed"
        return str(jid)

    def retry(self, delay: float = 0, group: str | None = None, message: str | None = None) -> int:
        """Give it back for another attempt. Answers with how many are left; -1: it has failed instead."""
        reason = (group, message) if group is not None and message is not None else ()
        return int(self._end("retry", self.jid, self.queue_name, self.worker_name, delay, *reason))

    def move(self, queue: str | Queue, delay: float = 0, depends: list[str] | None = None) -> str:
        """Put it into another queue, with the data as they are here."""
        options = ["depends", json.dumps(depends)] if depends else []
        told = (self.worker_name, str(queue), self.jid, self.klass_name, json.dumps(self.data), delay, *options)
        return str(self._end("put", *told))

    def cancel(self) -> list[str]:
        """Make an end of it, whoever has it."""
        return list(self._end("cancel", self.jid))

    def timeout(self) -> None:
        """Take it from its worker and put it at the front of its queue."""
        self._end("timeout", self.jid)

    def _end(self, command: str, *arguments: Any) -> Any:
        answer = self.client(command, *arguments)
        self.settled = True
        return answer

    # -- while it runs --

    def heartbeat(self) -> float:
        """Extend the lock and store the data. Answers with the time at which it will end; raises when it is lost."""
        try:
            self.expires_at = float(self.client("heartbeat", self.jid, self.client.worker_name, json.dumps(self.data)))
        except QlessException as error:
            raise LostLockException(self.jid) from error
        return self.expires_at

    def process(self) -> None:
        """Import its class and run it here. What goes wrong fails the job."""
        running.process(self)

    # -- around it --

    def track(self) -> bool:
        """Have all that happens to it told."""
        return self.client.track(self.jid)

    def untrack(self) -> bool:
        """No longer so."""
        return self.client.untrack(self.jid)

    def tag(self, *tags: str) -> list[str]:
        """Give it tags. Answers with all it has."""
        self.tags = list(json.loads(self.client("tag", "add", self.jid, *tags)) or [])
        return self.tags

    def untag(self, *tags: str) -> list[str]:
        """Take tags from it. Answers with those that are left."""
        self.tags = list(json.loads(self.client("tag", "remove", self.jid, *tags)) or [])
        return self.tags

    def depend(self, *jids: str) -> bool:
        """Let it wait for more jobs. It must be waiting for some already."""
        return bool(self.client("depends", self.jid, "on", *jids))

    def undepend(self, *jids: str, all: bool = False) -> bool:  # noqa: A002  (the name that users know)
        """Let it no longer wait for some jobs, or for any."""
        return bool(self.client("depends", self.jid, "off", *(("all",) if all else jids)))

    def log(self, message: str, data: dict[str, Any] | None = None) -> None:
        """Add an entry to its history."""
        self.client("log", self.jid, message, *(() if data is None else (json.dumps(data),)))


class RecurringJob(BaseJob):
    """Occurs every `interval` seconds.

    Assigning priority, retries, interval, data, klass or backlog updates the server; occurrences that are jobs already
    stay as they are.
    """

    def __init__(self, client: Client, fields: dict[str, Any]) -> None:
        super().__init__(client, fields)
        self.state = "recur"
        self.retries: int = fields["retries"]
        self.interval: float = fields["interval"]
        self.backlog: int = fields["backlog"]
        self.count: int = fields["count"]
        """How many occurrences there have been. Assignments from here on go to the server."""

    @property
    def priority(self) -> float:
        return self._priority

    @property
    def next(self) -> float | None:
        score = self.client.driver.command("ZSCORE", f"ql:q:{self.queue_name}-recur", self.jid)
        return None if score is None else float(score)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _ON_THE_SERVER or "count" not in self.__dict__:
            super().__setattr__(name, value)
            return
        if name == "klass":
            self.client("recur.update", self.jid, "klass", name_of(value))
            self.klass_name = name_of(value)
        elif name == "priority":
            self.client("recur.update", self.jid, "priority", self.client.signed(value))
            self._priority = value
        else:
            self.client("recur.update", self.jid, name, json.dumps(value))
            self.__dict__[name] = value

    def move(self, queue: str | Queue) -> None:
        """Let further occurrences go to another queue."""
        self.client("recur.update", self.jid, "queue", str(queue))
        self.queue_name = str(queue)

    def cancel(self) -> None:
        """No more occurrences."""
        self.client("unrecur", self.jid)

    def tag(self, *tags: str) -> list[str]:
        """Give tags to what is to come."""
        self.tags = list(json.loads(self.client("recur.tag", self.jid, *tags)) or [])
        return self.tags

    def untag(self, *tags: str) -> list[str]:
        """And take them away."""
        self.tags = list(json.loads(self.client("recur.untag", self.jid, *tags)) or [])
        return self.tags


def name_of(klass: type | str) -> str:
    """What a class is called on the wire.

    >>> name_of(Job)
    'headrace.dialects.qless.job.Job'
    """
    return klass if isinstance(klass, str) else f"{klass.__module__}.{klass.__name__}"
