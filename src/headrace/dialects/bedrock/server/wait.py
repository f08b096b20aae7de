"""Holds the GetJobs that found nothing, and answers them: a job has come, has fallen due, or their time is up.

Ten thousand of them cost memory, and nothing else. Waiters with the same wish stand in one line. Lines are found by the
name of a job that has become runnable: exact names and prefixes by looking them up, other patterns by matching each
distinct one once.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from headrace.dialects.bedrock.server.batch import Batch, Broken
from headrace.dialects.bedrock.server.connection import Connection
from headrace.dialects.bedrock.server.take import MOCKED, REAL, HandOut, Wanted, Wish, get_jobs, priorities
from headrace.dialects.bedrock.server.transaction import Transaction, read_text
from headrace.dialects.bedrock.times import read_moment
from headrace.dialects.bedrock.wire import Refused

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.server import Server

log = logging.getLogger("headrace.bedrock")

LOOK_AT_CLOCK = 0.5
"""Seconds, at most, between two looks for jobs that have fallen due, while a client waits."""
LARGEST_ANSWERS = 16_000_000
"""Bytes of answers in a batch after which no more waiters are served in it."""
_NONE: frozenset[Wish] = frozenset()
T = TypeVar("T")


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
        self._lengths: Counter[int] = Counter()
        """How many wishes have a prefix of which length: only these lengths of a name are looked up."""
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
            table.setdefault(key, set()).add(wish)
            if table is self._by_prefix:
                self._lengths[len(key)] += 1

    def _unindex(self, wish: Wish) -> None:
        for table, key in self._places(wish):
            table[key].remove(wish)
            if not table[key]:
                del table[key]
            if table is self._by_prefix:
                self._lengths -= Counter([len(key)])  # which forgets what is 0

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

    def serve(self, wishes: Iterable[Wish], attempt: Callable[[Waiter], bool]) -> None:
        """Let waiters with these wishes try, first come first, until there is nothing more for any of them.

        A wish that could not be fulfilled for one waiter cannot be for the others of its line.
        """
        order = [(next(iter(self._lines[wish])), wish) for wish in wishes if wish in self._lines]
        heapq.heapify(order)
        while order:
            number, wish = heapq.heappop(order)
            waiter = self._lines[wish][number]
            if attempt(waiter):
                self.remove(waiter)
                if line := self._lines.get(wish):
                    heapq.heappush(order, (next(iter(line)), wish))


class Waits:
    """The waiters of a server, and the timers that end their waits."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._waiters = Waiters()
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._due_timer: asyncio.TimerHandle | None = None
        self._looked = ""
        """Jobs that fell due up to this moment have been looked for."""
        self._rest: asyncio.Handle | None = None
        """Serves those that were passed over because the answers of a batch had become large."""

    def __len__(self) -> int:
        return len(self._waiters)

    def hold(self, batch: Batch, waiter: Waiter) -> None:
        """A GetJob has found nothing, and waits."""
        if not self._waiters:
            self._looked = batch.transaction.now
        waiter.connection.waiter = waiter
        self._waiters.add(waiter)

    def withdraw(self, waiter: Waiter) -> None:
        self._waiters.remove(waiter)
        waiter.connection.waiter = None

    def answer(self, batch: Batch, waiter: Waiter, answer: HandOut | Refused, *, last: bool = False) -> None:
        """End a wait, with jobs or without."""
        connection = waiter.connection
        connection.waiter = None
        if isinstance(answer, HandOut):
            batch.succeed(connection, answer.body, answer.ids)
        else:
            batch.refuse(connection, answer, last=last)
        self._server.wake(connection)

    def end(self, batch: Batch) -> None:
        for waiter in self._waiters:
            self._waiters.remove(waiter)
            self.answer(batch, waiter, Refused("303 Timeout"), last=True)

    def close(self) -> None:
        for timer in (self._deadline_timer, self._due_timer, self._rest):
            if timer is not None:
                timer.cancel()

    def serve(self, batch: Batch, tx: Transaction) -> None:
        """Let waiters try. A hand-out may itself make jobs runnable: they follow when it is done."""
        while tx.runnable or tx.woken:
            names, woken = tx.runnable, tx.woken
            tx.runnable, tx.woken = [], False
            if self._waiters:
                wishes = self._waiters.all_wishes() if woken else self._waiters.wishes_for(names, tx.matches)
                self._waiters.serve(wishes, lambda waiter: self._try(batch, waiter))

    def _try(self, batch: Batch, waiter: Waiter) -> bool:
        """Take jobs for a waiter; False if there are none for it. One whose client has gone waits no longer."""
        if waiter.connection.is_gone():
            waiter.connection.waiter = None
            return True
        if batch.size > LARGEST_ANSWERS:
            self.look_again()
            return False
        try:
            found = batch.run(lambda tx: get_jobs(tx, waiter.wanted))
        except Refused as refused:
            self.answer(batch, waiter, refused)
            return True
        if found is not None:
            self.answer(batch, waiter, found)
        return found is not None

    def look_again(self) -> None:
        """Let all waiters try in a batch of their own, soon."""
        if self._rest is None:
            self._rest = self._server.loop.call_soon(self._serve_rest)

    def _serve_rest(self) -> None:
        self._rest = None
        if self._waiters:
            self._run(Transaction.wake_all)

    def set_timers(self) -> None:
        loop = self._server.loop
        deadline = self._waiters.next_deadline()
        if deadline is not None and (self._deadline_timer is None or self._deadline_timer.when() > deadline):
            if self._deadline_timer is not None:
                self._deadline_timer.cancel()
            self._deadline_timer = loop.call_at(deadline, self._expire)
        if self._waiters and self._due_timer is None:
            self._due_timer = loop.call_later(0, self._look_at_clock)

    def _expire(self) -> None:
        self._deadline_timer = None
        batch = Batch(self._server)
        for waiter in self._waiters.expired(self._server.loop.time()):
            self.answer(batch, waiter, Refused("303 Timeout"))
        batch.finish()
        self.set_timers()

    def _look_at_clock(self) -> None:
        """Jobs may have fallen due since the last look: their waiters get them."""
        self._due_timer = None
        if not self._waiters or self._server.stopping:
            return
        pause = self._run(self._fallen_due)
        self._due_timer = self._server.loop.call_later(LOOK_AT_CLOCK if pause is None else pause, self._look_at_clock)

    def _run(self, look: Callable[[Transaction], T]) -> T | None:
        """Look for jobs in a batch of its own, which serves their waiters."""
        if self._server.paused:  # all waiters are served when this ends
            return None
        batch = Batch(self._server)
        found = None
        try:
            found = batch.run(look)
        except Refused as error:
            log.warning("could not look for jobs that are due: %s", error)
        except Broken as error:
            batch.give_up(error)
        batch.finish()
        return found

    def _fallen_due(self, tx: Transaction) -> float:
        """Name the jobs that fell due since the last look; returns the seconds until the next one."""
        since = min(self._looked, tx.now)  # the clock may have been set back
        self._looked = tx.now
        pause = LOOK_AT_CLOCK
        now = read_moment(tx.now)
        assert now is not None
        for kind in (REAL, MOCKED):
            for priority in priorities(tx, None, "top_priority", kind):
                tx.runnable += [read_text(name) for (name,) in tx.rows("fallen_due", kind, priority, since, tx.now)]
                following = tx.value("next_due", kind, priority, tx.now)
                moment = None if following is None else read_moment(read_text(following))
                if moment is not None:
                    pause = min(pause, max((moment - now).total_seconds(), 0.001))
        return pause
