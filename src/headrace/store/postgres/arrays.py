"""Values as PostgreSQL gets them: numbers of one size, and whole columns as one value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

_HEAD = struct.Struct(">iiIii")
_NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct(">i").pack
_NUMBER = struct.Struct(">iq").pack
_FLOAT = struct.Struct(">id").pack
_BIGINT, _TEXT, _BYTEA, _DOUBLE = 20, 25, 17, 701


class Numbers(list[Any]):
    """A bigint[]."""


class Texts(list[Any]):
    """A text[]."""


class Blobs(list[Any]):
    """A bytea[]."""


class Floats(list[Any]):
    """A double precision[]."""


KINDS: dict[str, type[list[Any]]] = {"n": Numbers, "t": Texts, "b": Blobs, "f": Floats}


def columns(kinds: str, rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Rows as one value per column, of these kinds."""
    given = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return tuple(KINDS[kind](column) for kind, column in zip(kinds, given, strict=True))


def encoded(values: Sequence[Any]) -> tuple[list[bytes | None], tuple[int, ...], list[int]]:
    """Values as they are sent, with their types and formats. What is none has no type."""
    types, formats, encoders = _encoders(tuple(map(type, values)))
    sent = [None if value is None else encode(value) for value, encode in zip(values, encoders, strict=True)]
    return sent, types, formats


@cache
def _encoders(kinds: tuple[type, ...]) -> tuple[tuple[int, ...], list[int], list[Callable[[Any], bytes]]]:
    """For values of these types: PostgreSQL's types, the formats, and what encodes each."""
    found = [_ENCODERS.get(kind, _OTHER) for kind in kinds]
    return tuple([kind for kind, _, _ in found]), [form for _, form, _ in found], [encode for _, _, encode in found]


def _array(kind: int, encode: Callable[[list[Any]], Sequence[bytes]]) -> Callable[[list[Any]], bytes]:
    """Encodes an array of one dimension."""

    def dump(column: list[Any]) -> bytes:
        head = _HEAD.pack(1 if column else 0, 1, kind, len(column), 1)
        return head[: None if column else 12] + b"".join(encode(column))

    return dump


def _sized(items: Iterable[bytes | None]) -> list[bytes]:
    return [_NULL if item is None else _LENGTH(len(item)) + item for item in items]


def _text(text: str) -> bytes:
    return text.replace("\0", "\ufffd").encode()  # (words of users: names with a NUL are refused)


_Encoder = tuple[int, int, Callable[[Any], bytes]]
_NUMBERS: _Encoder = 1016, 1, _array(_BIGINT, lambda column: [_NULL if n is None else _NUMBER(8, n) for n in column])
_FLOATS: _Encoder = 1022, 1, _array(_DOUBLE, lambda column: [_NULL if n is None else _FLOAT(8, n) for n in column])
_TEXTS: _Encoder = 1009, 1, _array(_TEXT, lambda column: _sized(None if t is None else _text(t) for t in column))
_OTHER: _Encoder = 0, 0, lambda value: str(value).encode()
# By type of value: PostgreSQL's type (a number is always a bigint), the format (1: binary), and what encodes it.
_ENCODERS: dict[type, _Encoder] = {
    type(None): (0, 0, bytes), int: (_BIGINT, 0, b"%d".__mod__), bool: (_BIGINT, 0, b"%d".__mod__),
    float: (_DOUBLE, 0, lambda number: repr(number).encode()), str: (_TEXT, 0, _text), bytes: (_BYTEA, 1, bytes),
    Numbers: _NUMBERS, Floats: _FLOATS, Texts: _TEXTS, Blobs: (1001, 1, _array(_BYTEA, _sized)),
}  # fmt: skip
