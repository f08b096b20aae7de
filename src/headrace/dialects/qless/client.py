"""The Qless client: the way to queues, jobs, workers, options and events of an installation.

The script's JSON says `{}` for an empty list: `list` makes one of either.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from headrace.store.urls import HiddenUrl

from .driver import call, open_driver
from .events import Events
from .job import Job, RecurringJob
from .queue import Queue


class Client:
    """A client of a Qless installation.

    `hostname` is the worker name under which this client speaks: `<hostname>-<pid>` unless it is given. Every process
    that takes jobs needs a name of its own, because the name is what fences it. Other keyword arguments go to redis-py;
    `decode_responses` makes no difference, as replies are text.

    >>> client = Client("redis://localhost:6379", hostname="me")
    >>> client.queues["mail"]
    <Queue mail>
    """

    url = HiddenUrl()

    def __init__(self, url: str = "redis://localhost:6379", hostname: str | None = None, **redis_kwargs: Any) -> None:
        self.url = url
        self._open: Callable[[str], Client] = lambda name: Client(url, name, **redis_kwargs)
        """(`vars()` shows no password of either.)"""
        # Below us replies are bytes, which we decode: they may be in any encoding.
        self.driver, self.lower_first = open_driver(url, **redis_kwargs | {"decode_responses": False})
        """Priorities are told the other way round than they are stored, where larger is always first."""
        self.worker_name = hostname or f"{socket.gethostname()}-{os.getpid()}"
        self.jobs = Jobs(self)
        self.queues = Queues(self)
        self.workers = Workers(self)
        self.config = Config(self)
        self.events = Events(self.driver)

    def __call__(self, command: str, *arguments: str | bytes | float) -> Any:
        """Send a command with the present time, to full precision. Replies are text."""
        return call(self.driver, command, *arguments)

    def __repr__(self) -> str:
        return f"<Client {self.driver.where}>"

    def named(self, worker_name: str) -> Client:
        """Another client of the same installation, which speaks under another name."""
        return self._open(worker_name)

    def close(self) -> None:
        """Let go of all connections."""
        self.events.close()
        self.driver.close()

    def track(self, jid: str) -> bool:
        """Have all that happens to a job told. False: it was tracked already."""
        return bool(self("track", "track", jid) == "1")

    def untrack(self, jid: str) -> bool:
        """No longer so. False: it was not tracked."""
        return bool(self("track", "untrack", jid) == "1")

    def tags(self, offset: int = 0, count: int = 100) -> list[str]:
        """Tags that are used at least twice, most used first."""
        return list(json.loads(self("tag", "top", offset, count)))

    def unfail(self, group: str, queue: str | Queue, count: int = 500) -> int:
        """Put the oldest failed jobs of a group into a queue. Answers with their number."""
        return int(self("unfail", str(queue), group, count))

    def signed(self, priority: float) -> float:
        """A priority as it is stored, from one as it is told here; and back."""
        return -priority if self.lower_first and priority else priority


class _Part:
    """What a client has."""

    def __init__(self, client: Client) -> None:
        self._client = client


class Jobs(_Part):
    """`client.jobs`."""

    def __getitem__(self, jid: str) -> Job | RecurringJob | None:
        found = self._client("get", jid)
        if found is not None:
            return Job(self._client, json.loads(found))
        found = self._client("recur.get", jid)
        return None if found is None else RecurringJob(self._client, json.loads(found))

    def get(self, *jids: str) -> list[Job]:
        """Those of the jobs that there are, in the order asked for."""
        found = self._client("multiget", *jids) if jids else "{}"
        return [Job(self._client, fields) for fields in json.loads(found)]

    def complete(self, offset: int = 0, count: int = 25) -> list[str]:
        """Jids of completed jobs, newest first."""
        return list(self._client("jobs", "complete", offset, count))

    def tracked(self) -> dict[str, Any]:
        """`jobs` that are tracked, and `expired` jids that have no job any more."""
        found = json.loads(self._client("track"))
        return {"jobs": [Job(self._client, fields) for fields in found["jobs"]], "expired": list(found["expired"])}

    def tagged(self, tag: str, offset: int = 0, count: int = 25) -> dict[str, Any]:
        """`total`, and `jobs`: jids that have a tag, by the time they were given it."""
        found = json.loads(self._client("tag", "get", tag, offset, count))
        return {"total": found["total"], "jobs": list(found["jobs"])}

    def failed(self, group: str | None = None, start: int = 0, limit: int = 25) -> dict[str, Any]:
        """How many jobs have failed, by group; or `total` and `jobs` of one group, newest first."""
        if group is None:
            return dict(json.loads(self._client("failed")))
        found = json.loads(self._client("failed", group, start, limit))
        return {"total": found["total"], "jobs": self.get(*found["jobs"])}


class Queues(_Part):
    """`client.queues`."""

    def __getitem__(self, name: str) -> Queue:
        return Queue(name, self._client)

    @property
    def counts(self) -> list[dict[str, Any]]:
        """How many jobs of each known queue are in which state."""
        return list(json.loads(self._client("queues")))


class Workers(_Part):
    """`client.workers`."""

    def __getitem__(self, name: str) -> dict[str, list[str]]:
        found = json.loads(self._client("workers", name))
        return {"jobs": list(found["jobs"]), "stalled": list(found["stalled"])}

    @property
    def counts(self) -> list[dict[str, Any]]:
        """How many jobs each worker has, the most recently active first."""
        return list(json.loads(self._client("workers")))


class Config(_Part, MutableMapping[str, Any]):
    """`client.config`: options by name. One that is not set and has no default reads as None.

    Text that looks like JSON is decoded, so that a number reads as one whether it was set or is a default.
    """

    @property
    def all(self) -> dict[str, Any]:
        """All listed defaults, overlaid with what is set."""
        found: dict[str, Any] = json.loads(self._client("config.get"))
        return {option: _value(value) for option, value in found.items()}

    def __getitem__(self, option: str) -> Any:
        return _value(self._client("config.get", option))

    def get(self, option: str, default: Any = None) -> Any:
        value = self[option]
        return default if value is None else value

    def __setitem__(self, option: str, value: Any) -> None:
        self._client("config.set", option, value if isinstance(value, str) else json.dumps(value))

    def __delitem__(self, option: str) -> None:
        self._client("config.unset", option)

    def __contains__(self, option: object) -> bool:
        return option in self.all

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def pop(self, option: str, default: Any = None) -> Any:
        value = self.get(option, default)
        del self[option]
        return value

    def clear(self) -> None:
        """Unset everything: the defaults apply again."""
        for option in self.all:
            del self[option]


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
