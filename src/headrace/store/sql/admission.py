"""Admission: the one way into line, and the one way out, for jobs that are more than plain."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.records import Expiry
from headrace.store import limits
from headrace.store.sql import history, lanes, schedules
from headrace.store.sql.codes import (
    AFTER,
    BARRED,
    BLOCKED,
    DONE,
    EXPIRES,
    FAILED,
    LANED,
    LATER,
    PRECEDES,
    READY,
    RECURRING,
    REMOVED,
    SCHEDULED,
)
from headrace.store.sql.transaction import EVERYONE, Transaction
from headrace.store.sql.working_set import Job, WorkingSet
from headrace.values.names import same_traffic


def enter(work: WorkingSet, job: Job, due: int, *, was_due: bool = False) -> None:
    """Where a job that wants to run goes. `was_due`: it was due before, and is, whatever the clock says now."""
    later = due > work.now and not was_due
    job.flags = (job.flags & ~LATER) | (LATER if later else 0)
    work.tx.news(job.queue, EVERYONE if later else 1)
    if job.flags & BARRED:
        _unbar(work, job)
    waits = bool(job.flags & AFTER) and work.relations.waits(job.seq)
    if job.flags & EXPIRES:
        work.write("expiry_begin", job.seq, None if waits else due)
    if waits:
        job.state, job.due = BLOCKED, due
        if job.flags & LANED:
            lanes.admit(work, job)
    elif job.flags & LANED:
        lanes.enter(work, job, due, later)
    else:
        job.state, job.due = SCHEDULED if later else READY, due
    if job.state != BLOCKED:
        job.flags &= ~LATER


def is_later(work: WorkingSet, job: Job) -> bool:
    """Whether a job waits for its time: it was not due when that was last worked out."""
    if job.state == BLOCKED:
        return bool(job.flags & LATER)
    return job.state == SCHEDULED and not (job.flags & LANED and lanes.is_front(work, job))


def change_queue(work: WorkingSet, job: Job, queue: str) -> None:
    """Out of its place in its lane; into the lane of the same key if the queue is another. Test traffic stays that."""
    queue = same_traffic(job.queue, queue)
    if not job.flags & LANED:
        job.queue = queue
    elif queue == job.queue:
        lanes.step_out(work, job)
    else:
        lanes.part(work, job)
        job.queue = queue
        lanes.join(work, job)


def ended(work: WorkingSet, job: Job, how: int) -> None:
    """A job has come to an end: which others does that concern?"""
    if job.flags & PRECEDES:
        work.write("ended_note", job.seq, job.id, how)
    if job.flags & LANED:
        lanes.part(work, job)
    if job.flags & RECURRING:
        schedules.hear(work, job)
    if job.flags & EXPIRES:
        work.write("expiry_end", job.seq)
    if job.flags & BARRED:
        _unbar(work, job)


def fail(work: WorkingSet, job: Job, group: str, error: bytes, *, ran: bool = False) -> None:
    """A job fails without a run; or, if it `ran`, for what its run would wait for."""
    job.state, job.finished, job.error, job.failure = FAILED, work.now, error, group
    if not ran:
        history.remember_sudden_end(work, job, "failed", group)
    work.happened(job, "failed", group)
    work.tx.ended.append(job.id)
    work.count_failure(job.queue, work.now, group)
    ended(work, job, FAILED)


def let_expire(work: WorkingSet, job: Job, expires: Expiry) -> None:
    """By when a job must have started. When it goes into line, `enter` works out when that is."""
    work.write("expiry_put", job.seq, expires.at, expires.after, expires.at)
    job.flags |= EXPIRES


def expires_no_more(work: WorkingSet, job: Job) -> None:
    """A job has started, or was revived."""
    if job.flags & EXPIRES:
        work.write("expiry_delete", job.seq)
        job.flags &= ~EXPIRES


def expire(work: WorkingSet, job: Job) -> None:
    """A job has not started in time."""
    fail(work, job, limits.EXPIRED, limits.own_error(limits.NOT_STARTED))


def bar(work: WorkingSet, job: Job) -> None:
    """A job in line can't be handed out, because its task is blocked: it waits, with its own due time."""
    job.due = lanes.own_due(work, job)
    job.state = BLOCKED
    job.flags |= BARRED
    work.write("bar", job.seq, job.task)
    if job.flags & LANED:
        lanes.step_out(work, job)
        lanes.admit(work, job)


def _unbar(work: WorkingSet, job: Job) -> None:
    work.write("unbar", job.seq)
    job.flags &= ~BARRED


def remove(work: WorkingSet, job: Job) -> None:
    """A job goes, from whatever state. If it is done, its durations stay in the statistics."""
    if job.flags & PRECEDES:
        work.write("ended_note", job.seq, job.id, DONE if job.state == DONE else REMOVED)
    if job.state < DONE:
        if job.flags & LANED:
            lanes.part(work, job)
        if job.flags & RECURRING:
            schedules.hear(work, job)
    work.remove(job)


DUE_AT_ONCE = 1_000
LANED_AT_ONCE = 100
"""Jobs of lanes cost ten times as much, as their lanes decide."""


def promote(tx: Transaction, own: Sequence[str], any_lane: bool) -> None:
    """Move what has fallen due into line, in bounded steps.

    The worker's own queues come first, each with its share, so that none waits behind all others.
    """
    left, of_lanes = DUE_AT_ONCE, LANED_AT_ONCE
    due: list[int] = []
    for queue in own:
        left -= tx.change("promote_queue", (tx.now, queue, DUE_AT_ONCE // len(own)))
        if any_lane and len(due) < of_lanes:
            share = min(of_lanes - len(due), max(1, LANED_AT_ONCE // len(own)))
            due += [seq for (seq,) in tx.rows("lanes_due", (tx.now, queue, share))]
    tx.execute("promote", (tx.now, left))
    if any_lane:
        _fall_due(tx, due)
        _fall_due(tx, [seq for (seq,) in tx.rows("laned_due", (tx.now, of_lanes - len(due)))])


def _fall_due(tx: Transaction, seqs: Sequence[int]) -> None:
    if seqs:
        with WorkingSet(tx) as work:
            jobs = work.load(seqs)
            work.lanes.load(jobs)
            for job in jobs:
                lanes.fall_due(work, job)
