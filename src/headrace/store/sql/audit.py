"""What operators have done."""

from __future__ import annotations

from headrace.store import limits
from headrace.store.auditing import Act
from headrace.store.sql.transaction import Transaction

_BEYOND_ALL = 2**62


def note(tx: Transaction, who: str, what: str, about: str) -> None:
    tx.execute("audit_put", (tx.now, who, what, about))
    tx.execute("audit_trim", (limits.ACTS_KEPT,))
    tx.execute("audit_age", (limits.ACTS_IN_A_STEP, tx.now - limits.ACTS_KEPT_FOR))


def read(tx: Transaction, limit: int, before: str | None) -> list[Act]:
    rows = tx.rows("audit_read", (_BEYOND_ALL if before is None else int(before), limit))
    return [Act(str(seq), at, who, what, about) for seq, at, who, what, about in rows]
