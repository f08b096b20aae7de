"""Events for subscribers.

Events are written only while there is a subscriber. Each read of events says until when its client subscribes: where
writers see it without a query, if a store has such a place, else in a row.
"""

from __future__ import annotations

from headrace.store import limits
from headrace.store.facets import Batch, EventRecord
from headrace.store.sql.transaction import Transaction

LISTENS = 60_000
"""For how many milliseconds a client that has read events counts as a subscriber."""
KEPT = 10_000
"""How many events are kept."""
_SOON = 50_000
"""Where the time is a row, it is written anew when no more than this is left."""


def lasts(until: int, now: int) -> bool:
    """Whether a subscriber that said so is still there. (Further ahead: from before the machine was started anew.)"""
    return now < until <= now + LISTENS


def is_listened(tx: Transaction) -> bool:
    """Whether there is a subscriber, as the database knows."""
    until = tx.maybe_value("audience_get")
    return until is not None and lasts(until, tx.steady)


def stay(tx: Transaction) -> None:
    """Write down that a subscriber stays."""
    tx.execute("audience_set", (tx.steady + LISTENS,))


def has_set(tx: Transaction, name: str, value: int | None) -> None:
    """Tell subscribers of a setting that changes; None: back to the default."""
    if tx.listened:
        tx.happenings.append((tx.now, "set", "", "", "", "", limits.what_is_set(name, value), 0))


def is_noted(tx: Transaction) -> bool:
    """Whether that was written down a moment ago."""
    said: int | None = tx.maybe_value("audience_get")
    return said is not None and tx.steady + _SOON < said <= tx.steady + LISTENS


def read(tx: Transaction, cursor: str, limit: int) -> Batch:
    """What happened since."""
    last, after = newest(tx), int(cursor)
    missed = not tx.listened or after > last  # this is not the file that the cursor is from
    after = 0 if after > last else after
    numbers, events = [], []
    for number, at, what, job, task, queue, worker, detail, tracked in tx.rows("event_read", (after, limit)):
        numbers.append(number)
        events.append(EventRecord(at, what, job, task, queue, worker, detail, tracked == 1))
    missed = missed or min(numbers, default=last + 1) > after + 1
    return Batch(events, str(max(numbers, default=last)), missed)


def newest(tx: Transaction) -> int:
    """The number of the newest event there ever was."""
    return tx.maybe_value("event_newest") or 0


def record(tx: Transaction) -> None:
    """Write down what happened in a transaction."""
    tx.change_many("event_put", tx.happenings)
    tx.execute("event_trim", (KEPT,))


def forgotten(tx: Transaction) -> bool:
    """Whether there are events and no subscriber is left. (`tx` must know whether there is one.)"""
    return not tx.listened and bool(tx.rows("event_any"))
