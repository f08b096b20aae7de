"""From Python values to bytes and back: arguments by their annotations, results, data, errors. JSON, never pickle.

A task's parameters become a msgspec Struct with a field each, so that checking, encoding and decoding are
one call in C, and a job's body is a plain JSON object of arguments by name that any language can write.
"""

from __future__ import annotations

import inspect
import math
import traceback
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.errors import ArgumentsError, ConfigurationError, HeadraceError, PayloadTooLarge

DEEPEST = 64
"""How deep arguments may be nested: far below where any JSON reader gives up."""

_encoder = msgspec.json.Encoder()
_orderly_encoder = msgspec.json.Encoder(order="deterministic")


class Inject:
    """Marks a parameter that the worker fills in. Made by `inject`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"inject({self.name!r})"


def inject(name: str) -> Any:
    """As a parameter's default: the worker passes what `@app.provide` made under this name.

    >>> def send(to: str, pool: object = inject("pool")) -> None: ...
    """
    return Inject(name)


class Arguments:
    """The parameters of one task: checks, encodes and decodes the arguments of its calls."""

    def __init__(self, task: str, function: Callable[..., Any]) -> None:
        self._task = task
        self._signature = inspect.signature(function)
        self.injected: dict[str, str] = {}
        positional, keyword = self._fields(function)
        try:
            base = msgspec.defstruct(f"{task} arguments", positional, forbid_unknown_fields=True)
            self._struct: type[Struct] = msgspec.defstruct(
                f"{task} arguments", keyword, bases=(base,), kw_only=True, forbid_unknown_fields=True
            )
            self._decoder = msgspec.json.Decoder(self._struct)
        except TypeError as error:
            raise ConfigurationError(f"Task {task}: {error}. Annotate with types that JSON can carry.") from error
        self._names = self._struct.__struct_fields__
        # Without *args, **kwargs and / the struct's own constructor checks a call exactly as Python would.
        self._simple = not any(
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY)
            for parameter in self._signature.parameters.values()
        )
        self._all_positional = self._simple and not keyword and not self.injected

    def _fields(self, function: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
        try:
            hints = typing.get_type_hints(function, include_extras=True)
        except Exception as error:
            raise ConfigurationError(f"Task {self._task}: its annotations cannot be resolved ({error}).") from error
        positional: list[Any] = []
        keyword: list[Any] = []
        self._loose: list[str] = []
        self._texts: list[str] = []
        for name, parameter in self._signature.parameters.items():
            if isinstance(parameter.default, Inject):
                self.injected[name] = parameter.default.name
                continue
            annotation = hints.get(name, Any)
            if annotation is str and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self._texts.append(name)
            field: tuple[Any, ...]
            if parameter.kind is parameter.VAR_POSITIONAL:
                field = (name, list[annotation] | UnsetType, UNSET)  # type: ignore[valid-type]
            elif parameter.kind is parameter.VAR_KEYWORD:
                field = (name, dict[str, annotation] | UnsetType, UNSET)  # type: ignore[valid-type]
            elif parameter.default is parameter.empty:
                field = (name, annotation)
            else:
                # Left out of the body when the caller leaves it out: the function's own default applies.
                field = (name, typing.Union[annotation, UnsetType], UNSET)  # noqa: UP007
            if _is_loose(annotation):
                self._loose.append(name)
            (keyword if parameter.kind is parameter.KEYWORD_ONLY else positional).append(field)
        return positional, keyword

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Those that a call fills in, in order: for wires that carry arguments by position."""
        return [self._signature.parameters[name] for name in self._names]

    # -- the client's side --

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call that `encode` has accepted, defaults included."""
        bound = self._signature.bind_partial(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> bytes:
        """Check a call and encode its arguments. Everything wrong with them is said here."""
        bound = self._bind(args, kwargs)
        self._check_loose(bound)
        try:
            body = _encode(bound)
            self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise ArgumentsError(f"{self._task}: an argument does not fit its annotation: {error}.") from None
        except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
            raise ArgumentsError(f"{self._task}: {self._culprit(bound, error)}.") from None
        for name in self._texts:  # a date encodes as text, but a date is not text
            value = getattr(bound, name)
            if value is not UNSET and not isinstance(value, str):
                raise ArgumentsError(
                    f"{self._task}: an argument does not fit its annotation: Expected `str`, got "
                    f"`{type(value).__name__}` - at `$.{name}`."
                )
        if len(body) > limit:
            raise PayloadTooLarge(f"{self._task}: the encoded arguments", len(body), limit)
        return body

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Struct:
        if self._simple:
            try:
                return self._struct(*args, **kwargs)
            except TypeError:
                pass  # Python's own words, below, name the culprit better
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentsError(f"{self._task}: {error}.") from None
        given = set(bound.arguments) & set(self.injected)
        if given:
            raise ArgumentsError(f"{self._task}: {min(given)!r} is filled in by the worker and cannot be passed.")
        return self._struct(**bound.arguments)

    def _check_loose(self, bound: Struct) -> None:
        """Where no annotation says more a value must be plain JSON: anything else would arrive as another type."""
        for name in self._loose:
            value = getattr(bound, name)
            if type(value) not in _SCALARS and value is not UNSET:
                problem = _not_plain(value, name, DEEPEST)
                if problem:
                    raise ArgumentsError(f"{self._task}: {problem}.")

    def _culprit(self, bound: Struct, error: Exception) -> str:
        for name in self._names:
            try:
                _encode(getattr(bound, name))
            except Exception as reason:
                if isinstance(reason, RecursionError):
                    return f"argument {name!r} is nested too deeply, or contains itself"
                return f"argument {name!r} cannot be encoded: {reason}"
        return str(error)

    def fingerprint(self, body: bytes) -> bytes:
        """The same for all calls that mean the same: defaults filled in, keys in order."""
        bound = self._decoder.decode(body)
        values = {
            name: value if value is not UNSET else _default(self._signature.parameters[name])
            for name, value in zip(self._names, msgspec.structs.astuple(bound), strict=True)
        }
        try:
            return _orderly_encoder.encode(values)
        except TypeError as error:
            raise ArgumentsError(f"{self._task}: cannot be unique, as a default cannot be encoded: {error}.") from None

    # -- the worker's side --

    def decode(self, body: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with their types. Raises `ArgumentsError` in words."""
        try:
            bound = self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeError, ValueError) as error:
            raise ArgumentsError(f"the arguments do not fit {self._task}: {error}") from None
        values = msgspec.structs.astuple(bound)
        if self._all_positional:
            for value in values:
                if value is UNSET:
                    break
            else:
                return values, {}
        return self._spread(values)

    def _spread(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, value in zip(self._names, values, strict=True):
            if value is UNSET:
                continue
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                args += value
            elif kind is inspect.Parameter.VAR_KEYWORD:
                kwargs |= value
            elif kind is inspect.Parameter.POSITIONAL_ONLY or (
                kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and not kwargs and not self._skipped(name, values)
            ):
                args.append(value)
            else:
                kwargs[name] = value
        return tuple(args), kwargs

    def _skipped(self, name: str, values: tuple[Any, ...]) -> bool:
        """Whether a parameter before this one was left out: then this one goes by name."""
        before = values[: self._names.index(name)]
        return any(value is UNSET for value in before)


_SCALARS = frozenset({str, int, bool, type(None)})
_OPEN = frozenset({Any, object, dict, list, tuple})
"""Annotations that leave open what is inside."""


def _is_loose(annotation: Any) -> bool:
    """Whether an annotation leaves something open, and what it does not is plain JSON."""
    leaves = list(_leaves(annotation))
    if not all(leaf is Any or isinstance(leaf, type) for leaf in leaves):
        return False
    return not _OPEN.isdisjoint(leaves) and (_OPEN | _SCALARS | {float}).issuperset(leaves)


def _leaves(annotation: Any) -> Iterator[Any]:
    inner = [part for part in typing.get_args(annotation) if part is not ...]
    if typing.get_origin(annotation) is dict and inner[0] is not str:
        yield annotation  # keys with types of their own
    elif not inner:
        yield annotation
    else:
        for part in inner:
            yield from _leaves(part)


def _encode(value: Any) -> bytes:
    """JSON. What it cannot carry is an error, also where msgspec would write `null` instead."""
    encoded = _encoder.encode(value)
    if b"null" in encoded and not _finite(msgspec.to_builtins(value)):
        raise ValueError("it contains a number that is not finite, which JSON cannot carry")
    return encoded


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(_finite, value))


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return []
    return {} if parameter.kind is parameter.VAR_KEYWORD else parameter.default


def _not_plain(value: Any, path: str, depth: int) -> str:
    """What keeps a value from arriving as it was sent, or nothing."""
    kind = type(value)
    if kind in _SCALARS:
        return ""
    if kind is float:
        return "" if math.isfinite(value) else f"argument {path!r} is {value}, which JSON cannot carry"
    if kind in (list, tuple, dict):
        if depth == 0:
            return f"argument {path.partition('[')[0]!r} is nested too deeply, or contains itself"
        return next(filter(None, _problems_inside(value, path, depth - 1)), "")
    return (
        f"argument {path!r} is of type {kind.__name__}, which would arrive as something else. "
        "Annotate the parameter with its type, or pass plain JSON values"
    )


def _problems_inside(value: Any, path: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if type(key) is not str:
                yield f"argument {path!r} has the key {key!r}, which would arrive as text. Use text as keys"
            yield _not_plain(inner, f"{path}[{key!r}]", depth)
    else:
        for index, inner in enumerate(value):
            yield _not_plain(inner, f"{path}[{index}]", depth)


# -- results, data, errors ---------------------------------------------------------------------------


class Results:
    """What a task returns, by its return annotation."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            annotation = typing.get_type_hints(function, include_extras=True).get("return", Any)
            self._decoder = msgspec.json.Decoder(Any if annotation is type(None) else annotation)
        except (TypeError, NameError):
            self._decoder = msgspec.json.Decoder(Any)

    def decode(self, result: bytes | None) -> Any:
        if result is None:
            return None
        try:
            return self._decoder.decode(result)
        except (msgspec.DecodeError, UnicodeDecodeError):  # the function did not keep to its annotation
            return decode_value(result)


def encode_value(what: str, value: Any, limit: int) -> bytes:
    """Encode a result or data; what cannot be encoded is an `ArgumentsError`."""
    try:
        encoded = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
        raise ArgumentsError(f"{what} cannot be encoded: {error}.") from None
    if len(encoded) > limit:
        raise PayloadTooLarge(what, len(encoded), limit)
    return encoded


def decode_value(encoded: bytes | None) -> Any:
    """Raises `HeadraceError` for what some other program has written that is not JSON."""
    try:
        return None if encoded is None else msgspec.json.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HeadraceError(f"What another program has written is not JSON: {encoded!r:.60} ({error}).") from None


class ErrorText(Struct, frozen=True):
    """An exception as data: it is never rebuilt into an exception."""

    type: str
    message: str
    traceback: str = ""


LONGEST_TEXT = 16_000
"""What is kept of a message or a traceback, half from each end."""


def describe_error(error: BaseException) -> ErrorText:
    """Put an exception into words, whatever its own methods do."""
    kind = type(error)
    try:
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    except BaseException:
        name = "(an exception without a name)"
    try:
        message = str(error)
    except BaseException as reason:
        message = f"(its message could not be made: {type(reason).__name__})"
    try:
        lines = "".join(traceback.format_exception(error))
    except BaseException as reason:
        lines = f"(its traceback could not be made: {type(reason).__name__})"
    return ErrorText(clean(name), clean(message), clean(lines))


def clean(text: str) -> str:
    """Text of a task as every store can keep it: lone surrogates replaced, and not endless."""
    text = str.encode(text, errors="replace").decode()
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def encode_error(error: ErrorText) -> bytes:
    return _encoder.encode(error)


def decode_error(encoded: bytes | None) -> ErrorText:
    if encoded is None:
        return ErrorText("", "")
    try:
        return msgspec.json.decode(encoded, type=ErrorText)
    except msgspec.DecodeError:
        return ErrorText("", encoded.decode(errors="replace"))
