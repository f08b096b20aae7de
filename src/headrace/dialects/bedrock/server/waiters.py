"""The requests that wait for jobs, by what they wait for: ten thousand of them cost memory, and nothing else.

Waiters with the same wish stand in one line. Lines are found by the name of a job that has become runnable: exact
names and prefixes by looking them up, other patterns by matching each distinct one once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.dialects.bedrock.server.take import Wanted, Wish

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.connection import Connection


@dataclass(eq=False, slots=True)
class Waiter:
    """A GetJob or GetJobs that found nothing and is held until there is something."""

    connection: Connection
    wanted: Wanted
    deadline: float | None
    number: int = 0
    """First come, first served."""


class Waiters:
    """All waiters of a server."""

    def __init__(self) -> None:
        self._lines: dict[Wish, dict[int, Waiter]] = {}
        self._by_name: dict[str, set[Wish]] = {}
        self._by_prefix: dict[str, set[Wish]] = {}
        self._by_pattern: dict[str, set[Wish]] = {}
        self._lengths: dict[int, int] = {}
        """How many prefixes have which length: only these lengths of a name are looked up."""
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._next_number = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Waiter]:
        return iter([waiter for line in self._lines.values() for waiter in line.values()])

    def add(self, waiter: Waiter) -> None:
        self._next_number += 1
        waiter.number = self._next_number
        wish = waiter.wanted.wish
        line = self._lines.get(wish)
        if line is None:
            line = self._lines[wish] = {}
            self._index(wish)
        line[waiter.number] = waiter
        self._count += 1
        if waiter.deadline is not None:
            heapq.heappush(self._deadlines, (waiter.deadline, waiter.number, waiter))

    def remove(self, waiter: Waiter) -> None:
        """It has been answered, has run out of time, or has left."""
        wish = waiter.wanted.wish
        line = self._lines.get(wish)
        if line is None or line.pop(waiter.number, None) is None:
            return
        self._count -= 1
        if not line:
            del self._lines[wish]
            self._unindex(wish)
        if len(self._deadlines) > 100 + 2 * self._count:  # those that were answered in time
            self._deadlines = [entry for entry in self._deadlines if self._waits(entry[2])]
            heapq.heapify(self._deadlines)

    def _waits(self, waiter: Waiter) -> bool:
        return waiter.number in self._lines.get(waiter.wanted.wish, ())

    def next_deadline(self) -> float | None:
        while self._deadlines and not self._waits(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now: float) -> list[Waiter]:
        found = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            waiter = self._deadlines[0][2]
            self.remove(waiter)
            found.append(waiter)
        return found

    def _index(self, wish: Wish) -> None:
        for table, key in self._places(wish):
            wishes = table.get(key)
            if wishes is None:
                wishes = table[key] = set()
                if table is self._by_prefix:
                    self._lengths[len(key)] = self._lengths.get(len(key), 0) + 1
            wishes.add(wish)

    def _unindex(self, wish: Wish) -> None:
        for table, key in self._places(wish):
            table[key].remove(wish)
            if not table[key]:
                del table[key]
                if table is self._by_prefix:
                    self._lengths[len(key)] -= 1
                    if not self._lengths[len(key)]:
                        del self._lengths[len(key)]

    def _places(self, wish: Wish) -> list[tuple[dict[str, set[Wish]], str]]:
        if wish.exact:
            return [(self._by_name, name) for name in wish.names]
        if wish.is_prefix:
            return [(self._by_prefix, wish.prefix)]
        return [(self._by_pattern, wish.names[0])]

    def wishes_for(self, names: Iterable[str], matches: Callable[[str, str], bool]) -> set[Wish]:
        found: set[Wish] = set()
        for name in dict.fromkeys(names):
            found |= self._by_name.get(name, _NONE)
            for length in self._lengths:
                found |= self._by_prefix.get(name[:length], _NONE)
            for pattern, wishes in self._by_pattern.items():
                if matches(name, pattern):
                    found |= wishes
        return found

    def all_wishes(self) -> set[Wish]:
        return set(self._lines)

    def serve(self, wishes: Iterable[Wish], attempt: Callable[[Waiter], bool]) -> list[Waiter]:
        """Let waiters with these wishes try, first come first, until there is nothing more for any of them.

        Returns the ones whose clients have gone, removed. A wish that could not be fulfilled for one waiter
        cannot be for the others of its line.
        """
        gone = []
        firsts = [(next(iter(self._lines[wish])), wish) for wish in wishes if wish in self._lines]
        order = [(number, index) for index, (number, _) in enumerate(firsts)]
        heapq.heapify(order)
        while order:
            number, index = heapq.heappop(order)
            wish = firsts[index][1]
            waiter = self._lines[wish][number]
            if waiter.connection.is_gone():
                gone.append(waiter)
            elif not attempt(waiter):
                continue
            self.remove(waiter)
            line = self._lines.get(wish)
            if line:
                heapq.heappush(order, (next(iter(line)), index))
        return gone


_NONE: frozenset[Wish] = frozenset()
