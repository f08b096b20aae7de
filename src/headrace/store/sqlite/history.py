"""What is written down of a job that had more of a life than put, run, done."""

from __future__ import annotations

from headrace.job import Ref
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import Transaction


def remember_run(
    tx: Transaction, worker: str, seq: Ref, what: tuple[str, str], started: int | None, ended: int
) -> None:
    """A run has ended, and how. (`started` is left out where that is written down already.)"""
    if started is not None:
        tx.execute(SQL["remember"], (seq, started, "started", "", worker))
    tx.execute(SQL["remember"], (seq, ended, *what, worker))
    trim(tx, seq)


def remember_end(tx: Transaction, seq: int, ended: str) -> None:
    """Write down the run that ended and how, before its place in the job's head is used again."""
    tx.execute(SQL["remember_start"], (seq,))
    tx.execute(SQL["remember_end"], (seq, ended))
    tx.execute(SQL["mark_history"], (seq,))
    trim(tx, seq)


def edited(tx: Transaction, seq: int, what: str) -> None:
    """Somebody has changed a job that waits."""
    tx.execute(SQL["remember"], (seq, tx.now, "edited", what, ""))
    tx.execute(SQL["mark_history"], (seq,))
    trim(tx, seq)
    tx.happened(seq, "edited", what)


def trim(tx: Transaction, seq: Ref) -> None:
    tx.execute(SQL["trim_history"], (seq, tx.number("max-job-history")))
