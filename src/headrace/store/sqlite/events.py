"""Events, and whether anybody listens to them.

Nothing is written for nobody: whoever reads events says until when it listens, in the map of the bells, where writers
see it without a query. A database in memory has but one process, which remembers. Where no bells can be hung it is
a row.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.store.facets import Batch, EventRecord
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import Transaction
from headrace.store.sqlite.wakeup import WaiterMap
from headrace.values.clock import Clock

KEPT = 10_000
"""How many events are kept."""
LISTENS = 60_000
"""For how many milliseconds somebody who has read events counts as listening."""
_SOON = 50_000
"""Where that is a row, it is written anew when no more than this is left."""


class Audience:
    """Those who listen to one database."""

    def __init__(self, bells: Callable[[], WaiterMap | None], in_memory: bool) -> None:
        self._bells = bells
        self._in_memory = in_memory
        self._until = 0

    def anybody(self, tx: Transaction) -> bool:
        """Whether anybody listens."""
        until = self._seen_until()
        if until is None:
            rows = tx.rows(SQL["audience_get"])
            until = int(rows[0][0]) if rows else 0
        return _lasts(until, tx.steady)

    def surely_nobody(self, clock: Clock) -> bool:
        """Whether it can be told without a query that nobody listens."""
        if self._in_memory:
            until = self._until
        elif (bells := self._bells()) is not None:
            until = bells.listened_until
        else:
            return False
        return until == 0 or not _lasts(until, clock.steady())

    def _seen_until(self) -> int | None:
        """Until when somebody listens (0: nobody ever has), or None: it takes a query to know."""
        if self._in_memory:
            return self._until
        bells = self._bells()
        return None if bells is None else bells.listened_until

    def _stay(self, tx: Transaction, *, may_write: bool) -> bool:
        """Somebody goes on listening. False: to say so takes a write transaction."""
        until = tx.steady + LISTENS
        if self._in_memory:
            self._until = until
        elif (bells := self._bells()) is not None:
            bells.listened_until = until
        elif may_write:
            tx.execute(SQL["audience_set"], (until,))
        else:
            rows = tx.rows(SQL["audience_get"])
            return bool(rows) and tx.steady + _SOON < rows[0][0] <= until
        return True

    def listen(self, tx: Transaction, *, may_write: bool) -> str | None:
        """The cursor to begin with. None: this takes a write transaction."""
        return str(newest(tx)) if self._stay(tx, may_write=may_write) else None

    def read(self, tx: Transaction, cursor: str, limit: int, *, may_write: bool) -> Batch | None:
        """What happened since. None: this takes a write transaction."""
        listened = self.anybody(tx)
        if not self._stay(tx, may_write=may_write):
            return None
        last, after = newest(tx), int(cursor)
        missed = not listened or after > last  # this is not the file that the cursor is from
        after = 0 if after > last else after
        rows = tx.rows(SQL["event_read"], (after, limit))
        reached = rows[-1][0] if rows else last
        missed = missed or (rows[0][0] if rows else last + 1) > after + 1
        events = [
            EventRecord(at, what, job, task, queue, worker, detail, tracked == 1)
            for _, at, what, job, task, queue, worker, detail, tracked in rows
        ]
        return Batch(events, str(reached), missed)


def _lasts(until: int, now: int) -> bool:
    return now < until <= now + LISTENS  # later: from before the machine was started anew


def newest(tx: Transaction) -> int:
    """The number of the newest event there ever was."""
    rows = tx.rows(SQL["event_newest"])
    return int(rows[0][0]) if rows else 0


def record(tx: Transaction) -> None:
    """Write down what happened in a transaction."""
    tx.connection.executemany(SQL["event_put"], tx.happenings)
    tx.execute(SQL["event_drop"], (tx.connection.last_insert_rowid() - KEPT,))


def forgotten(tx: Transaction) -> bool:
    """Whether there are events that nobody listens to any more. (`tx` must know whether anybody does.)"""
    return not tx.listened and bool(tx.rows(SQL["event_any"]))
