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
from msgspec import Raw

from headrace.errors import ArgumentsError, ConfigurationError
from headrace.values.codec import Arguments

_EMPTY = (b"[]", b"{}", b"null")
_by_name = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])


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
        self._task = task
        self._parameters = parameters
        kinds = [parameter.kind for parameter in parameters]
        self._rest = inspect.Parameter.VAR_POSITIONAL in kinds
        if len(parameters) > 1 and (
            inspect.Parameter.VAR_KEYWORD in kinds or (self._rest and inspect.Parameter.VAR_POSITIONAL is not kinds[-1])
        ):
            raise ConfigurationError(
                f"Task {task}({_names(parameters)}): an hworker payload carries arguments by position. "
                "Give the task one argument, or a fixed list of them, or end the list with *args."
            )
        self._keys = [msgspec.json.encode(parameter.name) + b":" for parameter in parameters]
        self._single = len(parameters) == 1
        self._needed = sum(
            parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
            for parameter in parameters
        )

    def to_payload(self, body: bytes) -> bytes:
        """What goes on the wire for a body of ours (an object of arguments by name)."""
        if not self._parameters:
            return b"[]"
        given = _by_name.decode(body)
        if self._single:
            (only,) = self._parameters
            return bytes(given[only.name]) if only.name in given else self._default(only)
        values: list[bytes] = []
        last = max((i for i, parameter in enumerate(self._parameters) if parameter.name in given), default=-1)
        for parameter in self._parameters[: last + 1]:
            if parameter.kind is parameter.VAR_POSITIONAL:
                values += map(bytes, _array.decode(given[parameter.name]))
            else:
                values.append(bytes(given[parameter.name]) if parameter.name in given else self._default(parameter))
        return b"[%s]" % b",".join(values)

    def _default(self, parameter: inspect.Parameter) -> bytes:
        """What the wire has no way to leave out is written out."""
        if parameter.kind is parameter.VAR_POSITIONAL:
            return b"[]"
        if parameter.kind is parameter.VAR_KEYWORD:
            return b"{}"
        try:
            return msgspec.json.encode(parameter.default)
        except TypeError as error:
            raise ArgumentsError(
                f"{self._task}: the default of {parameter.name!r} cannot be encoded: {error}."
            ) from None

    def to_body(self, payload: bytes) -> bytes:
        """The body that our own decoder reads. Raises `ArgumentsError` when the payload cannot be this task's."""
        if self._single:
            return b"{%s%s}" % (self._keys[0], payload)
        if not self._parameters:
            if payload in _EMPTY:
                return b"{}"
            raise ArgumentsError(f"{self._task} takes no arguments: its payload is [].")
        try:
            values = [bytes(value) for value in _array.decode(payload)]
        except (msgspec.DecodeError, RecursionError) as error:
            raise ArgumentsError(f"the payload is not the array of the arguments of {self._task}: {error}") from None
        fixed = len(self._keys) - self._rest
        if len(values) < self._needed or (len(values) > fixed and not self._rest):
            raise ArgumentsError(f"{self._task} takes {fixed} arguments ({self._needed} at least), not {len(values)}.")
        fields = [key + value for key, value in zip(self._keys[:fixed], values, strict=False)]
        if self._rest and len(values) > fixed:
            fields.append(b"%s[%s]" % (self._keys[-1], b",".join(values[fixed:])))
        return b"{%s}" % b",".join(fields)


def _names(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(map(str, parameters))
