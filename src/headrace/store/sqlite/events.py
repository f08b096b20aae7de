"""Events for subscribers.

Events are written only while there is a subscriber. Each read of events says until when its client subscribes: in the
map of waiters, where writers see it without a query. Where no map can be had, it is a row.
"""

from __future__ import annotations

from headrace.store.facets import Batch, EventRecord
from headrace.store.sqlite.database import Transaction
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.wakeup import LISTENS, Wakeups, lasts

KEPT = 10_000
"""How many events are kept."""
_SOON = 50_000
"""Where the time is a row, it is written anew when no more than this is left."""


def is_listened(tx: Transaction) -> bool:
    """Whether there is a subscriber, as the database knows."""
    until = tx.maybe_value(SQL["audience_get"])
    return until is not None and lasts(until, tx.steady)


def _stay(tx: Transaction, wakeups: Wakeups, *, may_write: bool) -> bool:
    """A subscriber stays. False: to say so takes a write transaction."""
    until = tx.steady + LISTENS
    if wakeups.listen(until):
        return True
    if may_write:
        tx.execute(SQL["audience_set"], (until,))
        return True
    said: int | None = tx.maybe_value(SQL["audience_get"])
    return said is not None and tx.steady + _SOON < said <= until


def listen(tx: Transaction, wakeups: Wakeups, *, may_write: bool) -> str | None:
    """The cursor to begin with. None: this takes a write transaction."""
    return str(newest(tx)) if _stay(tx, wakeups, may_write=may_write) else None


def read(tx: Transaction, cursor: str, limit: int, wakeups: Wakeups, *, may_write: bool) -> Batch | None:
    """What happened since. None: this takes a write transaction."""
    if not _stay(tx, wakeups, may_write=may_write):
        return None
    last, after = newest(tx), int(cursor)
    missed = not tx.listened or after > last  # this is not the file that the cursor is from
    after = 0 if after > last else after
    numbers, events = [], []
    for number, at, what, job, task, queue, worker, detail, tracked in tx.rows(SQL["event_read"], (after, limit)):
        numbers.append(number)
        events.append(EventRecord(at, what, job, task, queue, worker, detail, tracked == 1))
    missed = missed or min(numbers, default=last + 1) > after + 1
    return Batch(events, str(max(numbers, default=last)), missed)


def newest(tx: Transaction) -> int:
    """The number of the newest event there ever was."""
    return tx.maybe_value(SQL["event_newest"]) or 0


def record(tx: Transaction) -> None:
    """Write down what happened in a transaction."""
    tx.connection.executemany(SQL["event_put"], tx.happenings)
    tx.execute(SQL["event_drop"], (tx.connection.last_insert_rowid() - KEPT,))


def forgotten(tx: Transaction) -> bool:
    """Whether there are events and no subscriber is left. (`tx` must know whether there is one.)"""
    return not tx.listened and bool(tx.rows(SQL["event_any"]))
