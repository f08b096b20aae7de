"""Whether a value arrives as what it was: it is compared with what its own JSON gives back.

JSON has few types, so much looks alike on the way: a date and a text, bytes and a text, two dataclasses with the same
fields. What comes back equal is fine. Where an annotation leaves open what a value is, its type counts as well.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Struct
from msgspec.inspect import AnyType, CustomType, DictType, Field, Type, UnionType, type_info

from headrace.values.models import is_model

DEEPEST = 64
"""How deep arguments may be nested: far below where any JSON reader gives up."""


class Wording(NamedTuple):
    """How refusals name a value: its place, the annotation that it has to fit, and what to do about it."""

    place: str
    fit: str
    cure: str


ARGUMENT = Wording(
    "argument {!r}", "an argument does not fit its annotation",
    "Annotate the parameter with its type, or pass plain JSON values",
)  # fmt: skip
RESULT = Wording(
    "its {}", "its result does not fit its annotation",
    "Annotate the return value with its type, or return plain JSON values",
)  # fmt: skip

_SCALARS = frozenset({str, int, float, bool, type(None)})
_JSON = _SCALARS | {list, dict}
_ARRAYS = (list, tuple)
_SETS = (set, frozenset)


def leaves_open(annotation: Any) -> bool:
    """Whether an annotation says, anywhere within it, no more than "anything".

    >>> leaves_open(list[int]), leaves_open(dict[str, Any]), leaves_open(list)
    (False, True, True)
    """
    seen: set[int] = set()
    rest: list[Any] = [type_info(annotation)]
    while rest:
        node = rest.pop()
        if id(node) in seen:  # a type that contains itself
            continue
        seen.add(id(node))
        if isinstance(node, AnyType) or (isinstance(node, CustomType) and node.cls is object):
            return True
        for part in msgspec.structs.astuple(node):
            parts = part if isinstance(part, tuple) else (part,)
            rest += [inner for inner in parts if isinstance(inner, Type | Field)]
    return False


class Refusal(Protocol):
    """Why values of a type that msgspec does not know can't be carried, as keys or else; empty: they can."""

    def __call__(self, kind: type, *, key: bool = False) -> str: ...


def uncarried(annotation: Any, refusal: Refusal) -> str:
    """Why no value that an annotation takes can be carried; empty: some can.

    >>> def refusal(kind, *, key=False):
    ...     return "" if kind is object else f"type {kind.__name__}"
    >>> uncarried(list[complex], refusal), uncarried(complex | None, refusal), uncarried(object, refusal)
    ('type complex', '', '')
    """
    return _uncarried(type_info(annotation), refusal, set())


def _uncarried(node: Any, refusal: Refusal, seen: set[int]) -> str:
    if id(node) in seen:  # a type that contains itself
        return ""
    seen.add(id(node))
    if isinstance(node, CustomType):
        return refusal(node.cls)
    if isinstance(node, UnionType):
        found = [_uncarried(choice, refusal, seen) for choice in node.types]
        return found[0] if all(found) else ""
    if isinstance(node, Field):
        return _uncarried(node.type, refusal, seen) if node.required else ""
    if isinstance(node, DictType) and isinstance(node.key_type, CustomType):
        return refusal(node.key_type.cls, key=True) or _uncarried(node.value_type, refusal, seen)
    for part in msgspec.structs.astuple(node):
        for inner in part if isinstance(part, tuple) else (part,):
            if isinstance(inner, Type | Field) and (why := _uncarried(inner, refusal, seen)):
                return why
    return ""


_EXAMPLES: tuple[Any, ...] = ("", 0, 0.5, None, [], {})


def is_of_json(cls: type) -> bool:
    """Whether a value that JSON gives back may be of a class: `object`, or a number of `numbers`."""
    try:
        return any(isinstance(value, cls) for value in _EXAMPLES)
    except TypeError:  # a protocol that can't be checked
        return False


def is_plain(value: Any, depth: int = DEEPEST) -> bool:
    """Whether a value is made of nothing but what JSON itself has, and so arrives as it is where nothing is annotated.

    >>> is_plain({"a": [1, None, "b"]}), is_plain({"a": (1,)}), is_plain({1: "a"})
    (True, False, False)
    """
    kind = type(value)
    if depth == 0 or (kind is not dict and kind is not list):
        return kind in _SCALARS
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        value = value.values()
    for inner in value:  # noqa: SIM110  (every result comes by here, and a generator takes twice the time)
        if type(inner) not in _SCALARS and not is_plain(inner, depth - 1):
            return False
    return True


def changed(value: Any, found: Any, path: str, exact: bool, depth: int = DEEPEST, *, words: Wording = ARGUMENT) -> str:
    """What is wrong with a value that arrives as `found`, or nothing. `exact`: being equal is not enough.

    >>> changed([1, "2020-02-29"], [1, "2020-02-29"], "days", exact=True)
    ''
    >>> changed("c2VjcmV0", b"secret", "key", exact=False)
    'an argument does not fit its annotation: Expected `bytes`, got `str` - at `$.key`'
    """
    kind = type(value)
    same_kind = kind is type(found)
    if value == found if same_kind and kind in _SCALARS else not exact and equal(value, found):
        return ""
    if depth == 0:
        return f"{words.place.format(re.split(r'[.[]', path)[0])} is nested too deeply, or contains itself"
    inside = _inside(value, found, path, exact, depth - 1, words)
    if inside is not None:
        return next(filter(None, inside), "")
    untyped = exact and not same_kind and type(found) in _JSON and (kind, type(found)) != (int, float)
    return "" if not untyped and equal(value, found) else _told(value, found, path, untyped, words)


def equal(value: Any, found: Any) -> bool:
    """Whether two values are the same, whatever their own methods do."""
    try:
        if isinstance(value, Decimal) and isinstance(found, Decimal):
            return value.as_tuple() == found.as_tuple()  # a NaN is not equal to itself
        if value == found:
            return True
        if not isinstance(value, datetime) or not isinstance(found, datetime) or None in (value.tzinfo, found.tzinfo):
            return False
        # In the hour that a clock runs twice, a time is not equal to itself in another zone.
        return value.astimezone(UTC) == found.astimezone(UTC)
    except Exception:  # the values' own comparison: what it cannot tell does not count as equal
        return False


def inner_values(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    """The parts of a value that are encoded one by one, with their paths. (Pydantic encodes a model as a whole.)"""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield inner, f"{path}[{_short(key)}]"
    elif isinstance(value, _ARRAYS):
        for index, inner in enumerate(value):
            yield inner, f"{path}[{index}]"
    elif not is_model(type(value)):
        for name in _field_names(value):
            yield getattr(value, name, UNSET), f"{path}.{name}"


def _inside(value: Any, found: Any, path: str, exact: bool, depth: int, words: Wording) -> Iterator[str] | None:
    """What is wrong inside of two values of the same make; None if they are not."""
    kind = type(value)
    if isinstance(found, _ARRAYS):
        # A tuple and a list stand for each other: JSON has one kind of array.
        fits = kind in _ARRAYS or kind is type(found) if exact else isinstance(value, _ARRAYS)
        return _elements(value, found, path, exact, depth, words) if fits and len(value) == len(found) else None
    if isinstance(found, dict):
        fits = kind is dict if exact else isinstance(value, dict)
        return _entries(value, found, path, exact, depth, words) if fits else None
    if isinstance(found, _SETS) and isinstance(value, _SETS):
        return _members(value, found, path, exact, words)
    return _fields(value, found, path, exact, depth, words) if kind is type(found) and _field_names(value) else None


def _elements(value: Any, found: Any, path: str, exact: bool, depth: int, words: Wording) -> Iterator[str]:
    for index, (inner, arrived) in enumerate(zip(value, found, strict=True)):
        if type(inner) is not type(arrived) or type(inner) not in _SCALARS:  # the others arrive as they are
            yield changed(inner, arrived, f"{path}[{index}]", exact, depth, words=words)


def _entries(
    value: dict[Any, Any], found: dict[Any, Any], path: str, exact: bool, depth: int, words: Wording
) -> Iterator[str]:
    place = words.place.format(path)
    if len(value) != len(found):
        lost = next((key for key in value if key not in found), None)
        yield f"{place} has the key {_short(lost)}, which would not arrive"
    for (key, inner), (found_key, arrived) in zip(value.items(), found.items(), strict=False):
        if (type(key) is not str or type(found_key) is not str) and changed(key, found_key, path, exact, depth):
            if isinstance(found_key, str):
                yield f"{place} has the key {_short(key)}, which would arrive as text. Use text as keys"
            yield f"{place} has the key {_short(key)}, which would arrive as {_short(found_key)}"
        if type(inner) is not type(arrived) or type(inner) not in _SCALARS:  # the others arrive as they are
            yield changed(inner, arrived, f"{path}[{_short(key)}]", exact, depth, words=words)


def _fields(value: Any, found: Any, path: str, exact: bool, depth: int, words: Wording) -> Iterator[str]:
    model = is_model(type(value))
    for name in _field_names(value):
        inner, arrived = getattr(value, name, UNSET), getattr(found, name, UNSET)
        yield changed(inner, arrived, f"{path}.{name}", exact, depth, words=words)
        if model and _swapped(inner, arrived):  # then the models are not equal
            yield _told(inner, arrived, f"{path}.{name}", False, words)
    if model and value.__pydantic_private__ != found.__pydantic_private__:
        yield f"{words.place.format(path)} has private attributes, which would not arrive"


def _swapped(value: Any, found: Any) -> bool:
    """Whether a list stands for a tuple somewhere inside, or a tuple for a list."""
    if isinstance(value, _ARRAYS) and isinstance(found, _ARRAYS):
        return type(value) is not type(found) or any(map(_swapped, value, found))
    return isinstance(value, dict) and isinstance(found, dict) and any(map(_swapped, value.values(), found.values()))


def _members(value: Any, found: Any, path: str, exact: bool, words: Wording) -> Iterator[str]:
    known = {(type(item), item) for item in found} if exact else found
    for item in value:
        if ((type(item), item) if exact else item) not in known:
            yield (
                f"{words.place.format(path)} contains a {type(item).__name__}, which would arrive as something else. "
                f"{words.cure}"
            )


def _field_names(value: Any) -> tuple[str, ...]:
    """The fields of a Struct, a dataclass, a model of pydantic or a class of attrs."""
    if isinstance(value, Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    if is_model(type(value)):
        return (*type(value).model_fields, *(value.model_extra or ()))
    return tuple(field.name for field in getattr(type(value), "__attrs_attrs__", ()))


def _told(value: Any, found: Any, path: str, untyped: bool, words: Wording) -> str:
    given, arrived = type(value), type(found)
    if untyped:
        return (
            f"{words.place.format(path)} is of type {given.__name__}, which would arrive as something else. "
            f"{words.cure}"
        )
    if given is arrived or (given is int and arrived is float):
        return f"{words.place.format(path)} cannot be carried exactly: {_short(value)} would arrive as {_short(found)}"
    names = f"Expected `{arrived.__name__}`, got `{given.__name__}`"
    return f"{words.fit}: {names} - at `$.{path}`"


def _short(value: Any) -> str:
    """A value in a few words."""
    try:
        text = repr(value)
    except Exception:  # an integer with too many digits, say
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else f"{text[:59]}…"
