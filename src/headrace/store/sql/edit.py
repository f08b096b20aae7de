"""Changing jobs that wait, taking back those that run; tags, tracking and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.records import Expiry, Kind, Outcome
from headrace.store import limits
from headrace.store.facets import Edit
from headrace.store.sql import admission, history, lanes, relations
from headrace.store.sql.codes import AFTER, DONE, EXPIRES, RUNNING, TRACKED
from headrace.store.sql.lanes import Placement, find_job
from headrace.store.sql.settle import set_body, settle
from headrace.store.sql.transaction import Session, Transaction


def edit(tx: Transaction, ids: Sequence[str], change: Edit) -> list[bool]:
    answers = [_edit_one(tx, job_id, change) for job_id in ids]
    relations.work_off(tx)
    return answers


def depend(tx: Transaction, job_id: str, add: Sequence[str], remove: Sequence[str]) -> bool:
    waits = relations.depend(tx, job_id, add, remove)
    relations.work_off(tx)
    return waits


def _edit_one(tx: Transaction, job_id: str, change: Edit) -> bool:
    job = find_job(tx, job_id)
    if job is None or job.state == RUNNING or job.state >= DONE:
        return False
    tx.execute("edit", (job.seq, change.queue, change.priority, change.options, change.data))
    if change.body is not None:
        set_body(tx, job.seq, job_id, change.body)
    if change.expires is not None:
        job = _edit_expiry(tx, job, change.expires)
    history.edited(tx, job.seq, limits.what_changes(change))
    if (change.queue, change.priority, change.run_at, change.delay) == (None, None, None, None):
        return True
    queue = change.queue or job.queue
    due = _new_due(tx, job, change)
    admission.change_queue(tx, job, queue)
    priority = job.priority if change.priority is None else change.priority
    admission.enter(tx, job._replace(queue=queue, priority=priority), due)
    return True


def _edit_expiry(tx: Transaction, job: Placement, expires: Expiry) -> Placement:
    admission.let_expire(tx, job, expires)
    tx.execute("flag_expires", (job.seq, EXPIRES))
    waits = job.flags & AFTER and relations.waits(tx, job.seq)
    tx.execute("expiry_begin", (job.seq, None if waits else lanes.own_due(tx, job)))
    return job._replace(flags=job.flags | EXPIRES)


def _new_due(tx: Transaction, job: Placement, change: Edit) -> int:
    if change.run_at is None and change.delay is None:
        return lanes.own_due(tx, job)
    if job.flags & AFTER:
        waits = bool(tx.rows("has_edges", (job.seq,)))
        tx.execute("relation_delay", (job.seq, change.delay if waits else None))
    return change.run_at if change.run_at is not None else tx.now + (change.delay or 0)


class _Held(NamedTuple):
    """A job that runs."""

    seq: int
    token: int
    session: int


def take_back(tx: Transaction, ids: Sequence[str]) -> list[bool]:
    answers = [_take_back_one(tx, job_id) for job_id in ids]
    relations.work_off(tx)
    return answers


def _take_back_one(tx: Transaction, job_id: str) -> bool:
    held = tx.maybe_row(_Held, "running_by_id", (job_id,))
    if held is None:
        return False
    session = tx.row(Session, "session_by_seq", (held.session,))
    settle(tx, session, Outcome(ref=held.seq, token=held.token, id=job_id, kind=Kind.RELEASED), 0, what="taken back")
    tx.execute("bump_token", (held.seq,))
    tx.stop = True
    return True


def tag(tx: Transaction, ids: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> list[bool]:
    """Change the words on jobs; one that is both removed and added stays."""
    known = []
    for job_id in ids:
        job = find_job(tx, job_id)
        known.append(job is not None)
        if job is not None:
            for word in remove:
                tx.execute("tag_remove", (job.seq, word))
            for word in add:
                tx.execute("tag_add", (job_id, word))
            tx.execute("tag_mark", (job.seq,))
    return known


def track(tx: Transaction, ids: Sequence[str], on: bool) -> list[bool]:
    known = []
    for job_id in ids:
        job = find_job(tx, job_id)
        known.append(job is not None)
        if job is not None:
            tx.execute("track" if on else "untrack", (job.seq,))
            tx.execute("track_mark", (job.seq, TRACKED if on else 0))
    return known


def set_settings(tx: Transaction, changes: dict[str, int | None]) -> None:
    for name, value in changes.items():
        if value is None:
            tx.execute("setting_unset", (name,))
        else:
            tx.execute("setting_set", (name, value))
