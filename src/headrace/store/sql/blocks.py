"""The block list: tasks whose jobs no worker is handed, and bringing those jobs back."""

from __future__ import annotations

from collections.abc import Generator

from headrace.store import limits
from headrace.store.blocking import Block
from headrace.store.sql import admission
from headrace.store.sql.codes import BARRED
from headrace.store.sql.transaction import Step, Transaction
from headrace.store.sql.working_set import WorkingSet


def blocks(tx: Transaction) -> list[Block]:
    return [Block(*row) for row in tx.rows("blocks")]


def find(tx: Transaction, task: str) -> Block | None:
    """What keeps the jobs of a task back, if it is blocked."""
    return tx.maybe_row(Block, "block_get", (task,))


def block(tx: Transaction, task: str, reason: str, by: str) -> bool:
    blocked = {name for (name,) in tx.rows("blocked_tasks")}
    limits.check_blocks(task, blocked)
    tx.execute("block_put", (task, reason, by, tx.now))
    return task not in blocked


def unblock(task: str) -> Generator[Step[bool], bool, bool]:
    """Several transactions where many jobs come back; should this process die, sweeps go on."""
    was_blocked = yield Step(lambda tx: tx.change("block_delete", (task,)) > 0)
    more = True
    while more:
        more = yield Step(bring_back)
    return was_blocked


def bring_back(tx: Transaction) -> bool:
    """Jobs whose task is no longer blocked want to run again, so many in one step. True: there may be more."""
    task = tx.maybe_value("barred_task")
    if task is None:
        return False
    seqs = [seq for (seq,) in tx.rows("barred_some", (task, limits.PASSED_IN_A_STEP))]
    with WorkingSet(tx) as work:
        jobs = [job for job in work.load(seqs) if job.flags & BARRED]
        work.load_around(jobs)
        for job in jobs:
            admission.enter(work, job, job.due, was_due=True)
    tx.execute("barred_delete", (tx.array(seqs),))  # of jobs that another program has changed, too
    return True
