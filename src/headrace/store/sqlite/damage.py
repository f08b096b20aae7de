"""Damaged jobs, whose rows were changed by another program, are set aside when a request stumbles over one."""

from __future__ import annotations

import msgspec

from headrace.store import damaged
from headrace.store.sqlite import admission, dependents, history, stats
from headrace.store.sqlite.codes import DONE, FAILED, FAILURES, RUNNING, STATES
from headrace.store.sqlite.lanes import Placement
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import Transaction

SYMPTOMS = (LookupError, ValueError, TypeError, msgspec.MsgspecError)
"""What a request raises that believes such a row."""
AT_ONCE = 500


def nothing_to_set_aside(tx: Transaction) -> list[str] | None:
    """Asked first, in a read transaction: looking at all jobs keeps nobody from writing."""
    return None if tx.rows(SQL["damaged"], (1,)) else []


def set_aside(tx: Transaction) -> list[str]:
    """Look at all jobs, and let those that are damaged fail in their group, so many at most. Answers with their ids."""
    found = tx.rows(SQL["damaged"], (AT_ONCE,))
    for seq, job_id, queue, state, priority, due, flags, token in found:
        _set_aside(tx, Placement(seq, job_id, queue, state, priority, due, flags), token)
    dependents.work_off(tx)
    return [row[1] for row in found]


def _set_aside(tx: Transaction, job: Placement, token: int) -> None:
    words = f"Its row in the table `job` says what cannot be: state {job.state}, flags {job.flags}, token {token}."
    tx.execute(SQL["damaged_parents"], (job.seq,))
    job = job._replace(flags=tx.rows(SQL["damaged_flags"], (job.seq,))[0][0])
    tx.execute(SQL["set_aside"], (job.seq, job.flags, tx.now, damaged.GROUP, damaged.error(words)))
    if job.state != RUNNING:
        history.remember_sudden_end(tx, job.seq, "failed", damaged.GROUP)
    tx.happened(job.seq, "failed", damaged.GROUP)
    tx.ended.append(job.id)
    stats.count(tx, job.queue, tx.now, FAILURES)
    if job.state < DONE or job.state not in STATES:
        admission.ended(tx, job, FAILED)
