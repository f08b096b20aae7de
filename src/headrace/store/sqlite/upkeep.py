"""Upkeep that any process may do: ending dead sessions, purging what retention has given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.job import Ref, Swept
from headrace.store.sqlite import lanes, queues, relations
from headrace.store.sqlite import sessions as table
from headrace.store.sqlite.client import remove
from headrace.store.sqlite.sessions import sessions
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import CANCELLED, DONE, FAILED, Transaction
from headrace.store.sqlite.worker import take_away


class Retention:
    """How long ended jobs are kept: done ones by age and number, failed and cancelled ones likewise."""

    SESSIONS = 24 * 3_600_000

    def __init__(self, keep_done: int, keep_failed: int, keep_count: int) -> None:
        self.age = {DONE: keep_done, FAILED: keep_failed, CANCELLED: keep_failed}
        self.count = keep_count


_RETAINED = (DONE, FAILED, CANCELLED)
PURGE_STEP = 500


def _expired(tx: Transaction, state: int, retention: Retention, limit: int) -> list[Any]:
    before = tx.now - retention.age[state]
    surplus = tx.rows(SQL["surplus_before"], (state, retention.count))
    if surplus:
        before = max(before, surplus[0][0])
    return tx.rows(SQL["expired_jobs"], (state, before, limit))


def nothing_to_sweep(tx: Transaction, run_folder: str, retention: Retention) -> Swept | None:
    """Asked first, in a read transaction: an idle worker writes nothing."""
    if not all(session.alive for session in sessions(tx, run_folder)):
        return None
    if any(_expired(tx, state, retention, 1) for state in _RETAINED):
        return None
    if tx.rows(SQL["ended_first"]) or tx.rows(SQL["lanes_idle"], (tx.now, 1)):
        return None
    return Swept()


def close_session(tx: Transaction, session_id: str, crashed: Sequence[Ref] | None, run_folder: str) -> list[str]:
    """End a session, and tell those whom the end of its jobs concerns."""
    given_back = table.close_session(tx, session_id, crashed, take_away, run_folder)
    if given_back:
        queues.room_made(tx)
    relations.work_off(tx)
    return given_back


def sweep(tx: Transaction, run_folder: str, retention: Retention) -> Swept:
    closed = returned = purged = 0
    for session in sessions(tx, run_folder):
        if not session.alive:
            returned += len(table.close_session(tx, session.info.id, None, take_away, run_folder))
            closed += 1
    if returned:
        queues.room_made(tx)
    for state in _RETAINED:
        for seq, flags in _expired(tx, state, retention, PURGE_STEP):
            remove(tx, seq, flags)
            purged += 1
    tx.execute(SQL["sessions_forget"], (tx.now - Retention.SESSIONS,))
    more = relations.work_off(tx)
    more |= lanes.forget_idle(tx)
    return Swept(closed, returned, purged, more=more or purged >= PURGE_STEP)
