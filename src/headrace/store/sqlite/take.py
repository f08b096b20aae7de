"""Handing out where queues have lanes, limits or are paused: one by one where that matters."""

from __future__ import annotations

from typing import Any

from headrace.records import Take
from headrace.store.facets import QueueControl
from headrace.store.sqlite import lanes, queues
from headrace.store.sqlite.codes import LANED, SPARE
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import Transaction


def hand_out(tx: Transaction, values: tuple[int, ...], spare: int, queue: str, count: int) -> list[Any]:
    """The head of a queue's line. Read, then changed: quicker than an UPDATE that returns what it changed."""
    rows = tx.rows(SQL["line"], (spare, queue, count))
    if rows:
        tx.execute(SQL["take"], (*values, spare, queue, count))
    return rows


class Handing:
    """A take under way: what has been handed out so far, and how there is more."""

    def __init__(self, tx: Transaction, values: tuple[int, ...], take: Take, any_lane: bool) -> None:
        self._tx, self._values, self._take = tx, values, take
        self._controls = {said.queue: said for said in queues.controls(tx)}
        queues_with_lanes = take.queues if any_lane else ()
        self._laned = {queue for queue in queues_with_lanes if tx.rows(SQL["queue_has_lane"], (queue,))}
        self._taken: dict[int, int] = {}
        """How many jobs of which lane were handed out."""
        self._last = -1
        """The place of the queue that was served last."""
        self.rows: list[Any] = []
        """In the order in which they were handed out."""

    @property
    def needed(self) -> bool:
        """Whether any of the queues is more than a line of plain jobs."""
        return bool(self._laned) or any(queue in self._controls for queue in self._take.queues)

    def everything(self) -> list[Any]:
        take = self._take
        if take.round_robin:
            self._one_from_each(0, take.slots)
            self._one_from_each(SPARE, take.slots + take.spare)
        else:
            for spare, enough in ((0, take.slots), (SPARE, take.slots + take.spare)):
                for queue in take.queues:
                    while self._hand_out(queue, spare, enough - len(self.rows)) and queue in self._laned:
                        pass
        return self.rows

    def _one_from_each(self, spare: int, enough: int) -> None:
        order = self._take.queues
        skipped = 0
        while len(self.rows) < enough and skipped < len(order):
            place = (self._last + 1 + skipped) % len(order)
            if self._hand_out(order[place], spare, 1):
                self._last, skipped = place, 0
            else:
                skipped += 1

    def _hand_out(self, queue: str, spare: int, wanted: int) -> int:
        """Up to so many from one queue; a single one where each decides about the next. Answers how many."""
        said: QueueControl | None = self._controls.get(queue)
        if wanted <= 0 or (spare and said is not None and said.limit is not None):
            return 0
        wanted = queues.free(self._tx, said, wanted)
        if queue in self._laned:
            wanted = min(wanted, 1)
        if not wanted or (spare and self._lane_is_next(queue)):
            return 0
        rows = hand_out(self._tx, self._values, spare, queue, wanted)
        self.rows += rows
        for row in rows:
            if row[15] & LANED:
                lanes.start(self._tx, row[2], queue, self._taken, self._take.grace)
        return len(rows)

    def _lane_is_next(self, queue: str) -> bool:
        head = self._tx.rows(SQL["head"], (queue,)) if queue in self._laned else ()
        return bool(head and head[0][0] & LANED)
