"""Admission: the one way into line, and the one way out, for jobs that are more than plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.records import Expiry
from headrace.store import limits
from headrace.store.sql import history, lanes, schedules, stats
from headrace.store.sql.codes import (
    AFTER,
    BLOCKED,
    DONE,
    EXPIRES,
    FAILED,
    FAILURES,
    LANED,
    PRECEDES,
    READY,
    RECURRING,
    REMOVED,
    RUNNING,
    SCHEDULED,
)
from headrace.store.sql.lanes import Placement, placement
from headrace.store.sql.transaction import EVERYONE, Transaction


def enter(tx: Transaction, job: Placement, due: int, *, was_due: bool = False) -> None:
    """Where a job that wants to run goes. `was_due`: it is given back, and stands in line whatever the clock says."""
    later = due > tx.now and not was_due
    tx.news(job.queue, EVERYONE if later else 1)
    waits = bool(job.flags & AFTER and tx.rows("has_edges", (job.seq,)))
    if job.flags & EXPIRES:
        tx.execute("expiry_begin", (job.seq, None if waits else due))
    if waits:
        tx.execute("stand", (job.seq, BLOCKED, due))
        if job.flags & LANED:
            lanes.admit(tx, job.seq, job.queue)
    elif job.flags & LANED:
        lanes.enter(tx, job, due, later)
    else:
        tx.execute("stand", (job.seq, SCHEDULED if later else READY, due))


def end_of_run(tx: Transaction, job: Placement, queue: str, due: int, *, was_due: bool = False) -> None:
    """A job that ran wants to run again, perhaps in another queue."""
    change_queue(tx, job, queue)
    enter(tx, job._replace(queue=queue), due, was_due=was_due)


def change_queue(tx: Transaction, job: Placement, queue: str) -> None:
    """Out of its place in its lane; into the lane of the same key if the queue is another."""
    if job.flags & LANED:
        if queue == job.queue:
            lanes.step_out(tx, job.seq, queue)
        else:
            lanes.part(tx, job.seq, job.queue)
            lanes.join(tx, job.seq, queue)


def ended(tx: Transaction, job: Placement, how: int) -> None:
    """A job has come to an end: whom does that concern?"""
    if job.flags & PRECEDES:
        tx.execute("ended_note", (job.seq, job.id, how))
    if job.flags & LANED:
        lanes.part(tx, job.seq, job.queue)
    if job.flags & RECURRING:
        schedules.hear(tx, job.seq)
    if job.flags & EXPIRES:
        tx.execute("expiry_end", (job.seq,))


def fail(tx: Transaction, job: Placement, group: str, error: bytes) -> None:
    """A job fails without a run, or for what its run would wait for."""
    tx.execute("fail_waiting", (job.seq, tx.now, group, error))
    if job.state != RUNNING:
        history.remember_sudden_end(tx, job.seq, "failed", group)
    tx.happened(job.seq, "failed", group)
    tx.ended.append(job.id)
    stats.count(tx, job.queue, tx.now, FAILURES)
    ended(tx, job, FAILED)


def let_expire(tx: Transaction, job: Placement, expires: Expiry) -> None:
    """By when a job must have started. When it goes into line, `enter` works out when that is."""
    tx.execute("expiry_put", (job.seq, expires.at, expires.after, expires.at))


def expires_no_more(tx: Transaction, job: Placement) -> Placement:
    """A job has started, or was revived."""
    tx.execute("expiry_delete", (job.seq,))
    tx.execute("flag_expires", (job.seq, 0))
    return job._replace(flags=job.flags & ~EXPIRES)


def expire(tx: Transaction, found: Sequence[tuple[Any, ...]]) -> int:
    """Fail jobs that have not started in time, from rows of placements. Returns how many these are."""
    for row in found:
        fail(tx, Placement(*row), limits.EXPIRED, limits.own_error(limits.NOT_STARTED))
    return len(found)


def removed(tx: Transaction, seq: int) -> None:
    """A job is about to be removed, from whatever state."""
    job = placement(tx, seq)
    if job.flags & AFTER:
        tx.execute("edges_delete", (seq,))
        tx.execute("culprits_delete", (seq,))
        tx.execute("followers_delete", (seq,))
        tx.execute("relation_delete", (seq,))
    if job.flags & PRECEDES:
        tx.execute("ended_note", (seq, job.id, DONE if job.state == DONE else REMOVED))
    if job.flags & LANED:
        if job.state < DONE:
            lanes.part(tx, seq, job.queue)
        tx.execute("laned_delete", (seq,))
    if job.flags & RECURRING:
        if job.state < DONE:
            schedules.hear(tx, seq)
        tx.execute("delete_recurring", (seq,))


DUE_AT_ONCE = 1_000
LANED_AT_ONCE = 100
"""Jobs of lanes cost ten times as much, as their lanes decide."""


def promote(tx: Transaction, own: Sequence[str], any_lane: bool) -> None:
    """Move what has fallen due into line, in bounded steps.

    The worker's own queues come first, each with its share, so that none waits behind all others.
    """
    left, of_lanes = DUE_AT_ONCE, LANED_AT_ONCE
    for queue in own:
        left -= tx.change("promote_queue", (tx.now, queue, DUE_AT_ONCE // len(own)))
        if any_lane and of_lanes:
            share = min(of_lanes, max(1, LANED_AT_ONCE // len(own)))
            for row in tx.rows("lanes_due", (tx.now, queue, share)):
                lanes.fall_due(tx, Placement(*row))
                of_lanes -= 1
    tx.execute("promote", (tx.now, left))
    for (seq,) in tx.rows("laned_due", (tx.now, of_lanes)) if any_lane else ():
        lanes.fall_due(tx, placement(tx, seq))
