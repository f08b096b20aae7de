"""What clients do to jobs: put, cancel, delete, revive. Each function runs inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import NoWorkers
from headrace.records import NewJob, Put
from headrace.store import limits
from headrace.store.sql import admission, history, lanes, relations, schedules, stats
from headrace.store.sql.codes import (
    AFTER,
    BODY,
    CANCELLED,
    CANCELLING,
    DONE,
    EXPIRES,
    FAILED,
    HISTORY,
    LANED,
    LARGE_BODY,
    LARGE_RESULT,
    MORE,
    PRECEDES,
    RECURRING,
    RUNNING,
    TAGGED,
    TRACKED,
    UNIQUE,
)
from headrace.store.sql.lanes import Placement, find_job
from headrace.store.sql.sessions import live_listeners
from headrace.store.sql.transaction import EVERYONE, INLINE, Transaction, is_plain, plain_row


def _row(job: NewJob, now: int) -> tuple[object, ...]:
    """The same, of any job."""
    large = len(job.body) > INLINE
    flags = (
        (UNIQUE if job.unique_key is not None else 0)
        | (LARGE_BODY if large else 0)
        | (TAGGED if job.tags else 0)
        | (RECURRING if job.schedule is not None else 0)
        | (AFTER if relations.is_related(job) else 0)
        | (LANED if job.lane is not None else 0)
        | (EXPIRES if job.expires is not None else 0)
    )
    *common, _, _, options, _ = plain_row(job, now)
    return (*common, flags, b"" if large else job.body, options, job.unique_key)


def put(tx: Transaction, jobs: Sequence[NewJob]) -> list[Put]:
    limits.check_batch(jobs)
    roll_call(tx, jobs)
    lanes.check(tx, jobs)
    return bring_in(tx, jobs, tx.now)


def bring_in(tx: Transaction, jobs: Sequence[NewJob], now: int, parents: int = limits.MOST_PARENTS) -> list[Put]:
    """Insert jobs that were accepted `now`. One that comes after more than so many `parents` waits for more links."""
    if not tx.listened and all(map(is_plain, jobs)):
        return put_plain(tx, jobs, now)
    _note_work(tx, jobs)
    answers = [_put_one(tx, job, now, parents) for job in jobs]
    relations.work_off(tx)
    return answers


def put_plain(tx: Transaction, jobs: Sequence[NewJob], now: int) -> list[Put]:
    """Insert jobs that are all plain."""
    if tx.listened:
        return bring_in(tx, jobs, now)
    _note_work(tx, jobs)
    tx.change_many("put", [plain_row(job, now) for job in jobs])
    return [Put(job.id, True) for job in jobs]


def _note_work(tx: Transaction, jobs: Sequence[NewJob]) -> None:
    for job in jobs:
        tx.news(job.queue, 1 if job.run_at is None and not job.delay else EVERYONE)


def roll_call(tx: Transaction, jobs: Sequence[NewJob]) -> None:
    for queue, task in {(job.queue, job.task) for job in jobs if job.require_worker}:
        if not live_listeners(tx, queue, task):
            raise NoWorkers(f"No live worker listens to queue {queue!r} and knows task {task!r}. Nothing was enqueued.")


def _put_one(tx: Transaction, job: NewJob, now: int, parents: int) -> Put:
    if job.unique_key is not None:
        if find_job(tx, job.id) is not None:
            return Put(job.id, True)  # a repeat, whatever has become of the job or its key
        clash = make_way(tx, job)
        if clash is not None:
            return Put(clash, False)
    if tx.change("put", _row(job, now)):
        if tx.listened:
            tx.happened(tx.row(Placement, "placement_by_id", (job.id,)).seq, "created")
        if len(job.body) > INLINE:
            tx.execute("blob_put", (job.id, BODY, job.body))
        for tag in job.tags:
            tx.execute("tag_add", (job.id, tag))
        if job.schedule is not None:
            schedules.note(tx, job)
        if job.data is not None:
            tx.execute("set_data", (job.id, job.data))
        if job.expires is not None or job.lane is not None or relations.is_related(job):
            place = tx.row(Placement, "placement_by_id", (job.id,))
            if job.expires is not None:
                admission.let_expire(tx, place, job.expires)
            relations.arrive(tx, place, job, parents)
    if job.unique_key is not None:
        until = None if job.unique_for is None else now + job.unique_for
        tx.execute("unique_take", (job.unique_key, until, job.id))
    return Put(job.id, True)


def make_way(tx: Transaction, job: NewJob) -> str | None:
    """Clear the way for a unique job, or name the job that stands in it."""
    holder = tx.maybe_row(relations.KeyHolder, "unique_holder", (job.unique_key,))
    if holder is not None and (holder.state < DONE or (holder.until is not None and holder.until > tx.now)):
        if not job.replace or holder.state == RUNNING or holder.state >= DONE:
            return holder.id
        tx.happened(holder.seq, "deleted", "replaced")
        remove(tx, holder.seq, holder.state, holder.flags)
    return None


def cancel(tx: Transaction, ids: Sequence[str]) -> list[bool]:
    answers = [_cancel_one(tx, job_id) for job_id in ids]
    relations.work_off(tx)
    return answers


def _cancel_one(tx: Transaction, job_id: str) -> bool:
    job = find_job(tx, job_id)
    if job is None:
        return False
    seq, state, flags = job.seq, job.state, job.flags
    if state == RUNNING:
        tx.execute("cancel_running", (seq,))
        tx.stop = True
        if not flags & CANCELLING:
            tx.happened(seq, "cancelling")
    elif state == DONE:
        return False
    elif state != CANCELLED:
        if state == FAILED:
            history.remember_end(tx, seq, "failed")
        tx.execute("cancel_waiting", (seq, tx.now))
        history.remember_sudden_end(tx, seq, "cancelled")
        tx.happened(seq, "cancelled")
        tx.ended.append(job_id)
        if state < DONE:
            admission.ended(tx, job, CANCELLED)
    return True


def delete(tx: Transaction, ids: Sequence[str], why: str = "") -> list[bool]:
    answers = [_delete_one(tx, job_id, why) for job_id in ids]
    relations.work_off(tx)
    return answers


def _delete_one(tx: Transaction, job_id: str, why: str) -> bool:
    job = find_job(tx, job_id)
    if job is None:
        return False
    tx.happened(job.seq, "deleted", why)
    remove(tx, job.seq, job.state, job.flags)
    tx.ended.append(job_id)
    tx.stop = tx.stop or job.state == RUNNING
    return True


def remove(tx: Transaction, seq: int, state: int, flags: int) -> None:
    """A job goes; if it is done, its durations stay in the statistics."""
    if state == DONE:
        stats.fold(tx, tx.rows("times_of", (seq,)))
    erase(tx, seq, flags)


def erase(tx: Transaction, seq: int, flags: int) -> None:
    """Remove all trace of a job. Its flags say where there are traces."""
    if flags & (AFTER | PRECEDES | LANED | RECURRING):
        admission.removed(tx, seq)
    tx.execute("delete_job", (seq,))
    if flags & HISTORY:
        tx.execute("delete_history", (seq,))
    if flags & UNIQUE:
        tx.execute("delete_unique", (seq,))
    if flags & (LARGE_BODY | LARGE_RESULT):
        tx.execute("delete_blobs", (seq,))
    if flags & TAGGED:
        tx.execute("delete_tags", (seq,))
    if flags & TRACKED:
        tx.execute("untrack", (seq,))
    if flags & MORE:
        tx.execute("delete_more", (seq,))
    if flags & EXPIRES:
        tx.execute("expiry_delete", (seq,))


def revive(tx: Transaction, ids: Sequence[str]) -> list[bool]:
    answers = relations.revive(tx, ids)
    relations.work_off(tx)
    return answers
