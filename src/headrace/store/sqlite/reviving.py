"""Failed and cancelled jobs come back: by hand, or with the job because of which they failed."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.store.sqlite import admission, history, lanes, relations
from headrace.store.sqlite.codes import AFTER, CANCELLED, DONE, FAILED, LANED, PRECEDES, REVIVED, UNIQUE
from headrace.store.sqlite.lanes import Placement
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import Transaction


def revive(tx: Transaction, ids: Sequence[str]) -> list[bool]:
    """In the order of arrival: one that comes after another of them waits for it."""
    found = {row[1]: Placement(*row) for job_id in ids for row in tx.rows(SQL["placement_by_id"], (job_id,))}
    revived = {job.id for job in sorted(found.values()) if _revive_one(tx, job)}
    answers = []
    for job_id in ids:
        answers.append(job_id in revived)
        revived.discard(job_id)  # named twice, it had ended only the first time
    return answers


def _revive_one(tx: Transaction, job: Placement) -> bool:
    if job.state not in (FAILED, CANCELLED) or key_is_taken(tx, job):
        return False
    if job.flags & AFTER:
        relations.drop_ended(tx, job.seq)
    bring_back(tx, job, tx.now)
    return True


def key_is_taken(tx: Transaction, job: Placement) -> bool:
    """A job that lost its key to a newer one comes back without it, but not beside it."""
    if not job.flags & UNIQUE:
        return False
    key = tx.rows(SQL["by_id"], (job.id,))[0][4]
    holder = tx.rows(SQL["unique_holder"], (key,))
    return bool(holder) and holder[0][0] != job.seq and holder[0][2] < DONE


def bring_back(tx: Transaction, job: Placement, due: int) -> int:
    """Into line again, as if it were new. What failed because of it follows.

    Answers with how many jobs it comes after: so many have been looked up.
    """
    history.remember_end(tx, job.seq, "failed" if job.state == FAILED else "cancelled")
    tx.execute(SQL["remember"], (job.seq, tx.now, "revived", "", ""))
    tx.execute(SQL["revive"], (job.seq, due))
    tx.happened(job.seq, "revived")
    tx.news(job.queue)
    parents = relations.follow_again(tx, job.seq) if job.flags & AFTER else 0
    if job.flags & PRECEDES:
        tx.execute(SQL["ended_note"], (job.seq, job.id, REVIVED))
    if job.flags & LANED:
        lanes.join(tx, job.seq, job.queue)
    if job.flags & (AFTER | LANED):
        admission.enter(tx, lanes.placement(tx, job.seq), due)
    return parents
