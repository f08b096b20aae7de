"""Jobs that come after other jobs: what they wait for, and what becomes of them when that ends or is revived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headrace.errors import ConfigurationError, DependencyCycle
from headrace.records import IfFailed, NewJob
from headrace.store import limits
from headrace.store.sql import admission, history, lanes
from headrace.store.sql.codes import (
    AFTER,
    BLOCKED,
    CANCELLED,
    DONE,
    EXPIRES,
    FAIL,
    FAILED,
    LANED,
    PRECEDES,
    REMOVED,
    REVIVED,
    RUN,
    RUNNING,
    UNIQUE,
    WAIT,
)
from headrace.store.sql.lanes import Placement, find_job, placement
from headrace.store.sql.transaction import Transaction


class _Relation(NamedTuple):
    """A row of `relation`."""

    parents: str
    if_failed: int
    delay: int | None


class Ended(NamedTuple):
    """A job that others come after, and how it ended."""

    seq: int
    id: str
    how: int


class _Note(NamedTuple):
    """A row of `ended`."""

    seq: int
    parent: int
    id: str
    how: int
    seen: int
    upto: int


class _Failure(NamedTuple):
    """Why a job has failed, and whether that was because of another one."""

    error: bytes | None
    passed_on: int


class KeyHolder(NamedTuple):
    """The job that has a unique key."""

    seq: int
    id: str
    state: int
    until: int | None
    flags: int


POLICIES = {IfFailed.WAIT: WAIT, IfFailed.FAIL: FAIL, IfFailed.RUN: RUN}


def is_related(new: NewJob) -> bool:
    """Whether there is more to keep than a plain job has."""
    return bool(new.after) or new.if_failed is not IfFailed.FAIL


def arrive(tx: Transaction, job: Placement, new: NewJob, parents: int) -> None:
    """A new job that comes after others, or into a lane, finds its place.

    One that comes after more than so many `parents` is blocked until `link` has linked the others to it.
    """
    if new.lane is not None:
        lanes.arrive(tx, job.seq, new.queue, new.lane)
    culprit = None
    if is_related(new):
        policy = POLICIES[new.if_failed]
        tx.execute("relation_put", (job.seq, _encoded(new.after), policy, None))
        culprit = _come_after(tx, job.seq, new.after[:parents], policy)
        if len(new.after) > parents:
            tx.execute("edge_open", (job.seq,))
            tx.execute("stand", (job.seq, BLOCKED, job.due))
            return
    _find_place(tx, job, new, culprit)


def _find_place(tx: Transaction, job: Placement, new: NewJob, culprit: Ended | None) -> None:
    """All that a new job comes after is known."""
    if is_related(new) and new.run_at is None and waits(tx, job.seq):
        tx.execute("relation_delay", (job.seq, new.delay or 0))
    if culprit is not None:
        fail_with(tx, job, culprit)
    else:
        admission.enter(tx, job, job.due)


def is_arriving(tx: Transaction, job_id: str) -> bool:
    """Whether more parents are to be linked to a job."""
    job = find_job(tx, job_id)
    return job is not None and bool(tx.rows("is_open", (job.seq,)))


def link(tx: Transaction, new: NewJob, first: int, behind: int) -> None:
    """Link some more parents to a job that is there, if it still is and `depend` has not removed them."""
    job = find_job(tx, new.id)
    if job is None or not is_arriving(tx, new.id):
        return
    named = set(parents(tx, job.seq))
    _come_after(tx, job.seq, [i for i in new.after[first:behind] if i in named], POLICIES[new.if_failed])
    if behind >= len(new.after):
        tx.execute("edge_close", (job.seq,))
        if job.state == BLOCKED:
            _find_place(tx, job, new, tx.maybe_row(Ended, "culprit_first", (job.seq,)))


def _encoded(ids: Sequence[str]) -> str:
    return msgspec.json.encode(ids).decode()


def parents(tx: Transaction, seq: int) -> tuple[str, ...]:
    """What a job came after, as it was put or has been changed."""
    relation = tx.maybe_row(_Relation, "relation_get", (seq,))
    return msgspec.json.decode(relation.parents, type=tuple[str, ...]) if relation is not None else ()


def waits(tx: Transaction, seq: int) -> bool:
    return bool(tx.rows("has_edges", (seq,)))


def _come_after(tx: Transaction, child: int, ids: Sequence[str], policy: int) -> Ended | None:
    """Let a job wait for others. Answers with the first because of which it fails at once, and how that one ended."""
    culprit = None
    for parent_id in ids:
        parent = find_job(tx, parent_id)
        if parent is None:
            continue
        _follow(tx, parent.seq, child)
        if parent.state == DONE or (parent.state > DONE and policy == RUN):
            continue
        tx.execute("edge_put", (parent.seq, child, policy))
        if parent.state > DONE and policy == FAIL:
            tx.execute("culprit_put", (child, parent.seq))
            culprit = culprit or Ended(parent.seq, parent_id, parent.state)
    return culprit


def _follow(tx: Transaction, parent: int, child: int) -> None:
    tx.execute("follower_put", (parent, child))
    tx.execute("precede", (parent,))


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


def _is_waited_for(tx: Transaction, ids: Sequence[str], job: Placement) -> bool:
    """Whether one of these is the job, or waits for it, by whatever detour."""
    ahead = [found.seq for job_id in ids if (found := find_job(tx, job_id)) is not None]
    seen = set(ahead)
    left = limits.EDGES_TO_CHECK
    while ahead:
        other = ahead.pop()
        if other == job.seq:
            return True
        above = tx.rows("edges_up", (other, left + 1))
        left -= len(above)
        if left < 0:
            raise limits.too_deep(job.id)
        fresh = {parent for (parent,) in above} - seen
        seen |= fresh
        ahead += fresh
    return False


# -- depend ------------------------------------------------------------------------------------------


def depend(tx: Transaction, job_id: str, add: Sequence[str], remove: Sequence[str]) -> bool:
    job = find_job(tx, job_id)
    if job is None or job.state == RUNNING or job.state >= DONE:
        return False
    if add and job.flags & LANED:
        lane = lanes.snapshot(tx, job.queue, lanes.laned(tx, job.seq).key)
        if lane is not None and lane.lane.sequence:
            raise ConfigurationError(limits.no_dependencies_in(job.queue, lane.lane))
    for parent_id in add:
        if _is_waited_for(tx, [parent_id], job):
            raise limits.cycle(job_id, parent_id)
    waited = waits(tx, job.seq)
    policy = _change(tx, job, add, remove)
    history.edited(tx, job.seq, limits.what_depends(add, remove))
    job = job._replace(flags=job.flags | AFTER)
    culprit = _come_after(tx, job.seq, add, policy)
    still_waits = waits(tx, job.seq)
    if culprit is not None:
        fail_with(tx, job, culprit)
    elif waited and not still_waits:
        release(tx, job)
    elif still_waits and not waited:
        due = lanes.own_due(tx, job)
        admission.change_queue(tx, job, job.queue)
        admission.enter(tx, job, due)
    return True


def _change(tx: Transaction, job: Placement, add: Sequence[str], remove: Sequence[str]) -> int:
    """Change what a job comes after, but for the edges that are new. Answers with its policy."""
    before = tx.maybe_row(_Relation, "relation_get", (job.seq,))
    named = [] if before is None else msgspec.json.decode(before.parents, type=list[str])
    kept = [i for i in named if i not in remove or i in add]
    kept += [i for i in dict.fromkeys(add) if i not in kept]
    tx.execute("relation_set", (job.seq, _encoded(kept)))
    tx.execute("flag_after", (job.seq,))
    for edge, parent_id, _ in tx.rows("edges_named", (job.seq,)):
        if parent_id in remove and parent_id not in add:
            tx.execute("edge_delete", (edge,))
    for parent_id in set(remove) - set(add):
        tx.execute("follower_delete", (parent_id, job.seq))
    return FAIL if before is None else before.if_failed


# -- children ----------------------------------------------------------------------------------------


def wait_for_children(tx: Transaction, job: Placement, ids: Sequence[str]) -> bool:
    """A job that ran wants to go on when these have ended. False: it can't, and has failed."""
    why = _why_not_wait(tx, job, ids)
    if why:
        admission.fail(tx, job, limits.DEPENDENCY, limits.own_error(why))
        return False
    if job.flags & EXPIRES:
        job = admission.expires_no_more(tx, job)
    tx.execute("relation_set", (job.seq, _encoded(ids)))
    tx.execute("flag_resumed", (job.seq,))
    tx.execute("followers_delete", (job.seq,))
    _come_after(tx, job.seq, ids, RUN)
    tx.execute("relation_delay", (job.seq, 0 if waits(tx, job.seq) else None))
    admission.end_of_run(tx, job._replace(flags=job.flags | AFTER), job.queue, tx.now)
    return True


def _why_not_wait(tx: Transaction, job: Placement, ids: Sequence[str]) -> str:
    if job.flags & LANED:
        lane = lanes.snapshot(tx, job.queue, lanes.laned(tx, job.seq).key)
        if lane is not None and lane.lane.sequence:
            return limits.no_dependencies_in(job.queue, lane.lane)
    unfinished = [i for i in ids if (found := find_job(tx, i)) is not None and found.state < DONE]
    try:
        return limits.WAITS_FOR_ITSELF if _is_waited_for(tx, unfinished, job) else ""
    except DependencyCycle:
        return limits.TOO_DEEP_TO_WAIT


def drop_ended(tx: Transaction, seq: int) -> None:
    """A job that is revived by hand waits for those that are unfinished, and no more for the others."""
    for edge, _, state in tx.rows("edges_named", (seq,)):
        if state is None or state >= DONE:
            tx.execute("edge_delete", (edge,))
    tx.execute("culprits_delete", (seq,))
    tx.execute("relation_delay", (seq, None))


def follow_again(tx: Transaction, seq: int) -> int:
    """A revived job may ask for the results of those that it comes after. Answers with how many it names."""
    named = parents(tx, seq)
    for parent_id in named:
        if (parent := find_job(tx, parent_id)) is not None:
            _follow(tx, parent.seq, seq)
    return len(named)


# -- the two ways out of waiting ----------------------------------------------------------------------


def release(tx: Transaction, job: Placement) -> None:
    """The last one is met."""
    delay = tx.row(_Relation, "relation_get", (job.seq,)).delay
    if delay is not None:
        tx.execute("relation_delay", (job.seq, None))
    admission.enter(tx, job, job.due if delay is None else tx.now + delay)


def fail_with(tx: Transaction, job: Placement, parent: Ended) -> None:
    if parent.how == FAILED:
        failure = tx.maybe_row(_Failure, "failure_of", (parent.seq,)) or _Failure(None, 0)
        error = limits.failed_with(parent.id, failure.error, passed_on=bool(failure.passed_on))
    else:
        words = limits.REMOVED_PARENT if parent.how == REMOVED else limits.CANCELLED_PARENT
        error = limits.own_error(words.format(parent.id))
    admission.fail(tx, job, limits.DEPENDENCY, error)


# -- what has ended, or was revived, in bounded steps ------------------------------------------------


def work_off(tx: Transaction) -> bool:
    """Tell the dependents of what has ended or was revived, a bounded number of them. True: there is more to do."""
    left = limits.EDGES_IN_A_STEP
    while (note := tx.maybe_row(_Note, "ended_first")) is not None:
        if left <= 0:
            return True
        seen, parent = note.seen, Ended(note.parent, note.id, note.how)
        edges = tx.rows("edges_down", (note.parent, seen, note.upto, left + 1))
        for edge, child, policy, job_id, queue, state, flags, due in edges:
            if left <= 0:
                tx.execute("ended_seen", (note.seq, seen))
                break
            job = Placement(child, job_id, queue, state, 0, due, flags)
            left -= 1
            if note.how == REVIVED:
                left -= _forgive(tx, job, note.parent)
            else:
                _look_at(tx, edge, policy, job, parent)
            seen = edge
        else:
            tx.execute("ended_delete", (note.seq,))
    return False


def _look_at(tx: Transaction, edge: int, policy: int, child: Placement, parent: Ended) -> None:
    how = parent.how
    met = how == DONE or policy == RUN
    fails = not met and (how == REMOVED or policy == FAIL)
    if met or how == REMOVED:
        tx.execute("edge_delete", (edge,))
    if fails:
        tx.execute("culprit_put", (child.seq, parent.seq))
    if child.state != BLOCKED:
        return
    if fails:
        fail_with(tx, child, parent)
    elif not waits(tx, child.seq):
        release(tx, placement(tx, child.seq))


def _forgive(tx: Transaction, child: Placement, parent: int) -> int:
    """A culprit was revived. Without the last of them, the job that failed with them waits again.

    Answers with what that costs beyond the look itself.
    """
    forgiven = tx.change("culprit_delete", (child.seq, parent))
    if not forgiven or child.state != FAILED or tx.rows("has_culprits", (child.seq,)):
        return 0
    if key_is_taken(tx, child):
        return 0
    return bring_back(tx, child, child.due)


# -- reviving ----------------------------------------------------------------------------------------


def revive(tx: Transaction, ids: Sequence[str]) -> list[bool]:
    """In the order of arrival: one that comes after another of them waits for it."""
    found = {job for job_id in ids if (job := find_job(tx, job_id)) is not None}
    revived = {job.id for job in sorted(found) if _revive_one(tx, job)}
    answers = []
    for job_id in ids:
        answers.append(job_id in revived)
        revived.discard(job_id)  # named twice, it had ended only the first time
    return answers


def _revive_one(tx: Transaction, job: Placement) -> bool:
    if job.state not in (FAILED, CANCELLED) or key_is_taken(tx, job):
        return False
    if job.flags & AFTER:
        drop_ended(tx, job.seq)
    if job.flags & EXPIRES:
        job = admission.expires_no_more(tx, job)
    bring_back(tx, job, tx.now)
    return True


def key_is_taken(tx: Transaction, job: Placement) -> bool:
    """A job that lost its key to a newer one comes back without it, but not beside it."""
    if not job.flags & UNIQUE:
        return False
    key = tx.value("unique_key_of", (job.seq,))
    holder = tx.maybe_row(KeyHolder, "unique_holder", (key,))
    return holder is not None and holder.seq != job.seq and holder.state < DONE


def bring_back(tx: Transaction, job: Placement, due: int) -> int:
    """Into line again, as if it were new. What failed because of it follows.

    Answers with how many jobs it comes after: so many have been looked up.
    """
    history.remember_end(tx, job.seq, "failed" if job.state == FAILED else "cancelled")
    tx.execute("remember", (job.seq, tx.now, "revived", "", ""))
    tx.execute("revive", (job.seq, due))
    tx.happened(job.seq, "revived")
    tx.news(job.queue)
    named = follow_again(tx, job.seq) if job.flags & AFTER else 0
    if job.flags & PRECEDES:
        tx.execute("ended_note", (job.seq, job.id, REVIVED))
    if job.flags & LANED:
        lanes.join(tx, job.seq, job.queue)
    if job.flags & (AFTER | LANED | EXPIRES):
        admission.enter(tx, placement(tx, job.seq), due)
    return named
