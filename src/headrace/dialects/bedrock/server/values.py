"""How Bedrock reads numbers and lists, and how it writes columns as JSON: by looks, not by type."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

LARGEST, SMALLEST = 2**63 - 1, -(2**63)

_LEADING_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER_SHAPE = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?")
_LITERALS = {"true": "true", "false": "false", "null": "null"}


def read_integer(text: str) -> int:
    """As C does: a sign and leading digits, the rest ignored; 0 when there are none; never beyond 64 bits.

    >>> read_integer("12 monkeys"), read_integer("abc"), read_integer("9" * 30) == LARGEST
    (12, 0, True)
    """
    found = _LEADING_INTEGER.match(text)
    if found is None:
        return 0
    digits = found[1]
    if len(digits) > 20:
        return SMALLEST if digits[0] == "-" else LARGEST
    return max(SMALLEST, min(int(digits), LARGEST))


def read_list(text: str) -> list[str]:
    """A comma list: leading spaces of each entry dropped, and so are empty entries.

    >>> read_list("a, b,,c ")
    ['a', 'b', 'c ']
    """
    return [entry for part in text.split(",") if (entry := part.lstrip(" "))]


def is_integer(text: str) -> bool:
    """Whether a text is a 64-bit integer, in exactly one way of writing it."""
    return _CANONICAL_INTEGER.fullmatch(text) is not None and SMALLEST <= int(text) <= LARGEST


_encode = msgspec.json.Encoder().encode
_is_json = msgspec.json.Decoder(msgspec.Raw).decode


def render_text(text: str) -> str:
    """A string as JSON; slashes are escaped, too, as Bedrock does.

    >>> render_text("mail/Welcome")
    '"mail\\\\/Welcome"'
    """
    return _encode(text).decode().replace("/", "\\/")


def render(value: Any) -> str:
    """A column as JSON.

    >>> [render(value) for value in ("foo", "12", "012", "1.5", "TRUE", '{"a": 1}', None)]
    ['"foo"', '12', '"012"', '1.5', 'true', '{"a": 1}', '""']
    """
    if value is None:
        return '""'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'"{value}"'
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return f'"{value.hex()}"'
    return _render_by_looks(value)


def _render_by_looks(text: str) -> str:
    first = text[:1]
    if first in "{[" and first:
        return text if is_json(text) else render_text(text)
    if first in "-0123456789" and first:
        if is_integer(text):
            return text
        if _NUMBER_SHAPE.fullmatch(text) and repr(float(text)) == text and math.isfinite(float(text)):
            return text
    elif first in "tTfFnN" and len(text) <= 5 and (literal := _LITERALS.get(text.lower())):
        return literal
    return render_text(text)


def is_json(text: str) -> bool:
    try:
        _is_json(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return True


def render_object(members: Iterable[tuple[str, str]]) -> str:
    """An object of members that are JSON already, in the order given."""
    return "{" + ",".join([f'"{name}":{value}' for name, value in members]) + "}"


def read_data(text: str) -> dict[str, Any]:
    """A job's data as a dictionary; empty when it is no JSON object."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
    return value if isinstance(value, dict) else {}


def is_mocked(data: str) -> bool:
    """Whether a job is test traffic: its data has a `mockRequest`, whatever the value."""
    # A key may be spelt with \\u escapes; anything else cannot hide.
    return ("mockRequest" in data or "\\u" in data) and "mockRequest" in read_data(data)
