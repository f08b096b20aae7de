"""A recurring job: what its occurrences will be like, and when."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .job import BaseJob

if TYPE_CHECKING:
    from .client import Client
    from .queue import Queue

_ON_THE_SERVER = frozenset({"priority", "retries", "interval", "data", "klass", "backlog"})


class RecurringJob(BaseJob):
    """Occurs every `interval` seconds.

    Assigning priority, retries, interval, data, klass or backlog updates the server; occurrences that are jobs already
    stay as they are.
    """

    retries: int
    interval: float
    backlog: int

    def __init__(self, client: Client, fields: dict[str, Any]) -> None:
        super().__init__(client, fields)
        self.state = "recur"
        self.count: int = fields["count"]
        """How many occurrences there have been."""
        self.__dict__["retries"] = fields["retries"]
        self.__dict__["interval"] = fields["interval"]
        self.__dict__["backlog"] = fields["backlog"]

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
            from .queue import name_of  # noqa: PLC0415  (queues know jobs)

            self.klass_name = name_of(value)
            self.client("recur.update", self.jid, "klass", self.klass_name)
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
