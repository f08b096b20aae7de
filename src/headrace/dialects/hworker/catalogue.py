"""Which queue has which name on the wire, which task runs its jobs, and what their payloads look like.

The wire says none of it: one name stands for one type of job. The app's tasks say it: a task's queue is the name, and
`default` is the name in the store's URL.

| the task takes          | the payload is                        |
| ----------------------- | ------------------------------------- |
| nothing                 | `[]`                                  |
| one argument            | that argument                         |
| several                 | the array of them, in their order     |
| `*args`, alone or last  | the array, as long as it needs to be  |
| `**kwargs`, alone       | the object                            |
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headrace.dialects.base import once_per_task
from headrace.dialects.hworker.wire import BrokenEntry
from headrace.dialects.positions import Positions, decode_array, decode_by_name
from headrace.errors import ConfigurationError
from headrace.task import Task
from headrace.values.codec import Arguments

DEFAULT = "default"
_NOTHING = (b"{}", b"null")
"""What else than an empty array peers may write for no arguments."""


class Shape:
    """What the payloads of one task look like, which `task` names in errors. Nothing is encoded twice.

    >>> def send(to: str, subject: str = "hi") -> None: ...
    >>> shape = Shape("send", Arguments("send", send))
    >>> shape.to_payload(b'{"to":"ada","subject":"x"}')
    b'["ada","x"]'
    >>> shape.to_body(b'["ada"]')
    b'{"to":"ada"}'
    """

    def __init__(self, task: str, arguments: Arguments) -> None:
        parameters = arguments.parameters
        kinds = [parameter.kind for parameter in parameters]
        if len(parameters) > 1 and (
            inspect.Parameter.VAR_KEYWORD in kinds or inspect.Parameter.VAR_POSITIONAL in kinds[:-1]
        ):
            raise ConfigurationError(
                f"Task {task}({', '.join(map(str, parameters))}): an hworker payload carries arguments by position. "
                "Give the task one argument, or a fixed list of them, or end the list with *args."
            )
        self._task = task
        self._parameters = parameters
        self._only = parameters[0] if len(parameters) == 1 else None
        self._positions = Positions(task, parameters)

    def to_payload(self, body: bytes) -> bytes:
        """What goes on the wire for a body of ours (an object of arguments by name)."""
        given = decode_by_name(body)
        if self._only is None:
            return b"[%s]" % b",".join(self._positions.take(given))
        return bytes(given[self._only.name]) if self._only.name in given else self._positions.default(self._only)

    def to_body(self, payload: bytes) -> bytes:
        """The body that our own decoder reads. Raises `BrokenEntry` when the payload cannot be this task's."""
        if self._only is not None:
            return b"{%s:%s}" % (msgspec.json.encode(self._only.name), payload)
        if payload in _NOTHING and not self._parameters:
            return b"{}"
        try:
            values = [bytes(value) for value in decode_array(payload)]
        except (msgspec.DecodeError, RecursionError) as error:
            raise BrokenEntry(f"the payload is not the array of the arguments of {self._task}: {error}") from None
        return self._positions.body(values)


_shape_of = once_per_task(lambda task: Shape(task.name, task.arguments))


class Catalogue:
    """What this program knows about queues. Without tasks (a store on its own) bodies are payloads, as they are."""

    def __init__(self, default: str) -> None:
        self._default = default
        self._tasks: Mapping[str, Task[Any, Any]] | None = None
        self._by_name: dict[str, list[str]] = {}
        self._counted = -1

    def learn(self, tasks: Mapping[str, Task[Any, Any]]) -> None:
        self._tasks = tasks
        self._counted = -1

    def name_of(self, queue: str) -> str:
        return self._default if queue == DEFAULT else queue

    @property
    def names(self) -> list[str]:
        tasks = () if self._tasks is None else tuple(self._tasks.values())
        return list(dict.fromkeys([self._default, *(self.name_of(task.options.queue) for task in tasks)]))

    def task_of(self, name: str) -> str | None:
        """The task that runs the jobs of a name; None if there is none here, and the name itself without an app."""
        found = self._tasks_of(name)
        if len(found) > 1:
            raise ConfigurationError(
                f"The tasks {' and '.join(sorted(found))} share the hworker queue {name!r}, but a job there does not "
                "say which it is for: one name is for one type of job. Give each a queue of its own, as in "
                '@app.task(queue="mail").'
            )
        return found[0] if found else None

    def shown_task(self, name: str) -> str:
        """The same for people: nothing where it cannot be told."""
        found = self._tasks_of(name)
        return found[0] if len(found) == 1 else ""

    def _tasks_of(self, name: str) -> list[str]:
        if self._tasks is None:
            return [name]
        if self._counted != len(self._tasks):  # tasks are added, and never taken away
            self._counted = len(self._tasks)
            found: dict[str, list[str]] = {}
            for known_as, task in tuple(self._tasks.items()):
                found.setdefault(self.name_of(task.options.queue), []).append(known_as)
            self._by_name = found
        return self._by_name.get(name, [])

    def served(self, queues: Iterable[str]) -> dict[str, tuple[str, str]]:
        """The names of those queues that have a task here: how the worker calls each, and the task."""
        found: dict[str, tuple[str, str]] = {}
        for queue in queues:
            name = self.name_of(queue)
            if (task := self.task_of(name)) is not None:
                found.setdefault(name, (queue, task))
        return found

    def _shape(self, task: str) -> Shape | None:
        return None if self._tasks is None or task not in self._tasks else _shape_of(self._tasks[task])

    def check(self, queues: Iterable[str]) -> None:
        """Refuse queues whose jobs cannot be told apart, or tasks that no payload fits."""
        for _, task in self.served(queues).values():
            self._shape(task)

    def payload(self, task: str, name: str, body: bytes) -> bytes:
        """What goes on the wire for a job of this task in that queue. Refuses a task that is not the queue's."""
        shape = self._shape(task)
        if shape is None:
            return body
        if (runs := self.task_of(name)) != task:
            meant = f"is for the task {runs}" if runs else "has no task here"
            raise ConfigurationError(
                f"The hworker queue {name!r} {meant}, and a job there would not say that it is for {task}. "
                "Enqueue to the task's own queue."
            )
        return shape.to_payload(body)

    def body(self, task: str, payload: bytes) -> bytes:
        """What a worker decodes. Raises `BrokenEntry` when the payload is not of the task's type."""
        shape = self._shape(task)
        return payload if shape is None else shape.to_body(payload)
