"""Models of pydantic, if the program uses it: nothing here imports it.

A model travels as an object with all its fields by name. So aliases, and another alias after a deploy, make no
difference, and a default that changes later does not change a job that waits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from headrace.errors import Timeout

_OLDEST = (2, 11)
"""The first pydantic that validates by the names of fields whatever their aliases are."""

_NOT_JSON = frozenset({"is-instance", "is-subclass", "callable", "generator"})
"""What core schemas call checks of values that have no JSON of their own."""


def is_model(kind: type) -> bool:
    main = sys.modules.get("pydantic.main")  # (to ask pydantic itself would import more of it)
    base = getattr(main, "BaseModel", None)
    return base is not None and issubclass(kind, base)


def encode(model: Any) -> Any:
    """A model as JSON values, computed fields left out."""
    return _dump(model, "json")


def encode_orderly(model: Any) -> Any:
    """The same, with the elements of sets in an order that is the same in each process."""
    return _in_order(_dump(model, "json"), _dump(model, "python"))


def _dump(model: Any, mode: str) -> Any:
    # Of the base class, as classes override it for readers of their own. Values that do not fit their fields, of which
    # pydantic would warn, do not survive the round trip.
    base = sys.modules["pydantic.main"].BaseModel
    return base.model_dump(model, mode=mode, by_alias=False, round_trip=True, warnings=False)


def decode(kind: Any, value: Any) -> Any:
    """A model of JSON values, with all its validators."""
    try:
        # As JSON, so that a strict model takes text for a date.
        return kind.model_validate_json(msgspec.json.encode(value), by_alias=False, by_name=True)
    except sys.modules["pydantic_core"].ValidationError as error:
        raise ValueError(f"{kind.__name__}: {_told(error)}") from None
    except Timeout:  # thrown at this thread by a worker: it is not about the value
        raise
    except Exception as error:  # of a validator
        raise ValueError(f"{kind.__name__} raised {type(error).__name__}: {error}") from error


def _told(error: Any) -> str:
    """What is wrong with the first fields, on one line and without their values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    words = [": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in found[:3]]
    return "; ".join(words) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


def refusal(kind: Any, *, key: bool) -> str:
    """Why no value of a model can arrive as what it was; empty: some can."""
    version = sys.modules["pydantic"].VERSION
    if tuple(map(int, version.split(".")[:2])) < _OLDEST:
        return f"type {kind.__name__}, a model of pydantic {version}: it takes pydantic 2.11 or newer"
    if key and not getattr(kind, "__pydantic_root_model__", False):
        return f"type {kind.__name__} as keys, and the keys of JSON are text"
    for name, field in kind.model_fields.items():
        if field.exclude and field.is_required():
            return f"type {kind.__name__}, whose field {name!r} is left out of its JSON (exclude=True)"
    schema = kind.__dict__.get("__pydantic_core_schema__")
    for name, inner in _required(schema) if isinstance(schema, dict) else ():  # (none yet, if it awaits other classes)
        if inner.get("type") in _NOT_JSON and "serialization" not in inner:
            return f"type {kind.__name__}, whose field {name!r} JSON cannot carry"
    return ""


def _required(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of a core schema that have no default, with their own schemas."""
    while schema.get("type") not in (None, "model-fields"):
        schema = schema.get("schema") or {}
    for name, field in schema.get("fields", {}).items():
        yield name, field["schema"]


def _in_order(encoded: Any, value: Any) -> Any:
    """JSON values with those lists sorted that stand for sets in the values that they were made of."""
    if isinstance(encoded, dict) and isinstance(value, dict) and len(encoded) == len(value):
        pairs = zip(encoded.items(), value.values(), strict=True)
        return {key: _in_order(inner, before) for (key, inner), before in pairs}
    if not isinstance(encoded, list):
        return encoded
    if isinstance(value, set | frozenset):
        of_sets = any(isinstance(each, frozenset) for each in value)
        elements = [_sorted(each) if of_sets and isinstance(each, list) else each for each in encoded]
        return _sorted(elements)
    if isinstance(value, list | tuple) and len(encoded) == len(value):
        return [_in_order(inner, before) for inner, before in zip(encoded, value, strict=True)]
    return encoded


def _sorted(elements: list[Any]) -> list[Any]:
    return sorted(elements, key=lambda each: msgspec.json.encode(each, order="deterministic"))
