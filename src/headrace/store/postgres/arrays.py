"""Values as PostgreSQL gets them: numbers of one size, and whole columns as one value."""

from __future__ import annotations

import struct
from collections.abc import Iterable
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


class Texts(list[str]):
    """A text[]."""


class Blobs(list[bytes | None]):
    """A bytea[]."""


def _array(kind: int, items: Iterable[bytes], length: int) -> bytes:
    """An array of one dimension, as it is sent."""
    return _HEAD.pack(1 if length else 0, 1, kind, length, 1)[: None if length else 12] + b"".join(items)


class _Numbers(Dumper):
    format = pq.Format.BINARY
    oid = 1016

    def dump(self, obj: Numbers) -> bytes:
        return _array(_BIGINT, [_NULL if item is None else _NUMBER(8, item) for item in obj], len(obj))


class _Texts(Dumper):
    format = pq.Format.BINARY
    oid = 1009

    def dump(self, obj: Texts) -> bytes:
        encoded = [item.replace("\0", "\ufffd").encode() for item in obj]
        return _array(_TEXT, [_LENGTH(len(item)) + item for item in encoded], len(obj))


class _Blobs(Dumper):
    format = pq.Format.BINARY
    oid = 1001

    def dump(self, obj: Blobs) -> bytes:
        return _array(_BYTEA, [_NULL if item is None else _LENGTH(len(item)) + item for item in obj], len(obj))


class _Number(Dumper):
    """Always a bigint: psycopg's own choose a type by the value, and a statement is prepared for each."""

    oid = _BIGINT

    def dump(self, obj: int) -> bytes:
        return b"%d" % obj


class _Text(Dumper):
    oid = _TEXT

    def dump(self, obj: str) -> bytes:
        return obj.replace("\0", "\ufffd").encode()  # (words of users: names with a NUL are refused)


def adapt(connection: Connection[Any]) -> None:
    for kind, dumper in (
        (int, _Number), (bool, _Number), (str, _Text), (Numbers, _Numbers), (Texts, _Texts), (Blobs, _Blobs)
    ):  # fmt: skip
        connection.adapters.register_dumper(kind, dumper)
