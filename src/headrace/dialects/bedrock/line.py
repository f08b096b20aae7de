"""Who is next in line: jobs that are due, by exact name or by pattern, without reading the whole table.

An exact name has a line of its own in an index. A pattern has none, so two searches take turns, each allowed a
little more than before: down the line of all names until one matches, and from name to name through those that
begin like the pattern. Where other people's jobs stand in front, the second is quick; where there are as many names as
jobs, the first is. Whichever ends first has the answer, both give the same one, and it begins the next time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from headrace.dialects.bedrock.transaction import Row, Transaction
from headrace.dialects.bedrock.values import LARGEST, is_mocked, read_list

FIRST_BUDGET = 8
"""How many rows, or names, a search may look at in its first turn; eight times as many in each one after."""


class Wish:
    """Which jobs somebody wants: names (exact ones, or one pattern), a priority, mocked ones too or not.

    Wishes that are equal are always granted or refused together.
    """

    __slots__ = ("_key", "exact", "mocked", "names", "prefix", "priority")

    def __init__(self, name: str, priority: int | None = None, *, mocked: bool = False) -> None:
        entries = read_list(name)
        self.prefix = literal_prefix(name)
        self.exact = len(entries) > 1 or self.prefix == name
        self.names: tuple[str, ...] = tuple(dict.fromkeys(entries)) if len(entries) > 1 else (name,)
        self.priority = priority
        self.mocked = mocked
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
    if wish.exact:
        return _by_names(tx, wish, wish.names, count)
    pattern = wish.names[0]
    names_first = pattern in tx.by_names
    budget = FIRST_BUDGET
    for by_names in itertools.cycle((True, False) if names_first else (False, True)):
        found = _from_name_to_name(tx, wish, count, budget) if by_names else _down_the_line(tx, wish, count, budget)
        if found is not None:
            tx.remember(pattern, by_names=by_names)
            return found
        if by_names is not names_first:
            budget *= 8
    raise AssertionError("unreachable")


def _by_names(tx: Transaction, wish: Wish, names: Sequence[str], count: int) -> list[Row]:
    found = [row for name in names for row in itertools.islice(_line_of(tx, wish, name), count)]
    if len(names) > 1:
        found.sort(key=lambda row: (-row.priority, str(row.next_run), row.job_id))
        del found[count:]
    return found


def _line_of(tx: Transaction, wish: Wish, name: str) -> Iterator[Row]:
    """The due jobs of one name, in order."""
    for priority in _priorities(tx, wish, name):
        for row in map(Row._make, tx.stream("due_of_name", name, priority, tx.now)):
            if wish.mocked or not is_mocked(row.data):
                yield row


def _priorities(tx: Transaction, wish: Wish, name: str | None) -> Iterator[int]:
    if wish.priority is not None:
        yield wish.priority
        return
    priority = LARGEST
    while True:
        of_name = ("top_priority_of_name", name) if name is not None else ("top_priority",)
        priority = tx.value(*of_name, priority)
        if priority is None:
            return
        yield priority


def _down_the_line(tx: Transaction, wish: Wish, count: int, budget: int) -> list[Row] | None:
    """Look at so many due jobs of all names, in order. None: there are more, and not enough have matched."""
    found: list[Row] = []
    for priority in _priorities(tx, wish, None):
        seen = 0
        for job_id, matches in tx.stream("due", priority, tx.now, wish.names[0], budget):
            seen += 1
            if matches:
                row = tx.job(job_id)
                if wish.mocked or not is_mocked(row.data):
                    found.append(row)
                    if len(found) == count:
                        return found
        if seen == budget:
            return None
        budget -= seen
    return found


def _from_name_to_name(tx: Transaction, wish: Wish, count: int, budget: int) -> list[Row] | None:
    """Look at the heads of so many lines. None: there are more names than that."""
    names = _names_like(tx, wish, budget)
    return None if names is None else _by_names(tx, wish, names, count)


def _names_like(tx: Transaction, wish: Wish, budget: int) -> list[str] | None:
    """The names in line that match. None: too many of them begin like the pattern."""
    pattern = wish.names[0]
    beyond = first_beyond(wish.prefix)
    names: list[str] = []
    name = tx.value("next_name", wish.prefix, beyond)
    for _ in range(budget):
        if name is None:
            return names
        if wish.is_prefix or tx.value("matches", name, pattern):
            names.append(name)
        name = tx.value("name_after", name, beyond)
    return None
