"""From a task's arguments to a job's input and back, and the same for results and outputs.

A peer knows nothing of our JSON objects by name. What it sees is what its own programmer would write:

* a task with one parameter: the text itself if the argument is text (or bytes), else its JSON;
* a task with several: a JSON object of the arguments by name;
* a task with none: nothing.

A result is the text itself if it is text, nothing for None, else JSON.
"""

from __future__ import annotations

import base64
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.dialects.base import once_per_task
from headrace.dialects.positions import decode_by_name
from headrace.task import Task

_encode = msgspec.json.Encoder().encode

NONE, TEXT, BYTES, AS_IT_IS = "n", "t", "b", "j"
"""How an output was made from a result. Kept beside the job, so that our own results come back exactly."""
UNTOLD = "\0"
"""Of an output that was no result of ours: its readers tell by its looks, as with a peer's."""


class Shape:
    """How the arguments and the result of one task look on the wire."""

    def __init__(self, task: Task[Any, Any]) -> None:
        hints = typing.get_type_hints(task.function, include_extras=True)
        own = task.arguments.parameters
        single = len(own) == 1 and own[0].kind not in (own[0].VAR_POSITIONAL, own[0].VAR_KEYWORD)
        self.count = 1 if single else 2 if own else 0
        self.name = own[0].name if single else ""
        self.default = own[0].default if single else inspect.Parameter.empty
        self.kind, self.optional = _kind(hints.get(self.name, Any))
        self.returns = _kind(hints.get("return", Any))[0]
        self._before = b"{%s:" % _encode(self.name)

    def to_input(self, body: bytes) -> bytes:
        """What a peer finds as the job's input."""
        if self.count != 1:
            return body if self.count else b""
        value = decode_by_name(body).get(self.name)
        if value is None:  # left out: the function's own default applies, here as there
            return self.default.encode() if self.kind is str and isinstance(self.default, str) else b""
        text = bytes(value)
        if not text.startswith(b'"'):
            return b"" if text == b"null" and self.optional else text
        if self.kind is bytes:
            return base64.b64decode(msgspec.json.decode(text))
        plain: bytes = msgspec.json.decode(text).encode()
        # Where the annotation does not say that it is text, text that looks like JSON must not be taken for it.
        return text if self.kind is None and (not plain or _is_json(plain)) else plain

    def to_body(self, given: bytes) -> bytes:
        """The arguments by name, from whatever a peer has written. What does not fit is found by the task's codec."""
        if self.count != 1:
            return (given if self.count else b"") or b"{}"
        if not given and (self.optional or self.kind is None):
            return b"{}" if self.default is not inspect.Parameter.empty else self._named(b"null")
        if self.kind is bytes:
            return self._named(_encode(given))
        if self.kind is None and _is_json(given):
            return self._named(given)
        try:
            return self._named(_encode(given.decode()))
        except UnicodeDecodeError:
            return given  # no text: the codec will say so

    def _named(self, value: bytes) -> bytes:
        return self._before + value + b"}"


def _kind(annotation: Any) -> tuple[type | None, bool]:
    """`str` or `bytes` if it is one of these, and whether it may be None."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(annotation) if part is not type(None)]
        optional = len(inner) < len(typing.get_args(annotation))
        return (_kind(inner[0])[0] if len(inner) == 1 else None), optional
    return (annotation if annotation in (str, bytes) else None), False


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


_shape_of = once_per_task(Shape)


class Shapes:
    """The shapes of an app's tasks. Without an app, or for a task it does not know, bytes pass as they are."""

    def __init__(self, tasks: Callable[[], Mapping[str, Task[Any, Any]]]) -> None:
        self._tasks = tasks
        self.unknown = AS_IT_IS
        """How the outputs of tasks that it does not know are made."""

    def of(self, name: str) -> Shape | None:
        task = self._tasks().get(name)
        return None if task is None else _shape_of(task)

    def to_input(self, task: str, body: bytes) -> bytes:
        shape = self.of(task)
        return body if shape is None else shape.to_input(body)

    def to_body(self, task: str, given: bytes) -> bytes:
        return self.reader(task)(given)

    def reader(self, task: str) -> Callable[[bytes], bytes]:
        shape = self.of(task)
        return (lambda given: given) if shape is None else shape.to_body

    def to_output(self, task: str, result: bytes | None) -> tuple[bytes, str]:
        """What a peer finds as the job's output, and how it was made."""
        if result is None:
            return b"", NONE
        shape = self.of(task)
        if shape is None:
            return result, self.unknown
        if not result.startswith(b'"'):
            return result, AS_IT_IS
        if shape.returns is bytes:
            return base64.b64decode(msgspec.json.decode(result)), BYTES
        return msgspec.json.decode(result).encode(), TEXT

    def to_result(self, task: str, output: bytes, made: str | None) -> bytes | None:
        """A result as our codec reads it, from our own output or from a peer's."""
        if made is None:
            made = self._guess(task, output)
        if made == NONE:
            return None
        if made == AS_IT_IS:
            return output
        return _encode(output if made == BYTES else output.decode(errors="replace"))

    def _guess(self, task: str, output: bytes) -> str:
        """A peer has written it: by what the task says it returns, else by what it looks like."""
        shape = self.of(task)
        if shape is not None and shape.returns is not None:
            return TEXT if shape.returns is str else BYTES
        if not output:
            return NONE
        return AS_IT_IS if _is_json(output) else TEXT
