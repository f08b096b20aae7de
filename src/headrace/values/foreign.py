"""Types that JSON lacks and an app carries all the same: paths, pydantic models, types with codecs of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec.inspect import CustomType, type_info

from headrace.errors import ConfigurationError, Timeout
from headrace.values import models
from headrace.values.roundtrip import is_of_json

_plain_encoder = msgspec.json.Encoder()

_ENCODED_ANYWAY = (list, dict, tuple, set, frozenset, UUID)
"""Of these msgspec encodes subclasses too, without asking for a codec."""


class Codec(NamedTuple):
    """How values of one type become JSON values, and what makes them of JSON values again."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class Codecs:
    """The encoders of an app, and what they and its decoders make of types that msgspec does not know."""

    def __init__(self) -> None:
        self._own: dict[type, Codec] = {}
        self._encoder = msgspec.json.Encoder(enc_hook=self._to_json)
        self._orderly_encoder = msgspec.json.Encoder(enc_hook=self._to_orderly_json, order="deterministic")

    def register(self, kind: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
        """Carry values of exactly this type by a codec."""
        if not isinstance(kind, type):
            raise ConfigurationError(f"app.codec() takes a class and two functions, and {kind!r} is not a class.")
        name = kind.__name__
        if not callable(encode) or not callable(decode):
            raise ConfigurationError(f"app.codec({name}, ...) takes two functions: encode= and decode=.")
        if kind in self._own:
            raise ConfigurationError(f"There is a codec of {name} already: register one per type.")
        if issubclass(kind, _ENCODED_ANYWAY) or is_of_json(kind) or not isinstance(type_info(kind), CustomType):
            raise ConfigurationError(
                f"{name} needs no codec, and would not use one: its values are encoded as what they are (a dataclass "
                "as its fields, a list as its elements). Annotate with it, or wrap it in a class of its own."
            )
        if kind.__eq__ is object.__eq__:
            raise ConfigurationError(
                f"{name} does not define ==, by which headrace sees that a value arrives as what it was: "
                "write its __eq__."
            )
        self._own[kind] = Codec(encode, decode)

    def refusal(self, kind: type, *, key: bool = False) -> str:
        """Why values of a type that msgspec does not know can't be carried, as keys or else; empty: they can."""
        if kind in self._own or is_of_json(kind):
            return ""
        if not isinstance(kind, type):  # a generic class of its own, with parameters
            return f"type {kind}, which JSON cannot carry"
        if models.is_model(kind):
            return models.refusal(kind, key=key)
        return "" if issubclass(kind, PurePath) else f"type {kind.__name__}, which JSON cannot carry"

    # -- encoding --

    def encode(self, value: Any) -> bytes:
        """JSON of a value in which something is not known to msgspec."""
        return self._encoder.encode(value)

    def to_json(self, value: Any) -> Any:
        """A value as what JSON itself has."""
        return msgspec.to_builtins(value, enc_hook=self._to_json)

    def encode_orderly(self, value: Any) -> bytes:
        """JSON that is the same for equal values: for keys made of values, not to be decoded."""
        return self._orderly_encoder.encode(value)

    def _to_json(self, value: Any) -> Any:
        kind = type(value)
        own = self._own.get(kind)
        if own is not None:
            try:
                return own.encode(value)
            except Timeout:
                raise
            except Exception as error:
                raise ValueError(f"the codec of {kind.__name__} raised {_told(error)}") from error
        if isinstance(value, PurePath):
            return str(value)
        if models.is_model(kind):
            return models.encode(value)
        raise TypeError(f"Encoding objects of type {kind.__name__} is unsupported")

    def _to_orderly_json(self, value: Any) -> Any:
        kind = type(value)
        return models.encode_orderly(value) if models.is_model(kind) and kind not in self._own else self._to_json(value)

    # -- decoding --

    def from_json(self, kind: type, value: Any) -> Any:
        """Make a value of a type that msgspec does not know. Msgspec checks that it is of this type."""
        own = self._own.get(kind)
        if own is not None:
            try:
                return own.decode(value)
            except Timeout:  # thrown at this thread by a worker: it is not about the value
                raise
            except Exception as error:  # as a ValueError msgspec says where the value is
                raise ValueError(f"the codec of {kind.__name__} raised {_told(error)}") from error
        if not isinstance(kind, type):
            return value
        if issubclass(kind, PurePath):
            return kind(value)
        return models.decode(kind, value) if models.is_model(kind) else value


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def encode(value: Any, codecs: Codecs) -> bytes:
    """JSON. What it cannot carry is an error, also where msgspec would write `null` instead.

    Plain values come first: a call of an encoder that might need a codec takes longer for these, too.
    """
    try:
        encoded = _plain_encoder.encode(value)
    except TypeError:
        encoded = codecs.encode(value)
    # (`in` makes and drops an exception first, as the bytes might have been a number.)
    if encoded.find(b"null") >= 0 and not _finite(codecs.to_json(value)):
        raise ValueError("it contains a number that is not finite, which JSON cannot carry")
    return encoded


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_finite, value))


BUILT_IN = Codecs()
"""Those of programs without an app: paths and pydantic models."""
