"""What becomes of jobs when others that they come after end or are revived, in bounded steps; and reviving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from headrace.store import limits
from headrace.store.sql import admission, history, lanes, relations, stats
from headrace.store.sql.codes import (
    AFTER,
    BLOCKED,
    CANCELLED,
    DONE,
    DROPPED,
    EXPIRES,
    FAIL,
    FAILED,
    LANED,
    LARGE_RESULT,
    PRECEDES,
    READY,
    REMOVED,
    RESULT,
    REVIVED,
    RUN,
    UNIQUE,
)
from headrace.store.sql.transaction import Transaction, once
from headrace.store.sql.working_set import Job, WorkingSet
from headrace.values.names import same_traffic


class _Note(NamedTuple):
    """A row of `ended`."""

    seq: int
    parent: int
    id: str
    how: int

    @property
    def ended(self) -> relations.Ended:
        return relations.Ended(self.parent, self.id, self.how)


class _Edge(NamedTuple):
    """An edge of a job that has ended, and the row of `ended` that says so."""

    note: int
    seq: int
    child: int
    policy: int


# -- what has ended, or was revived, in bounded steps ------------------------------------------------


def work_off(tx: Transaction) -> bool:
    """Tell the dependents of what has ended or was revived, a bounded number of them. True: there is more to do."""
    left = limits.EDGES_IN_A_STEP
    while notes := [_Note(*columns) for columns in tx.rows("ended_some", (limits.EDGES_IN_A_STEP,))]:
        if left <= 0:
            return True
        left = _work_off_some(tx, notes, left)
    return False


def _work_off_some(tx: Transaction, notes: Sequence[_Note], left: int) -> int:
    """Look at the edges of some that have ended, in order. Returns how many more may be looked at."""
    edges = [_Edge(*columns) for columns in tx.rows("edges_down", (notes[-1].seq, left + 1))]
    by_seq = {note.seq: note for note in notes}
    seen: dict[int, int] = {}
    behind = None
    with WorkingSet(tx) as work:
        children = {job.seq: job for job in work.load(edge.child for edge in edges)}
        waiting = _Waiting(work, edges)
        _load_dependents(work, by_seq, edges, children, left)
        work.relations.load(seq for seq in children if waiting.may_end(seq))
        for edge in edges:
            if left <= 0:
                behind = edge.note
                break
            note, child = by_seq[edge.note], children.get(edge.child)
            left -= 1
            if child is not None and note.how == REVIVED:
                left -= _forgive(work, child, note.parent)
            elif child is not None:
                waiting.look_at(edge, child, note.ended)
            seen[edge.note] = edge.seq
    if behind is not None and behind in seen:
        tx.execute("ended_seen", (behind, seen[behind]))
    tx.execute("ended_delete", (tx.array([note.seq for note in notes if behind is None or note.seq < behind]),))
    return left


def _load_dependents(
    work: WorkingSet, notes: dict[int, _Note], edges: Sequence[_Edge], children: dict[int, Job], left: int
) -> None:
    """All that may change with the dependents of what has ended."""
    blocked = [job for job in children.values() if job.state == BLOCKED]
    work.load_around(blocked)
    work.relations.load_failures({notes[edge.note].parent for edge in edges if notes[edge.note].how == FAILED})
    failed = {edge.child for edge in edges if notes[edge.note].how == REVIVED} & {
        job.seq for job in children.values() if job.state == FAILED
    }
    work.relations.load_culprits(failed)
    load_to_bring_back(work, [job for job in children.values() if job.seq in failed], left)


class _Waiting:
    """Which of the dependents still wait as one edge after the other is looked at."""

    def __init__(self, work: WorkingSet, edges: Sequence[_Edge]) -> None:
        self._work, tx = work, work.tx
        self._left = Counter(edge.child for edge in edges)
        values = tx.array(list(self._left)), tx.array([edge.seq for edge in edges])
        self._besides = {seq for (seq,) in tx.rows("waiting_besides", values)} if edges else set[int]()
        self._left.update(self._besides)
        for seq in self._left:
            work.relations.set_waiting(seq, True)

    def may_end(self, seq: int) -> bool:
        """Whether a job waits for nothing but what these edges are about."""
        return seq not in self._besides

    def look_at(self, edge: _Edge, child: Job, parent: relations.Ended) -> None:
        how, work = parent.how, self._work
        met = how == DONE or edge.policy == RUN
        fails = not met and (how == REMOVED or edge.policy == FAIL)
        if met or how == REMOVED:
            work.write("edge_delete", edge.seq)
            self._left[child.seq] -= 1
            work.relations.set_waiting(child.seq, self._left[child.seq] > 0)
        if fails:
            work.write("culprit_put", child.seq, parent.seq)
        if child.state != BLOCKED:
            return
        if fails:
            relations.fail_with(work, child, parent)
        elif not self._left[child.seq]:
            relations.release(work, child)


def _forgive(work: WorkingSet, child: Job, parent: int) -> int:
    """A culprit was revived. Without the last of them, the job that failed with them waits again.

    Returns what that costs beyond the look itself.
    """
    culprits = work.relations.culprits(child.seq)
    if parent not in culprits:
        return 0
    culprits.remove(parent)
    work.write("culprit_delete", child.seq, parent)
    if child.state != FAILED or culprits or key_is_taken(work, child):
        return 0
    return bring_back(work, child, child.due)


# -- reviving ----------------------------------------------------------------------------------------


def revive(
    tx: Transaction, ids: Sequence[str], to: str | None = None, states: Collection[int] = (FAILED, CANCELLED)
) -> list[bool]:
    """In the order of arrival: one that comes after another of them waits for it. `to`: into this queue."""
    revived = set()
    with WorkingSet(tx) as work:
        found = sorted(work.load_ids(ids), key=lambda job: job.seq)
        ended = [job for job in found if job.state in states]
        load_to_bring_back(work, ended, None)
        done: list[stats.Times] = []
        edges = _edges_of(work, [job for job in ended if job.flags & AFTER])
        for job in ended:
            if not key_is_taken(work, job):
                if job.flags & AFTER:
                    _drop_ended(work, job, edges.get(job.seq, ()))
                admission.expires_no_more(work, job)
                if job.state == DONE:
                    done.append(job.times)
                    _forget_result(work, job)
                bring_back(work, job, work.now, to)
                revived.add(job.id)
        if done:
            stats.fold(tx, done)
    work_off(tx)
    return once(ids, revived)


def _forget_result(work: WorkingSet, job: Job) -> None:
    work.write("result_forget", job.seq)
    work.write("blob_delete", job.seq, RESULT)
    job.flags &= ~(LARGE_RESULT | DROPPED)


def _edges_of(work: WorkingSet, jobs: Sequence[Job]) -> dict[int, list[tuple[int, int, int | None]]]:
    """Of each job: its edges, their parents, and the states of these."""
    edges: dict[int, list[tuple[int, int, int | None]]] = {}
    for child, edge, parent, _, state in (
        work.tx.rows("edges_named", (work.tx.array([job.seq for job in jobs]),)) if jobs else ()
    ):
        edges.setdefault(child, []).append((edge, parent, state))
    return edges


def _drop_ended(work: WorkingSet, job: Job, edges: Sequence[tuple[int, int, int | None]]) -> None:
    """A job that is revived by hand waits for those that are unfinished, and no more for the others."""
    waits = False
    for edge, parent, state in edges:
        known = work.known(parent)
        now = state if known is None else known.state
        if parent != relations.OPEN and (now is None or now >= DONE):
            work.write("edge_delete", edge)
        else:
            waits = True
    work.relations.set_waiting(job.seq, waits)
    work.write("culprits_delete", job.seq)
    relations.set_delay(work, job, None)


def load_to_bring_back(work: WorkingSet, jobs: Sequence[Job], most: int | None) -> None:
    """All that is needed to revive some jobs; of what they come after, so many at most."""
    work.load_last_lines(jobs)
    after = [job for job in jobs if job.flags & AFTER]
    work.relations.load(job.seq for job in after)
    work.relations.load_parents(job.seq for job in after)
    named = [parent_id for job in after for parent_id in work.relations.parents(job.seq)]
    work.load_ids(named[:most])
    work.load_around(jobs)
    work.lanes.make_all({(job.queue, work.lanes.laned(job.seq).key) for job in jobs if job.flags & LANED})
    keys = [job.unique_key for job in jobs if job.flags & UNIQUE and job.unique_key is not None]
    work.load(holder.job for holder in work.relations.load_holders(keys))


def key_is_taken(work: WorkingSet, job: Job) -> bool:
    """Whether a job lost its unique key to a newer one that still holds it."""
    if not job.flags & UNIQUE or job.unique_key is None:
        return False
    for holder in work.relations.load_holders([job.unique_key]):
        other = work.get(holder.job)
        if other is not None and other is not job:
            return other.state < DONE or (holder.until is not None and holder.until > work.now)
    return False


def bring_back(work: WorkingSet, job: Job, due: int, to: str | None = None) -> int:
    """Into line again, as if it were new, of another queue if one is given. What failed because of it follows.

    Returns how many jobs it comes after: so many have been looked up.
    """
    history.remember_end(work, job)
    work.remember(job, work.now, "revived")
    job.queue = same_traffic(job.queue, to or job.queue)
    job.state, job.due, job.attempts, job.crashes = READY, due, 0, 0
    job.finished = job.deferred_since = job.failure = job.error = None
    job.forgiven = True
    work.happened(job, "revived")
    work.tx.news(job.queue)
    if job.flags & UNIQUE and job.unique_key is not None:
        work.relations.take_key(job.unique_key, job.seq)
    named = work.relations.parents(job.seq) if job.flags & AFTER else ()
    for parent_id in named:
        if (parent := work.find(parent_id)) is not None:
            relations.follow(work, parent, job)
    if job.flags & PRECEDES:
        work.write("ended_note", job.seq, job.id, REVIVED)
    if job.flags & LANED:
        lanes.join(work, job)
    if job.flags & (AFTER | LANED | EXPIRES):
        admission.enter(work, job, due)
    return len(named)
