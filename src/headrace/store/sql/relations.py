"""Jobs that come after other jobs: what they wait for, and what becomes of them when that ends or is revived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.errors import ConfigurationError, DependencyCycle
from headrace.records import IfFailed, Kind, NewJob, Outcome, State
from headrace.store import limits
from headrace.store.sql import admission, history, lanes
from headrace.store.sql.codes import (
    AFTER,
    BLOCKED,
    DONE,
    FAIL,
    FAILED,
    LANED,
    LATER,
    PRECEDES,
    REMOVED,
    RESUMED,
    RUN,
    RUNNING,
    STATES,
    WAIT,
)
from headrace.store.sql.transaction import Transaction
from headrace.store.sql.working_set import Job, WorkingSet


class Ended(NamedTuple):
    """A job that others come after, and how it ended."""

    seq: int
    id: str
    how: int


POLICIES = {IfFailed.WAIT: WAIT, IfFailed.FAIL: FAIL, IfFailed.RUN: RUN}
OPEN = 0
"""The parent of an edge that stands for those that are still to be linked."""


def is_related(new: NewJob) -> bool:
    """Whether there is more to keep than a plain job has."""
    return bool(new.after) or new.if_failed is not IfFailed.FAIL


def arrive(work: WorkingSet, job: Job, new: NewJob, parents: int) -> None:
    """A new job that comes after others, or into a lane, finds its place.

    One that comes after more than so many `parents` is blocked until `link` has linked the others to it.
    """
    if new.lane is not None:
        lanes.arrive(work, job, new.lane)
    culprit = None
    if is_related(new):
        policy = POLICIES[new.if_failed]
        work.relations.put(job.seq, new.after, policy)
        work.relations.set_waiting(job.seq, False)
        culprit = _come_after(work, job, new.after[:parents], policy)
        if len(new.after) > parents:
            work.write("edge_put", OPEN, job.seq, WAIT)
            work.relations.set_waiting(job.seq, True)
            job.flags |= LATER if admission.is_later(work, job) else 0
            job.state = BLOCKED
            return
    _find_place(work, job, new, culprit)


def _find_place(work: WorkingSet, job: Job, new: NewJob, culprit: Ended | None) -> None:
    """All that a new job comes after is known."""
    if is_related(new) and new.run_at is None and work.relations.waits(job.seq):
        set_delay(work, job, new.delay or 0)
    if culprit is not None:
        fail_with(work, job, culprit)
    else:
        admission.enter(work, job, job.due, was_due=not admission.is_later(work, job))


def set_delay(work: WorkingSet, job: Job, delay: int | None) -> None:
    """How long a job waits from when the last one is met."""
    relation = work.relations.get(job.seq)
    if relation is not None:
        relation.delay = delay


def is_arriving(tx: Transaction, job_id: str) -> bool:
    """Whether more parents are to be linked to a job."""
    return bool(tx.rows("is_open", (job_id,)))


def link(tx: Transaction, new: NewJob, first: int, behind: int) -> None:
    """Link some more parents to a job that is there, if it still is and `depend` has not removed them."""
    if not is_arriving(tx, new.id):
        return
    with WorkingSet(tx) as work:
        (job,) = work.load_ids([new.id])
        named = set(work.relations.parents(job.seq))
        some = [parent for parent in new.after[first:behind] if parent in named]
        work.load_ids(some)
        _come_after(work, job, some, POLICIES[new.if_failed])
    if behind >= len(new.after):
        tx.execute("edge_close", (job.seq,))
        if job.state == BLOCKED:
            with WorkingSet(tx) as work:
                _find_place(work, work.job(job.seq), new, tx.maybe_row(Ended, "culprit_first", (job.seq,)))


def _come_after(work: WorkingSet, child: Job, ids: Sequence[str], policy: int) -> Ended | None:
    """Let a job wait for others. Returns the first because of which it fails at once, and how that one ended."""
    culprit = None
    for parent_id in ids:
        parent = work.find(parent_id)
        if parent is None:
            continue
        follow(work, parent, child)
        if parent.state == DONE or (parent.state > DONE and policy == RUN):
            continue
        work.write("edge_put", parent.seq, child.seq, policy)
        work.relations.set_waiting(child.seq, True)
        if parent.state > DONE and policy == FAIL:
            work.write("culprit_put", child.seq, parent.seq)
            culprit = culprit or Ended(parent.seq, parent_id, parent.state)
    return culprit


def follow(work: WorkingSet, parent: Job, child: Job) -> None:
    work.write("follower_put", parent.seq, child.seq)
    parent.flags |= PRECEDES


def some_need(tx: Transaction, seq: int, state: int) -> bool:
    """Whether one of the first followers of an ended job has not ended: it may still ask for its result."""
    return any(needs for _, needs in tx.rows("followers_of", (seq, state, limits.FOLLOWERS_IN_A_STEP)))


def is_needed(tx: Transaction, seq: int, state: int) -> bool:
    """Whether an ended job is to be kept for those that come after it. Followers that have ended are forgotten, some
    at a time."""
    found = tx.rows("followers_of", (seq, state, limits.FOLLOWERS_IN_A_STEP))
    child = None
    for child, needs in found:
        if needs:
            tx.execute("followers_forget", (seq, child))
            return True
    if child is not None:
        tx.execute("followers_drop", (seq, child))
    return len(found) == limits.FOLLOWERS_IN_A_STEP


def _is_waited_for(work: WorkingSet, ids: Sequence[str], job: Job) -> bool:
    """Whether one of these is the job, or waits for it, by whatever detour."""
    tx, most = work.tx, limits.EDGES_TO_CHECK
    start = [found.seq for found in work.load_ids(ids)]
    above = [seq for (seq,) in tx.rows("above", (tx.array(start), most + len(start) + 1))]
    if job.seq in above:
        return True
    if len(above) > most + len(start) or tx.value("edges_above", (tx.array(above), most + 1)) > most:
        raise limits.too_deep(job.id)
    return False


# -- depend ------------------------------------------------------------------------------------------


def dependants(tx: Transaction, job_id: str, limit: int) -> list[tuple[str, State]]:
    """Some of the unfinished jobs that come after one."""
    rows = tx.rows("dependants", (job_id, limits.DEPENDANTS_LOOKED_AT))
    return [(child, STATES[state]) for child, state in rows if state < DONE][:limit]


def depend(tx: Transaction, job_id: str, add: Sequence[str], remove: Sequence[str]) -> bool:
    with WorkingSet(tx) as work:
        job = work.find(job_id)
        if job is None or job.state == RUNNING or job.state >= DONE:
            return False
        if add and (sequence := _sequence_of(work, job)):
            raise ConfigurationError(sequence)
        work.load_around([job])
        work.load_ids(add)
        _check_for_cycles(work, job, add)
        waited = work.relations.waits(job.seq)
        policy = _change(work, job, add, remove)
        history.edited(work, job, limits.what_depends(add, remove))
        culprit = _come_after(work, job, add, policy)
        still_waits = work.relations.waits(job.seq)
        if culprit is not None:
            fail_with(work, job, culprit)
        elif waited and not still_waits:
            release(work, job)
        elif still_waits and not waited:
            due, was_due = lanes.own_due(work, job), not admission.is_later(work, job)
            admission.change_queue(work, job, job.queue)
            admission.enter(work, job, due, was_due=was_due)
    return True


def _check_for_cycles(work: WorkingSet, job: Job, add: Sequence[str]) -> None:
    try:
        if not _is_waited_for(work, add, job):
            return
    except DependencyCycle:
        pass  # too deep together: one by one
    for parent_id in add:
        if _is_waited_for(work, [parent_id], job):
            raise limits.cycle(job.id, parent_id)


def _sequence_of(work: WorkingSet, job: Job) -> str:
    """Why a job can't wait for others, if it is in a sequence."""
    if not job.flags & LANED:
        return ""
    lane = work.lanes.find(job.queue, work.lanes.laned(job.seq).key)
    return limits.no_dependencies_in(job.queue, lane.definition) if lane is not None and lane.sequence else ""


def _change(work: WorkingSet, job: Job, add: Sequence[str], remove: Sequence[str]) -> int:
    """Change what a job comes after, but for the edges that are new. Returns its policy."""
    named = work.relations.parents(job.seq)
    kept = [i for i in named if i not in remove or i in add]
    kept = list(dict.fromkeys([*kept, *add]))
    limits.check_parents(job.id, len(kept))
    work.relations.load((job.seq,))
    relation = work.relations.put(job.seq, kept, FAIL)
    job.flags |= AFTER
    edges = work.tx.rows("edges_named", (work.tx.array([job.seq]),))
    dropped = [edge for _, edge, _, parent_id, _ in edges if parent_id in remove and parent_id not in add]
    for edge in dropped:
        work.write("edge_delete", edge)
    if dropped:
        besides = work.tx.rows("waiting_besides", (work.tx.array([job.seq]), work.tx.array(dropped)))
        work.relations.set_waiting(job.seq, bool(besides))
    for parent_id in set(remove) - set(add):
        work.write("follower_delete", parent_id, job.seq)
    return relation.if_failed


# -- children ----------------------------------------------------------------------------------------


def wait_for_children(work: WorkingSet, job: Job, outcome: Outcome) -> None:
    """A job that ran goes on when others have ended, perhaps in another queue."""
    moves = outcome.kind is Kind.MOVED
    admission.expires_no_more(work, job)
    work.relations.load((job.seq,))
    relation = work.relations.put(job.seq, outcome.after, FAIL)
    job.flags |= RESUMED | AFTER
    work.write("followers_delete", job.seq)
    _come_after(work, job, outcome.after, RUN)
    delay = (outcome.delay if outcome.at is None else None) if moves else 0
    relation.delay = delay if work.relations.waits(job.seq) else None
    admission.change_queue(work, job, (moves and outcome.queue) or job.queue)
    admission.enter(work, job, job.due if moves else work.now)


def why_not_wait(work: WorkingSet, job: Job, ids: Sequence[str]) -> str:
    """Why a job can't wait for these, in words; '' if it can."""
    if sequence := _sequence_of(work, job):
        return sequence
    unfinished = [found.id for found in work.load_ids(ids) if found.state < DONE]
    try:
        return limits.WAITS_FOR_ITSELF if _is_waited_for(work, unfinished, job) else ""
    except DependencyCycle:
        return limits.TOO_DEEP_TO_WAIT


# -- the two ways out of waiting ----------------------------------------------------------------------


def release(work: WorkingSet, job: Job) -> None:
    """The last one is met."""
    relation = work.relations.get(job.seq)
    assert relation is not None
    delay, relation.delay = relation.delay, None
    if delay is None:
        admission.enter(work, job, job.due, was_due=not admission.is_later(work, job))
    else:
        admission.enter(work, job, work.now + delay)


def fail_with(work: WorkingSet, job: Job, parent: Ended) -> None:
    if parent.how == FAILED:
        failure = work.relations.failure(parent.seq)
        error = limits.failed_with(parent.id, failure.error, passed_on=failure.passed_on)
    else:
        words = limits.REMOVED_PARENT if parent.how == REMOVED else limits.CANCELLED_PARENT
        error = limits.own_error(words.format(parent.id))
    work.relations.set_failure(job.seq, error, passed_on=True)
    admission.fail(work, job, limits.DEPENDENCY, error)
