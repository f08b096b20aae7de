"""Changing jobs that wait, taking back those that run; tags, tracking, what others add, and settings."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.records import Kind, Outcome
from headrace.store import limits
from headrace.store.facets import Edit
from headrace.store.sql import admission, dependents, events, history, lanes, queues, relations
from headrace.store.sql.codes import AFTER, DONE, LANED, RUNNING, TAGGED, TRACKED, UPDATED
from headrace.store.sql.outcomes import Holder, load, set_body, settle
from headrace.store.sql.transaction import Transaction
from headrace.store.sql.working_set import Job, WorkingSet
from headrace.values.names import same_traffic


def edit(tx: Transaction, ids: Sequence[str], change: Edit) -> list[bool]:
    with WorkingSet(tx) as work:
        jobs = [job for job in work.load_ids(ids) if _waits(job)]
        work.load_around(jobs)
        work.relations.load(job.seq for job in jobs if job.flags & AFTER)
        if change.queue is not None:
            laned = [job for job in jobs if job.flags & LANED]
            work.lanes.make_all(
                {(same_traffic(job.queue, change.queue), work.lanes.laned(job.seq).key) for job in laned}
            )
        answers = [_edit_one(work, job_id, change) for job_id in ids]
    dependents.work_off(tx)
    return answers


def _waits(job: Job) -> bool:
    return job.state != RUNNING and job.state < DONE


def depend(tx: Transaction, job_id: str, add: Sequence[str], remove: Sequence[str]) -> bool:
    waits = relations.depend(tx, job_id, add, remove)
    dependents.work_off(tx)
    return waits


def _edit_one(work: WorkingSet, job_id: str, change: Edit) -> bool:
    job = work.find(job_id)
    if job is None or not _waits(job):
        return False
    if change.options is not None or change.data is not None:
        work.write("edit", job.seq, change.options, change.data)
    if change.body is not None:
        set_body(work, job, change.body)
    if change.expires is not None:
        admission.let_expire(work, job, change.expires)
        waits = job.flags & AFTER and work.relations.waits(job.seq)
        work.write("expiry_begin", job.seq, None if waits else lanes.own_due(work, job))
    moves = (change.queue, change.priority, change.run_at, change.delay) != (None, None, None, None)
    due = _new_due(work, job, change) if moves else job.due
    was_due = change.run_at is None and change.delay is None and not admission.is_later(work, job)
    if moves:
        admission.change_queue(work, job, change.queue or job.queue)
    if change.priority is not None:
        job.priority = change.priority
    history.edited(work, job, limits.what_changes(change))
    if moves:
        admission.enter(work, job, due, was_due=was_due)
    return True


def _new_due(work: WorkingSet, job: Job, change: Edit) -> int:
    if change.run_at is None and change.delay is None:
        return lanes.own_due(work, job)
    if job.flags & AFTER and (relation := work.relations.get(job.seq)) is not None:
        relation.delay = change.delay if work.relations.waits(job.seq) else None
    return change.run_at if change.run_at is not None else work.now + (change.delay or 0)


def take_back(tx: Transaction, ids: Sequence[str], to: str | None) -> list[bool]:
    answers = []
    with WorkingSet(tx) as work:
        jobs = [job for job in work.load_ids(ids) if job.state == RUNNING]
        work.end_runs(jobs)
        outcomes = {
            job.id: Outcome(ref=job.seq, token=job.token, id=job.id, kind=Kind.RELEASED, queue=to) for job in jobs
        }
        load(work, list(outcomes.values()))
        for job_id in ids:
            job = work.find(job_id)
            answers.append(job is not None and job.state == RUNNING and job.session is not None)
            if job is not None and job.session is not None and answers[-1]:
                settle(work, Holder(job.session, job.worker or ""), outcomes[job_id], 0, what="taken back")
                job.token += 1
                tx.stop = True
        if to is not None:
            queues.room_made(tx)
    dependents.work_off(tx)
    return answers


def tag(tx: Transaction, ids: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> list[bool]:
    """Change the words on jobs; one that is both removed and added stays."""
    with WorkingSet(tx) as work:
        jobs = work.load_ids(ids)
        for statement, words in (("tag_remove", remove), ("tag_add", add)):
            if words and jobs:
                tx.change_many(statement, [(job.seq, word) for job in jobs for word in words])
        tagged = {seq for (seq,) in tx.rows("tagged", (tx.array([job.seq for job in jobs]),))}
        for job in jobs:
            job.flags = (job.flags & ~TAGGED) | (TAGGED if job.seq in tagged else 0)
        return [work.find(job_id) is not None for job_id in ids]


def track(tx: Transaction, ids: Sequence[str], on: bool) -> list[bool]:
    with WorkingSet(tx) as work:
        jobs = work.load_ids(ids)
        for job in jobs:
            job.flags = (job.flags & ~TRACKED) | (TRACKED if on else 0)
        if on and jobs:
            tx.change_many("track", [(job.seq,) for job in jobs])
        elif jobs:
            tx.execute("untrack", (tx.array([job.seq for job in jobs]),))
        return [work.find(job_id) is not None for job_id in ids]


def log(tx: Transaction, ids: Sequence[str], line: str) -> list[bool]:
    """Add a line to histories. That of a running job is among the lines of its run."""
    with WorkingSet(tx) as work:
        work.load_last_lines(job for job in work.load_ids(ids) if job.state >= DONE)
        jobs = [work.find(job_id) for job_id in ids]
        for job in filter(None, jobs):
            if job.state >= DONE:
                history.remember_end(work, job)
            worker = (job.worker or "") if job.state == RUNNING else ""
            work.happened(job, "log", line, worker)
            work.remember(job, work.now, "log", line, worker)
        return [job is not None for job in jobs]


def update(tx: Transaction, job_id: str, expected: bytes | None, data: bytes) -> bool | None:
    """Replace a job's data, if it is as expected. None: there is no such job."""
    with WorkingSet(tx) as work:
        job = work.find(job_id)
        if job is None:
            return None
        known = None if expected is None else tx.print_of(expected)
        if tx.rows("data_prints", (tx.array([job.seq]),)) != [(job.seq, known)]:
            return False
        work.write("data_set", job.seq, data)
        if job.state == RUNNING:
            job.flags |= UPDATED
        return True


def set_settings(tx: Transaction, changes: dict[str, int | None]) -> None:
    for name, value in changes.items():
        if value is None:
            tx.execute("setting_unset", (name,))
        else:
            tx.execute("setting_set", (name, value))
        events.has_set(tx, name, value)
