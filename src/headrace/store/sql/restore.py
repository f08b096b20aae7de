"""Jobs that come from another store get their past: what they went through there, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.records import State
from headrace.store.facets import PARKED, Past
from headrace.store.sql import admission, dependents, history, lanes
from headrace.store.sql.codes import AFTER, DONE, DROPPED, FAILED, INLINE, LARGE_RESULT, RESULT, RUNNING, STATES
from headrace.store.sql.transaction import Transaction
from headrace.store.sql.working_set import Job, WorkingSet

AT_ONCE = 1_000
"""So many jobs get their past in one transaction: about 30 ms."""
_CODES = {state: code for code, state in STATES.items()}


def restore(tx: Transaction, pasts: Sequence[Past]) -> list[bool]:
    with WorkingSet(tx) as work:
        jobs = [job for job in work.load_ids([past.id for past in pasts]) if job.state < DONE]
        work.load_around(jobs)
        work.relations.load(job.seq for job in jobs if job.flags & AFTER)
        answers = [_restore_one(work, past) for past in pasts]
    dependents.work_off(tx)
    return answers


def _restore_one(work: WorkingSet, past: Past) -> bool:
    job = work.find(past.id)
    if job is None or not _is_parked(work, job, past):
        return False
    job.attempts, job.crashes, job.started = past.attempts, past.crashes, past.started
    job.error, job.failure = past.error, past.group
    job.flags |= DROPPED if past.result_dropped else 0
    large = past.result is not None and len(past.result) > INLINE
    if large:
        job.flags |= LARGE_RESULT
        work.write("blob_put", job.seq, RESULT, past.result)
    done, total = past.progress or (None, None)
    work.write("restore", job.seq, past.created, done, total, None if large else past.result)
    history.edited(work, job, "restored")
    if past.state is None:
        admission.change_queue(work, job, job.queue)
        admission.enter(work, job, past.due)
    else:
        _end(work, job, past, _CODES[past.state])
    return True


def _is_parked(work: WorkingSet, job: Job, past: Past) -> bool:
    if job.state == FAILED:  # with one that it comes after, since it was put
        return past.state is State.FAILED and job.due == PARKED
    return job.state != RUNNING and job.state < DONE and lanes.own_due(work, job) == PARKED


def _end(work: WorkingSet, job: Job, past: Past, how: int) -> None:
    had_ended = job.state >= DONE
    job.state, job.due, job.finished = how, past.due, work.now if past.finished is None else past.finished
    if how == FAILED:
        work.count_failure(job.queue, job.finished, job.failure)
    if not had_ended:
        work.tx.ended.append(job.id)
        admission.ended(work, job, how)
