"""What clients do to jobs: put, cancel, delete. Each function runs inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from headrace.errors import NoWorkers
from headrace.records import NewJob, Put
from headrace.store import limits
from headrace.store.sql import admission, dependents, history, lanes, relations
from headrace.store.sql.codes import (
    AFTER,
    BODY,
    CANCELLED,
    CANCELLING,
    DONE,
    EXPIRES,
    FAILED,
    INLINE,
    LANED,
    LARGE_BODY,
    MORE,
    RECURRING,
    RUNNING,
    TAGGED,
    UNIQUE,
)
from headrace.store.sql.sessions import listeners
from headrace.store.sql.transaction import EVERYONE, Transaction, is_plain, plain_row
from headrace.store.sql.working_set import Job, Recurrence, WorkingSet


class _More(msgspec.Struct):
    """The map in `more`, as far as a put reads it."""

    nonce: str | None = None


_read_more = msgspec.json.Decoder(_More).decode


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
        | (MORE if job.nonce is not None else 0)
    )
    *common, _, _, options, _ = plain_row(job, now)
    return (*common, flags, b"" if large else job.body, options, job.unique_key)


def put(tx: Transaction, jobs: Sequence[NewJob]) -> list[Put]:
    limits.check_batch(jobs)
    roll_call(tx, jobs)
    work = WorkingSet(tx)
    lanes.check(work, jobs)
    return bring_in(work, jobs, tx.now)


def bring_in(work: WorkingSet, jobs: Sequence[NewJob], now: int, parents: int = limits.MOST_PARENTS) -> list[Put]:
    """Insert jobs that were accepted `now`. One that comes after more than so many `parents` waits for more links."""
    tx = work.tx
    if not tx.listened and all(map(is_plain, jobs)):
        return put_plain(tx, jobs, now)
    _note_work(tx, jobs)
    answers: list[Put] = []
    some_ended = False
    while len(answers) < len(jobs):
        with work:
            answers += _put_some(work, jobs[len(answers) :], now, parents)
        some_ended |= work.has_ended_some
        if len(answers) < len(jobs):
            work = WorkingSet(tx)
    if some_ended:
        dependents.work_off(tx)
    return answers


def put_plain(tx: Transaction, jobs: Sequence[NewJob], now: int) -> list[Put]:
    """Insert jobs that are all plain."""
    if tx.listened:
        return bring_in(WorkingSet(tx), jobs, now)
    _note_work(tx, jobs)
    tx.change_many("put", [plain_row(job, now) for job in jobs])
    return [Put(job.id, True) for job in jobs]


def _note_work(tx: Transaction, jobs: Sequence[NewJob]) -> None:
    queues = tx.queues
    for job in jobs:
        queue = job.queue
        if job.run_at is None and not job.delay:
            queues[queue] = queues.get(queue, 0) + 1
            if job.priority > 0:
                tx.urgent[queue] = max(job.priority, tx.urgent.get(queue, 0))
        else:
            queues[queue] = EVERYONE


def roll_call(tx: Transaction, jobs: Sequence[NewJob]) -> None:
    for queue, task in {(job.queue, job.task) for job in jobs if job.require_worker}:
        if not listeners(tx, queue, task):
            raise NoWorkers(f"No live worker listens to queue {queue!r} and knows task {task!r}. Nothing was enqueued.")


def _put_some(work: WorkingSet, jobs: Sequence[NewJob], now: int, parents: int) -> list[Put]:
    """Insert the first of these jobs: all of them, but for what has to wait until those are there."""
    _load_before(work, jobs, parents)
    replaced: dict[str, Job] = {}
    clashes = clashing(work.tx, (job for job in jobs if work.is_held(job.id)))
    answers = _verdicts(work, jobs, replaced, clashes)
    new = {job.id: job for job, put in zip(jobs, answers, strict=False) if put.created and not work.is_held(job.id)}
    came = work.put({job.id: _row(job, now) for job in new.values()}) if new else []
    if came:
        _load_around_new(work, [new[job.id] for job in came], list(replaced.values()), parents)
    for job in came:
        if (other := replaced.get(job.id)) is not None:
            work.happened(other, "deleted", "replaced")
            admission.remove(work, other)
        _arrive(work, job, new[job.id], now, parents)
    if work.changes:
        return [replace(put, changed=work.changes.get(put.id, "")) for put in answers]
    return answers


Named = tuple[str, str | None]
"""The id and the nonce of a put."""


def clashing(tx: Transaction, there: Iterable[NewJob]) -> set[Named]:
    """Of puts whose ids are there already, those whose ids belong to other jobs: these were put with other nonces."""
    named: set[Named] = {(job.id, job.nonce) for job in there if job.nonce is not None}
    if not named:
        return named
    ids = list({job_id for job_id, _ in named})
    return named - {(job_id, _nonce(kept)) for job_id, kept in tx.rows("mores", (tx.texts(ids),))}


def _nonce(kept: bytes) -> str | None:
    try:
        return _read_more(kept).nonce
    except ValueError:  # another program has written it
        return None


def _load_before(work: WorkingSet, jobs: Sequence[NewJob], parents: int = 0) -> None:
    """What decides about new jobs: those that they come after, and those that have their chosen ids or unique keys."""
    named = [job.id for job in jobs if job.unique_key is not None or job.nonce is not None]
    named += [job_id for job in jobs if job.after for job_id in job.after[:parents]]
    if named:
        work.load_ids(named)
    keys = [job.unique_key for job in jobs if job.unique_key is not None]
    if keys:
        work.load(holder.job for holder in work.relations.load_holders(keys))


def _verdicts(work: WorkingSet, jobs: Sequence[NewJob], replaced: dict[str, Job], clashes: set[Named]) -> list[Put]:
    """Whether each may be put; one that makes way is added to `replaced`. Ends where an earlier one decides about the
    next: they have an id or a unique key in common, or the id of a job that makes way."""
    answers: list[Put] = []
    ids: set[str] = set()
    keys: set[str] = set()
    for job in jobs:
        if job.id in ids or job.unique_key in keys:
            break
        ids.add(job.id)
        if job.unique_key is not None:
            keys.add(job.unique_key)
        answers.append(Put(job.id, False) if (job.id, job.nonce) in clashes else _verdict(work, job, replaced))
        if (other := replaced.get(job.id)) is not None:
            ids.add(other.id)
    return answers


def _verdict(work: WorkingSet, job: NewJob, replaced: dict[str, Job]) -> Put:
    if job.unique_key is None or work.find(job.id) is not None:  # (a repeat, whatever has become of the job or its key)
        return Put(job.id, True)
    for holder in work.relations.load_holders([job.unique_key]):
        other = work.get(holder.job)
        if other is not None and (other.state < DONE or (holder.until is not None and holder.until > work.now)):
            if not job.replace or other.state == RUNNING or other.state >= DONE:
                return Put(other.id, False)
            replaced[job.id] = other
    return Put(job.id, True)


def with_free_keys(work: WorkingSet, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The same jobs, which are certain to be put: one that can't have its unique key comes without it."""
    _load_before(work, jobs)
    seen: set[str | None] = {None}
    found = []
    for job in jobs:
        taken = job.unique_key is not None and (job.unique_key in seen and not job.replace)
        found.append(replace(job, unique_key=None) if taken or not _verdict(work, job, {}).created else job)
        seen.add(job.unique_key)
    return found


def _load_around_new(work: WorkingSet, jobs: Sequence[NewJob], replaced: Sequence[Job], parents: int) -> None:
    """All that may change as jobs come in."""
    meant = dict.fromkeys((job.queue, job.lane.key) for job in jobs if job.lane is not None)
    if meant:
        work.lanes.make_all(meant)
        work.lanes.load_lines(meant, frozenset(), 1)
    failed = [
        parent.seq
        for job in jobs
        for parent_id in job.after[:parents]
        if (parent := work.find(parent_id)) is not None and parent.state == FAILED
    ]
    if failed:
        work.relations.load_failures(failed)
    if replaced:
        work.load_around(replaced)


def _arrive(work: WorkingSet, job: Job, new: NewJob, now: int, parents: int) -> None:
    """A job has been inserted: what belongs to it is written, and it finds its place."""
    work.happened(job, "created")
    if len(new.body) > INLINE:
        work.write("blob_put", job.seq, BODY, new.body)
    for tag in dict.fromkeys(new.tags):
        work.write("tag_add", job.seq, tag)
    if new.schedule is not None:
        work.write("recurring_put", job.seq, new.schedule, new.tick)
        work.add_recurrence(Recurrence(job.seq, new.schedule, new.tick, int(new.data is not None)))
    if new.nonce is not None:
        work.write("more_put", job.seq, msgspec.json.encode({"nonce": new.nonce}))
    if new.data is not None:
        work.write("data_set", job.seq, new.data)
    if new.unique_key is not None:
        work.relations.take_key(new.unique_key, job.seq, None if new.unique_for is None else now + new.unique_for)
    if new.expires is not None:
        admission.let_expire(work, job, new.expires)
    if new.expires is not None or new.lane is not None or relations.is_related(new):
        relations.arrive(work, job, new, parents)


def cancel(tx: Transaction, ids: Sequence[str]) -> list[bool]:
    with WorkingSet(tx) as work:
        jobs = work.load_ids(ids)
        work.load_around([job for job in jobs if job.state < DONE])
        work.load_last_lines(job for job in jobs if job.state == FAILED)
        answers = [_cancel_one(work, job_id) for job_id in ids]
    dependents.work_off(tx)
    return answers


def _cancel_one(work: WorkingSet, job_id: str) -> bool:
    job = work.find(job_id)
    if job is None:
        return False
    before = job.state
    if before == RUNNING:
        work.tx.stop = True
        if not job.flags & CANCELLING:
            job.flags |= CANCELLING
            work.happened(job, "cancelling")
    elif before == DONE:
        return False
    elif before != CANCELLED:
        if before == FAILED:
            history.remember_end(work, job)
        job.state, job.finished = CANCELLED, work.now
        history.remember_sudden_end(work, job, "cancelled")
        work.happened(job, "cancelled")
        work.tx.ended.append(job_id)
        if before < DONE:
            admission.ended(work, job, CANCELLED)
    return True


def delete(tx: Transaction, ids: Sequence[str], why: str = "") -> list[bool]:
    with WorkingSet(tx) as work:
        jobs = work.load_ids(ids)
        work.end_runs([job for job in jobs if job.state == RUNNING])
        work.load_around([job for job in jobs if job.state < DONE])
        answers = [_delete_one(work, job_id, why) for job_id in ids]
    dependents.work_off(tx)
    return answers


def _delete_one(work: WorkingSet, job_id: str, why: str) -> bool:
    job = work.find(job_id)
    if job is None:
        return False
    work.happened(job, "deleted", why)
    admission.remove(work, job)
    work.tx.ended.append(job_id)
    work.tx.stop = work.tx.stop or job.state == RUNNING
    return True


def by_arrival(tx: Transaction, ids: Sequence[str]) -> list[str]:
    """Each of these once, in the order of arrival; last those that there are not."""
    found = {job_id: seq for seq, job_id in tx.rows("seqs", (tx.texts(ids),))}
    return sorted(dict.fromkeys(ids), key=lambda job_id: found.get(job_id, 1 << 62))
