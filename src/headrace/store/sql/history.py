"""What is written down of a job that had more of a life than put, run, done (see `told`)."""

from __future__ import annotations

from headrace.records import Ref
from headrace.store.sql.transaction import Transaction


def remember_run(tx: Transaction, worker: str, seq: Ref, what: tuple[str, str], started: int, ended: int) -> None:
    """A run has ended, and how."""
    tx.execute("remember", (seq, started, "started", "", worker))
    tx.execute("remember", (seq, ended, *what, worker))
    trim(tx, seq)


def remember_end(tx: Transaction, seq: int, ended: str) -> None:
    """Write down the run that ended and how, before its place in the job's head is used again."""
    if last_line(tx, seq) != ended:
        tx.execute("remember_start", (seq,))
        tx.execute("remember_end", (seq, ended))
        tx.execute("mark_history", (seq,))
        trim(tx, seq)


def remember_sudden_end(tx: Transaction, seq: int, ended: str, detail: str = "") -> None:
    """A job has ended while it waited. If it has run before, that run must not be taken for the one that ended so."""
    if tx.change("remember_sudden_end", (seq, tx.now, ended, detail)):
        tx.execute("mark_history", (seq,))
        trim(tx, seq)


def last_line(tx: Transaction, seq: Ref) -> str:
    """What was written down last of a job."""
    return tx.maybe_value("history_last", (seq,)) or ""


def edited(tx: Transaction, seq: int, what: str) -> None:
    """A job that waits has been changed."""
    tx.execute("remember", (seq, tx.now, "edited", what, ""))
    tx.execute("mark_history", (seq,))
    trim(tx, seq)
    tx.happened(seq, "edited", what)


def trim(tx: Transaction, seq: Ref) -> None:
    tx.execute("trim_history", (seq, tx.number("max-job-history")))
