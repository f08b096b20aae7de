"""Admission: the one way into line, and the one way out, for jobs that are more than plain."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.store.sqlite import lanes, schedules
from headrace.store.sqlite.codes import AFTER, BLOCKED, DONE, LANED, PRECEDES, READY, RECURRING, REMOVED, SCHEDULED
from headrace.store.sqlite.lanes import Placement, placement
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import EVERYONE, Transaction


def enter(tx: Transaction, job: Placement, due: int, *, was_due: bool = False) -> None:
    """Where a job that wants to run goes. `was_due`: it is given back, and stands in line whatever the clock says."""
    later = due > tx.now and not was_due
    tx.news(job.queue, EVERYONE if later else 1)
    if job.flags & AFTER and tx.rows(SQL["has_edges"], (job.seq,)):
        tx.execute(SQL["stand"], (job.seq, BLOCKED, due))
        if job.flags & LANED:
            lanes.admit(tx, job.seq, job.queue)
    elif job.flags & LANED:
        lanes.enter(tx, job, due, later)
    else:
        tx.execute(SQL["stand"], (job.seq, SCHEDULED if later else READY, due))


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
        tx.execute(SQL["ended_note"], (job.seq, job.id, how))
    if job.flags & LANED:
        lanes.part(tx, job.seq, job.queue)
    if job.flags & RECURRING:
        schedules.hear(tx, job.seq)


def removed(tx: Transaction, seq: int) -> None:
    """A job is about to be removed, from whatever state."""
    job = placement(tx, seq)
    if job.flags & AFTER:
        tx.execute(SQL["edges_delete"], (seq,))
        tx.execute(SQL["culprits_delete"], (seq,))
        tx.execute(SQL["followers_delete"], (seq,))
        tx.execute(SQL["relation_delete"], (seq,))
    if job.flags & PRECEDES:
        tx.execute(SQL["ended_note"], (seq, job.id, DONE if job.state == DONE else REMOVED))
    if job.flags & LANED:
        if job.state < DONE:
            lanes.part(tx, seq, job.queue)
        tx.execute(SQL["laned_delete"], (seq,))
    if job.flags & RECURRING:
        if job.state < DONE:
            schedules.hear(tx, seq)
        tx.execute(SQL["delete_recurring"], (seq,))


DUE_AT_ONCE = 1_000
OWN_QUEUES = 100
"""So many of the queues that a worker names come before all others when jobs fall due."""


def promote(tx: Transaction, own: Sequence[str]) -> None:
    """Move what has fallen due into line, in bounded steps, so that no queue of the worker waits behind all others.

    Jobs of lanes come first, as these ask their lanes.
    """
    found = tx.rows(SQL["laned_due"], (tx.now, DUE_AT_ONCE))
    for (seq,) in found:
        lanes.fall_due(tx, placement(tx, seq))
    if len(found) < DUE_AT_ONCE:
        left = DUE_AT_ONCE
        for queue in own[:OWN_QUEUES]:
            tx.execute(SQL["promote_queue"], (tx.now, queue, DUE_AT_ONCE // min(len(own), OWN_QUEUES)))
            left -= tx.connection.changes()
        tx.execute(SQL["promote"], (tx.now, left))
