"""Large values of a transaction, sent before it takes its first lock.

While a client sends, no time-out of the server applies: one that stands still in the middle of a message keeps all
that its transaction has locked. So a value that a socket may not take at once goes ahead, right after BEGIN, into a
variable of the transaction, and the statements behind the locks name the variable. They are small then, and are sent in
pieces that a socket takes, each of which is answered before the next: between two of them the server knows how long to
wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from headrace.store.postgres.arrays import Blobs, Numbers, Texts
from headrace.store.postgres.wire import Statement, Statements
from headrace.store.sql.transaction import Outdated

AT_ONCE = 32_000
"""Bytes of values that a socket takes without waiting for its peer."""
LARGE = 12_000
"""Bytes from which on a value is a parcel: two of them, and what else a row has, fit into what is sent at once."""
_SEND: dict[type, str] = {
    bytes: "SELECT 1 FROM pg_catalog.set_config($1, pg_catalog.encode($2, 'base64'), true)",
    str: "SELECT 1 FROM pg_catalog.set_config($1, $2, true)",
}
_NAMED: dict[type, str] = {
    bytes: "pg_catalog.decode(pg_catalog.current_setting($%d), 'base64')",
    str: "pg_catalog.current_setting($%d)",
}


class Unsent(Outdated):
    """A statement has large values that were not sent ahead: the transaction begins anew, and sends them."""


class Parcels:
    """The large values of one transaction, which keeps them however often it is begun."""

    def __init__(self, values: Iterable[bytes | None] = ()) -> None:
        self._names: dict[bytes | str, str] = {}
        for value in values:
            if value is not None and len(value) > LARGE:
                self._add(value)

    def __bool__(self) -> bool:
        return bool(self._names)

    def _add(self, value: bytes | str) -> str:
        return self._names.setdefault(value, f"headrace.parcel_{len(self._names)}")

    def sent(self) -> Statements:
        """The statements that send them."""
        return [(_SEND[type(value)], (name, value)) for value, name in self._names.items()]

    def named(self, statements: Statements) -> Statements:
        """The same statements, with names in the place of large values. Raises `Unsent` if one is new."""
        known = len(self._names)
        found = [self._with_names(statement) for statement in statements]
        if len(self._names) > known:
            raise Unsent
        return found

    def _with_names(self, statement: Statement) -> Statement:
        text, values = statement
        places = {place: single for place, value in enumerate(values, 1) if (single := _single(value)) is not None}
        if not places:
            return statement
        kinds = tuple((place, type(single)) for place, single in places.items())
        named = tuple(self._add(places[place]) if place in places else value for place, value in enumerate(values, 1))
        return _naming(text, kinds), named


def _single(value: Any) -> bytes | str | None:
    """A large value, by itself or as the only one of an array."""
    if isinstance(value, Blobs | Texts) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, bytes | str) and len(value) > LARGE else None


@cache
def _naming(text: str, kinds: tuple[tuple[int, type], ...]) -> str:
    """The statement with variables in the places of some values, whose names it takes instead."""
    for place, kind in kinds:
        variable = _NAMED[kind] % place
        text = re.sub(
            rf"\${place}(?!\d)(::(?:bytea|text)\[\])?",
            lambda found, of=variable: f"ARRAY[{of}]" if found[1] else of,  # type: ignore[misc]
            text,
        )
    return text


def _size(values: Sequence[Any]) -> int:
    """How many bytes values take, roughly."""
    return sum(map(_weight, values))


def _weight(value: Any) -> int:
    if isinstance(value, bytes | str):
        return len(value) + 4
    if isinstance(value, Blobs | Texts):
        return sum(map(len, filter(None, value))) + 4 * len(value)
    return 12 * len(value) if isinstance(value, Numbers) else 12


def pieces(statements: Statements) -> Iterator[Statements]:
    """Statements in order, no more at once than a socket takes."""
    piece: list[Statement] = []
    size = 0
    for statement in statements:
        more = _size(statement[1])
        if piece and size + more > AT_ONCE:
            yield piece
            piece, size = [], 0
        piece.append(statement)
        size += more
    if piece:
        yield piece
