"""Arguments of a task of Django: plain JSON, split into args and kwargs as the caller split them."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
from msgspec import Struct

from headrace.errors import ArgumentsError
from headrace.values.codec import Arguments, encode_value
from headrace.values.foreign import BUILT_IN


class Split(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The body of a job: the arguments of `enqueue(*args, **kwargs)`."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}


_decode = msgspec.json.Decoder(Split).decode


def split(body: bytes) -> Split:
    """The arguments that a job was enqueued with. Raises `ArgumentsError` if another program wrote something else."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError, ValueError) as error:
        raise ArgumentsError(f"the arguments are not {{'args': [...], 'kwargs': {{...}}}}: {error}") from None


class SplitArguments(Arguments):
    """Arguments that stay plain JSON, whatever the function's annotations say, and keep the form of their call."""

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> bytes:
        self._bind(args, kwargs)
        return encode_value(BUILT_IN, f"{self._task}: the arguments", Split(list(args), kwargs), limit)

    def decode(self, body: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            given = split(body)
            self._bind(tuple(given.args), given.kwargs)
        except ArgumentsError as error:
            raise ArgumentsError(f"the arguments do not fit {self._task}: {error}") from None
        return tuple(given.args), dict(given.kwargs)

    def typed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self._bind(args, kwargs)
        return args, kwargs

    def fingerprint(self, body: bytes) -> bytes:
        args, kwargs = self.decode(body)
        try:
            return msgspec.json.encode(self.by_name(args, kwargs), order="deterministic")
        except TypeError as error:
            raise ArgumentsError(f"{self._task}: cannot be unique, as a default cannot be encoded: {error}.") from None


def signature_of(function: Any, takes_context: bool) -> inspect.Signature:
    """What a caller passes: the function's parameters without the context, and without annotations."""
    parameters = list(inspect.signature(function).parameters.values())[1 if takes_context else 0 :]
    return inspect.Signature([parameter.replace(annotation=parameter.empty) for parameter in parameters])
