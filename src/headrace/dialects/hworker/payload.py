"""From a task's arguments to a payload and back: its only argument, or the array of them. Nothing is encoded twice.

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

import msgspec

from headrace.dialects.positions import Positions, decode_array, decode_by_name
from headrace.errors import ArgumentsError, ConfigurationError
from headrace.values.codec import Arguments

_NOTHING = (b"{}", b"null")
"""What else than an empty array peers may write for no arguments."""


class Shape:
    """What the payloads of one task look like. `task` names it in errors.

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
                f"Task {task}({_names(parameters)}): an hworker payload carries arguments by position. "
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
        """The body that our own decoder reads. Raises `ArgumentsError` when the payload cannot be this task's."""
        if self._only is not None:
            return b"{%s:%s}" % (msgspec.json.encode(self._only.name), payload)
        if payload in _NOTHING and not self._parameters:
            return b"{}"
        try:
            values = [bytes(value) for value in decode_array(payload)]
        except (msgspec.DecodeError, RecursionError) as error:
            raise ArgumentsError(f"the payload is not the array of the arguments of {self._task}: {error}") from None
        return self._positions.body(values)


def _names(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(map(str, parameters))
