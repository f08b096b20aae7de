"""A job that ends, or is revived, is noted; the jobs that come after it are told in bounded steps."""

from __future__ import annotations

from headrace.store import limits
from headrace.store.sqlite import relations, reviving
from headrace.store.sqlite.codes import BLOCKED, DONE, FAIL, FAILED, REMOVED, REVIVED, RUN
from headrace.store.sqlite.lanes import Placement, placement
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import Transaction


def work_off(tx: Transaction) -> bool:
    """Tell the dependents of what has ended or was revived, a bounded number of them. True: there is more to do."""
    left = limits.EDGES_IN_A_STEP
    while found := tx.rows(SQL["ended_first"]):
        note, parent, parent_id, how, seen, upto = found[0]
        if left <= 0:
            return True
        edges = tx.rows(SQL["edges_down"], (parent, seen, upto, left + 1))
        for edge, child, policy, job_id, queue, state, flags, due in edges:
            if left <= 0:
                tx.execute(SQL["ended_seen"], (note, seen))
                break
            job = Placement(child, job_id, queue, state, 0, due, flags)
            left -= 1
            if how == REVIVED:
                left -= _forgive(tx, job, parent)
            else:
                _look_at(tx, edge, policy, job, (parent, parent_id, how))
            seen = edge
        else:
            tx.execute(SQL["ended_delete"], (note,))
    return False


def _look_at(tx: Transaction, edge: int, policy: int, child: Placement, parent: tuple[int, str, int]) -> None:
    how = parent[2]
    met = how == DONE or policy == RUN
    fails = not met and (how == REMOVED or policy == FAIL)
    if met or how == REMOVED:
        tx.execute(SQL["edge_delete"], (edge,))
    if fails:
        tx.execute(SQL["culprit_put"], (child.seq, parent[0]))
    if child.state != BLOCKED:
        return
    if fails:
        relations.fail_with(tx, child, *parent)
    elif not relations.waits(tx, child.seq):
        relations.release(tx, placement(tx, child.seq))


def _forgive(tx: Transaction, child: Placement, parent: int) -> int:
    """A culprit was revived. Without the last of them, the job that failed with them waits again.

    Answers with what that costs beyond the look itself.
    """
    tx.execute(SQL["culprit_delete"], (child.seq, parent))
    if not tx.connection.changes() or child.state != FAILED or tx.rows(SQL["has_culprits"], (child.seq,)):
        return 0
    if reviving.key_is_taken(tx, child):
        return 0
    return reviving.bring_back(tx, child, child.due)
