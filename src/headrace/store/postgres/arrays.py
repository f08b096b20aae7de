"""Values as PostgreSQL gets them: numbers of one size, and whole columns as one value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from psycopg import Connection, pq
from psycopg.adapt import Dumper

_HEAD = struct.Struct(">iiIii")
_NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct(">i").pack
_NUMBER = struct.Struct(">iq").pack
_BIGINT, _TEXT, _BYTEA = 20, 25, 17


class Numbers(list[Any]):
    """A bigint[]."""


class Texts(list[Any]):
    """A text[]."""


class Blobs(list[Any]):
    """A bytea[]."""


KINDS: dict[str, type[list[Any]]] = {"n": Numbers, "t": Texts, "b": Blobs}


def columns(kinds: str, rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Rows as one value per column, of these kinds."""
    given = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return tuple(KINDS[kind](column) for kind, column in zip(kinds, given, strict=True))


def _column(array: int, kind: int, encode: Callable[[Any], Sequence[bytes]]) -> type[Dumper]:
    """Sends an array of one dimension."""

    def dump(_: Dumper, column: list[Any]) -> bytes:
        head = _HEAD.pack(1 if column else 0, 1, kind, len(column), 1)
        return head[: None if column else 12] + b"".join(encode(column))

    return type("Column", (Dumper,), {"format": pq.Format.BINARY, "oid": array, "dump": dump})


def _sized(items: Iterable[bytes | None]) -> list[bytes]:
    return [_NULL if item is None else _LENGTH(len(item)) + item for item in items]


class _Number(Dumper):
    """Always a bigint: psycopg's own choose a type by the value, and a statement is prepared for each."""

    oid = _BIGINT

    def dump(self, obj: int) -> bytes:
        return b"%d" % obj


def _text(text: str) -> bytes:
    return text.replace("\0", "\ufffd").encode()  # (words of users: names with a NUL are refused)


class _Text(Dumper):
    oid = _TEXT

    def dump(self, obj: str) -> bytes:
        return _text(obj)


_DUMPERS: dict[type, type[Dumper]] = {
    int: _Number, bool: _Number, str: _Text, Blobs: _column(1001, _BYTEA, _sized),
    Numbers: _column(1016, _BIGINT, lambda column: [_NULL if n is None else _NUMBER(8, n) for n in column]),
    Texts: _column(1009, _TEXT, lambda column: _sized(None if text is None else _text(text) for text in column)),
}  # fmt: skip


def adapt(connection: Connection[Any]) -> None:
    for kind, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(kind, dumper)
