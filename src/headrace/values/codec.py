"""From Python values to bytes and back: arguments by their annotations, results, data, errors. JSON, never pickle.

A task's parameters become a msgspec Struct with a field each, so that checking, encoding and decoding are
one call in C, and a job's body is a plain JSON object of arguments by name that any language can write.
"""

from __future__ import annotations

import inspect
import re
import traceback
import types
import typing
from collections.abc import Callable
from datetime import date, time
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.errors import ArgumentsError, ConfigurationError, HeadraceError, PayloadTooLarge
from headrace.locks import reentrant_lock
from headrace.values.foreign import BUILT_IN, Codecs, encode
from headrace.values.roundtrip import (
    ARGUMENT,
    RESULT,
    Wording,
    changed,
    equal,
    inner_values,
    is_plain,
    leaves_open,
    uncarried,
)

_encoder = msgspec.json.Encoder()
_building = reentrant_lock()


def decoder_of(annotation: Any, codecs: Codecs = BUILT_IN) -> msgspec.json.Decoder[Any]:
    """A decoder, made by one thread at a time.

    Msgspec looks into a struct when it first makes a decoder for it, and crashes the process if another thread uses the
    struct meanwhile. For the same reason decoders of our own structs are made when their modules are imported.
    """
    with _building:
        return msgspec.json.Decoder(annotation, dec_hook=codecs.from_json)


_TIME = re.compile(r"Invalid RFC3339 encoded (\w+)( - at `\$\.(\w+)`)?")


def _misfit(error: msgspec.ValidationError, whole: Any) -> str:
    """Why a value does not fit. Of a datetime that is given for a date msgspec says only that it is bad RFC 3339."""
    found = _TIME.fullmatch(str(error))
    given = getattr(whole, found[3], None) if found and found[3] else whole
    if found is None or not isinstance(given, date | time):
        return str(error)
    return f"Expected `{found[1]}`, got `{type(given).__name__}`{found[2] or ''}"


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

    def __init__(self, task: str, function: Callable[..., Any], codecs: Codecs = BUILT_IN) -> None:
        self._task = task
        self._codecs = codecs
        self._signature = inspect.signature(function)
        self.injected: dict[str, str] = {}
        positional, keyword = self._fields(function)
        try:
            base = msgspec.defstruct(f"{task} arguments", positional, forbid_unknown_fields=True)
            self._struct: type[Struct] = msgspec.defstruct(
                f"{task} arguments", keyword, bases=(base,), kw_only=True, forbid_unknown_fields=True
            )
            self._decoder = decoder_of(self._struct, codecs)
            self._open = frozenset(
                field.name for field in msgspec.structs.fields(self._struct) if leaves_open(field.type)
            )
            self._refuse_uncarried()
        except TypeError as error:
            raise ConfigurationError(f"Task {task}: {error}. {_cure(error, 'Annotate with types')}.") from error
        self._names = self._struct.__struct_fields__
        self._by_name = self._behind_injected()
        # Without *args, **kwargs, / and gaps the struct's own constructor checks a call exactly as Python would.
        self._simple = not self._by_name and not any(
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
        for name, parameter in self._signature.parameters.items():
            if isinstance(parameter.default, Inject):
                self.injected[name] = parameter.default.name
                continue
            annotation = hints.get(name, Any)
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
            (keyword if parameter.kind is parameter.KEYWORD_ONLY else positional).append(field)
        return positional, keyword

    def _refuse_uncarried(self) -> None:
        """Refuse a parameter that every call must pass and none can. (One with a default can be left out.)"""
        for field in msgspec.structs.fields(self._struct):
            why = uncarried(field.type, self._codecs.refusal) if field.required else ""
            if why:
                raise TypeError(f"{field.name!r} has values of {why}")

    def _behind_injected(self) -> frozenset[str]:
        """The parameters that can only be passed by name, as one that the worker fills in stands before them."""
        names: set[str] = set()
        gap: str | None = None
        for name, parameter in self._signature.parameters.items():
            injected = name in self.injected
            if (injected and parameter.kind is parameter.POSITIONAL_ONLY) or (
                gap is not None and parameter.kind is parameter.VAR_POSITIONAL
            ):
                raise ConfigurationError(
                    f"Task {self._task}: {gap or name!r} is filled in by name, which cannot be done where it stands. "
                    "Put it after a * or *args."
                )
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                continue
            if injected:
                gap = name
            elif gap is not None:
                names.add(name)
        return frozenset(names)

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
        try:
            body = encode(bound, self._codecs)
            arrives = self._decoder.decode(body)
        except Exception as error:
            raise self._refusal(bound, error) from None
        try:
            compare = self._open or bound != arrives
        except Exception:  # the values' own comparison
            compare = True
        if compare:
            self._compare(bound, arrives)
        if len(body) > limit:
            raise PayloadTooLarge(f"{self._task}: the encoded arguments", len(body), limit)
        return body

    def typed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same call with values as JSON has them (a date is text) made into what their annotations say."""
        bound = self._bind(args, kwargs)
        try:
            arrives = self._decoder.decode(encode(bound, self._codecs))
        except Exception as error:
            raise self._refusal(bound, error) from None
        return self._spread(msgspec.structs.astuple(arrives))

    def _refusal(self, bound: Struct, error: Exception) -> ArgumentsError:
        if isinstance(error, msgspec.ValidationError):
            return ArgumentsError(f"{self._task}: {ARGUMENT.fit}: {_misfit(error, bound)}.")
        culprits = (_culprit(self._codecs, getattr(bound, name), name, ARGUMENT) for name in self._names)
        return ArgumentsError(f"{self._task}: {next(filter(None, culprits), error)}.")

    def _compare(self, bound: Struct, arrives: Struct) -> None:
        for name in self._names:
            value, found = getattr(bound, name), getattr(arrives, name)
            problem = "" if value is found else changed(value, found, name, exact=name in self._open)
            if problem:
                raise ArgumentsError(f"{self._task}: {problem}.")

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

    def fingerprint(self, body: bytes) -> bytes:
        """The same for all calls that mean the same: defaults filled in, keys in order."""
        bound = self._decoder.decode(body)
        values = {
            name: value if value is not UNSET else _default(self._signature.parameters[name])
            for name, value in zip(self._names, msgspec.structs.astuple(bound), strict=True)
        }
        try:
            return self._codecs.encode_orderly(values)
        except Exception as error:
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
            given = values
            while given and given[-1] is UNSET:
                given = given[:-1]
            if not [value for value in given if value is UNSET]:  # what was left out comes last, as mostly
                return given, {}
        return self._spread(values)

    def _spread(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        gap = False  # one was left out: those behind it go by name
        for name, value in zip(self._names, values, strict=True):
            if value is UNSET:
                gap = True
                continue
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                args += value
            elif kind is inspect.Parameter.VAR_KEYWORD:
                kwargs |= value
            elif kind is inspect.Parameter.POSITIONAL_ONLY or (
                kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and not gap and name not in self._by_name
            ):
                args.append(value)
            else:
                kwargs[name] = value
        return tuple(args), kwargs


def _cure(error: TypeError, annotate: str) -> str:
    """What to do about an annotation that msgspec or headrace refuses."""
    if "custom type" in str(error):  # msgspec's word for what it does not know
        return (
            "JSON does not tell of which of these types a value is: use one of them, or None beside it, or put them "
            "into one model or Struct with a field for each"
        )
    return f"{annotate} that JSON can carry, or write app.codec(...) for yours above the task"


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return []
    return {} if parameter.kind is parameter.VAR_KEYWORD else parameter.default


def _culprit(codecs: Codecs, value: Any, path: str, words: Wording) -> str:
    """What of a value cannot be encoded, or nothing."""
    try:
        encode(value, codecs)
    except RecursionError:
        return f"{words.place.format(path)} is nested too deeply, or contains itself"
    except Exception as reason:
        inside = (_culprit(codecs, inner, inner_path, words) for inner, inner_path in inner_values(value, path))
        return next(filter(None, inside), f"{words.place.format(path)} cannot be encoded: {reason}")
    return ""


# -- results, data, errors ---------------------------------------------------------------------------


_PLAIN: frozenset[type] = frozenset({str, int, float, bool, type(None), list, dict})


class Results:
    """What a task returns: checks, encodes and decodes it by the return annotation, as `Arguments` does arguments."""

    def __init__(
        self, task: str, function: Callable[..., Any], codecs: Codecs = BUILT_IN, *, kept: bool = True
    ) -> None:
        self._task = task
        self._codecs = codecs
        annotation = typing.get_type_hints(function, include_extras=True).get("return", Any)
        try:
            self._use(type(None) if annotation in (typing.NoReturn, typing.Never) else annotation)
        except TypeError as error:
            if kept:
                raise ConfigurationError(
                    f"Task {task}: {error}. {_cure(error, 'Annotate what it returns with a type')}, or say "
                    "keep_result=False."
                ) from error
            self._use(Any)

    def _use(self, annotation: Any) -> None:
        why = uncarried(annotation, self._codecs.refusal)
        if why:
            raise TypeError(f"its result has values of {why}")
        self._decoder = decoder_of(annotation, self._codecs)
        self._open = leaves_open(annotation)
        self._as_is = _taken_as_is(annotation)
        try:
            decoder_of(annotation).decode(b"null")  # (without the app's own codecs, which might accept it)
        except msgspec.ValidationError:
            self.allows_none = False
        else:
            self.allows_none = True

    def encode(self, value: Any, limit: int) -> bytes:
        """Check a result and encode it. Everything wrong with it is said here."""
        try:
            encoded = encode(value, self._codecs)
            kind = type(value)
            if kind not in self._as_is or ((kind is dict or kind is list) and not is_plain(value)):
                self._check(value, self._decoder.decode(encoded))
        except ArgumentsError:
            raise
        except msgspec.ValidationError as error:
            raise self._refusal(f"{RESULT.fit}: {_misfit(error, value)}") from None
        except Exception as error:
            raise self._refusal(_culprit(self._codecs, value, "result", RESULT) or str(error)) from None
        if len(encoded) > limit:
            raise PayloadTooLarge("The result", len(encoded), limit)
        return encoded

    def _check(self, value: Any, arrives: Any) -> None:
        if self._open or not equal(value, arrives):
            problem = changed(value, arrives, "result", self._open, words=RESULT)
            if problem:
                raise self._refusal(problem)

    def _refusal(self, problem: str) -> ArgumentsError:
        return ArgumentsError(f"{self._task}: {problem}. If nobody asks for the result, say keep_result=False.")

    def decode(self, result: bytes | None) -> Any:
        if result is None:
            return None
        try:
            return self._decoder.decode(result)
        except (msgspec.DecodeError, UnicodeDecodeError):  # of a task with another annotation, or another program's
            return decode_value(result)


def _taken_as_is(annotation: Any) -> frozenset[type]:
    """The types whose values an annotation takes as they are, provided that they are plain JSON.

    >>> sorted(kind.__name__ for kind in _taken_as_is(int | dict[str, Any] | None))
    ['NoneType', 'dict', 'int']
    """
    if annotation is Any:
        return _PLAIN
    if annotation in (list[Any], dict[str, Any]):
        return frozenset({list} if annotation == list[Any] else {dict})
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return frozenset(kind for one in typing.get_args(annotation) for kind in _taken_as_is(one))
    return frozenset({annotation}) if annotation in _PLAIN else frozenset()


def encode_value(codecs: Codecs, what: str, value: Any, limit: int) -> bytes:
    """Encode data; what cannot be encoded is an `ArgumentsError`."""
    try:
        encoded = encode(value, codecs)
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
    except RecursionError:
        raise HeadraceError(f"What another program has written is nested too deeply: {encoded!r:.60}.") from None


class ErrorText(Struct, frozen=True):
    """An exception as data: it is never rebuilt into an exception."""

    type: str
    message: str
    traceback: str = ""


_decode_error = msgspec.json.Decoder(ErrorText).decode

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


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text of a task as every store can keep it: lone surrogates replaced, and not endless."""
    text = str.encode(text, errors="replace").decode()
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def log_line(line: object) -> str:
    """A line of a job's log as every store keeps it."""
    return clean(str(line)[:2000])


def encode_error(error: ErrorText) -> bytes:
    return _encoder.encode(error)


def decode_error(encoded: bytes | None) -> ErrorText:
    if encoded is None:
        return ErrorText("", "")
    try:
        return _decode_error(encoded)
    except msgspec.DecodeError:
        return ErrorText("", encoded.decode(errors="replace"))
