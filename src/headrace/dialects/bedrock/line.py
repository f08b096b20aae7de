"""Who is next in line: jobs that are due, by exact name or by pattern, without reading the whole table.

An exact name has a line of its own in an index. A pattern has none, so two searches take turns, each allowed a
little more than before: down the line of all names until one matches, and from name to name through those that
begin like the pattern. Where other people's jobs stand in front, the second is quick; where there are as many names as
jobs, the first is. Whichever ends first has the answer, both give the same one, and it begins the next time.

Mocked jobs stand in lines of their own: who wants both kinds gets the first of the two lines together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.dialects.bedrock.transaction import Row, Transaction, read_row
from headrace.dialects.bedrock.values import LARGEST, read_list

FIRST_BUDGET = 8
"""How many rows, or names, a search may look at in its first turn; eight times as many in each one after."""
REAL, MOCKED = 0, 1


class Wish:
    """Which jobs somebody wants: names (exact ones, or one pattern), a priority, mocked ones too or not.

    Wishes that are equal are always granted or refused together.
    """

    __slots__ = ("_key", "exact", "kinds", "names", "prefix", "priority")

    def __init__(self, name: str, priority: int | None = None, *, mocked: bool = False) -> None:
        entries = read_list(name)
        self.prefix = literal_prefix(name)
        self.exact = len(entries) > 1 or self.prefix == name
        self.names: tuple[str, ...] = tuple(dict.fromkeys(entries)) if len(entries) > 1 else (name,)
        self.priority = priority
        self.kinds = (REAL, MOCKED) if mocked else (REAL,)
        self._key = (self.names, self.exact, priority, mocked)

    @property
    def is_prefix(self) -> bool:
        """Whether the pattern is nothing but a prefix: text and a star."""
        return not self.exact and self.names[0] == self.prefix + "*"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wish) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def literal_prefix(pattern: str) -> str:
    """What every name begins with that matches a GLOB pattern.

    >>> literal_prefix("mail/*"), literal_prefix("mail"), literal_prefix("[ab]*")
    ('mail/', 'mail', '')
    """
    return "".join(itertools.takewhile(lambda character: character not in "*?[", pattern))


def first_beyond(prefix: str) -> str | bytes:
    """The first text that comes after all texts with a prefix, in the order of their UTF-8 bytes.

    >>> first_beyond("mail/")
    'mail0'
    """
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < 0x10FFFF:
            return prefix[: end - 1] + chr(0xE000 if code == 0xD7FF else code + 1)
    return b""  # beyond all texts: SQLite puts every blob after every text


def next_in_line(tx: Transaction, wish: Wish, count: int) -> list[Row]:
    """Up to so many jobs that are due, in order: priority (higher first), then nextRun, then jobID."""
    return _first(count, [_of_kind(tx, wish, kind, count) for kind in wish.kinds])


def _first(count: int, lines: Sequence[Iterable[Row]]) -> list[Row]:
    """The first of several lines together."""
    if len(lines) == 1:
        return list(lines[0])
    rows = sorted(itertools.chain.from_iterable(lines), key=lambda row: (-row.priority, row.next_run, row.job_id))
    return rows[:count]


def _of_kind(tx: Transaction, wish: Wish, kind: int, count: int) -> list[Row]:
    if wish.exact:
        return _by_names(tx, wish, kind, wish.names, count)
    pattern = wish.names[0]
    names_first = (pattern, kind) in tx.by_names
    budget = FIRST_BUDGET
    for by_names in itertools.cycle((True, False) if names_first else (False, True)):
        search = _from_name_to_name if by_names else _down_the_line
        found = search(tx, wish, kind, count, budget)
        if found is not None:
            tx.remember((pattern, kind), by_names=by_names)
            return found
        if by_names is not names_first:
            budget *= 8
    raise AssertionError("unreachable")


def _by_names(tx: Transaction, wish: Wish, kind: int, names: Sequence[str | bytes], count: int) -> list[Row]:
    return _first(count, [list(itertools.islice(_line_of(tx, wish, kind, name), count)) for name in names])


def _line_of(tx: Transaction, wish: Wish, kind: int, name: str | bytes) -> Iterator[Row]:
    """The due jobs of one name, in order."""
    for priority in _priorities(tx, wish, "top_priority_of_name", kind, name):
        yield from map(read_row, tx.stream("due_of_name", kind, name, priority, tx.now))


def _priorities(tx: Transaction, wish: Wish, statement: str, *of: Any) -> Iterator[int]:
    if wish.priority is not None:
        yield wish.priority
        return
    priority = LARGEST
    while (lower := tx.value(statement, *of, priority)) is not None:
        priority = lower
        yield priority


def _down_the_line(tx: Transaction, wish: Wish, kind: int, count: int, budget: int) -> list[Row] | None:
    """Look at so many due jobs of all names, in order. None: there are more, and not enough have matched."""
    found: list[Row] = []
    for priority in _priorities(tx, wish, "top_priority", kind):
        seen = 0
        for job_id, matches in tx.stream("due", kind, priority, tx.now, wish.names[0], budget):
            seen += 1
            if matches:
                found.append(tx.job(job_id))
                if len(found) == count:
                    return found
        if seen == budget:
            return None
        budget -= seen
    return found


def _from_name_to_name(tx: Transaction, wish: Wish, kind: int, count: int, budget: int) -> list[Row] | None:
    """Look at the heads of so many lines. None: there are more names than that."""
    names = _names_like(tx, wish, kind, budget)
    return None if names is None else _by_names(tx, wish, kind, names, count)


def _names_like(tx: Transaction, wish: Wish, kind: int, budget: int) -> list[bytes] | None:
    """The names in line that match, as they are stored. None: too many of them begin like the pattern."""
    pattern = wish.names[0]
    beyond = first_beyond(wish.prefix)
    names: list[bytes] = []
    found = tx.first("next_name", kind, wish.prefix, beyond, pattern)
    for _ in range(budget):
        if found is None:
            return names
        name, matches = found
        if matches:
            names.append(name)
        found = tx.first("name_after", kind, name, beyond, pattern)
    return None
