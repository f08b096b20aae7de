"""UpdateJob, DeleteJob, CancelJob and RequeueJobs: changes of jobs from outside a run."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.dialects.bedrock.server.requests import Request
from headrace.dialects.bedrock.server.settle import IMPOSSIBLE_TIME
from headrace.dialects.bedrock.server.transaction import Transaction
from headrace.dialects.bedrock.server.values import is_mocked, read_integer, read_list
from headrace.dialects.bedrock.times import next_run
from headrace.dialects.bedrock.wire import Refused
from headrace.schedule.repeat import parse_repeat

MOST_IDS = 100_000
"""RequeueJobs takes no more at once: all other clients wait while it works."""


def update_job(tx: Transaction, request: Request) -> None:
    job_id = request.job_id()
    given_data = request.required("data")
    given_repeat = request.parsed("repeat", parse_repeat)
    priority = request.priority(None)
    row = tx.job(job_id)
    data = tx.value("tidy_json", given_data)
    if is_mocked(row.data):
        data = tx.value("mock", data)
    elif is_mocked(data):
        data = tx.value("unmock", data)
    repeat = given_repeat or row.repeat
    if request.integer("shouldclearrepeat"):
        repeat = ""
    again = request.get("nextrun") or row.next_run
    if given_repeat and not request.get("nextrun"):
        repeated = next_run(given_repeat, scheduled=row.next_run, started=row.last_run, finished=tx.moment)
        if repeated is None:
            raise Refused(IMPOSSIBLE_TIME)
        again = repeated
    tx.run("update", job_id, data, repeat, row.priority if priority is None else priority, again)
    if row.state in ("QUEUED", "RUNQUEUED"):
        tx.queued(row.name, again)


def delete_job(tx: Transaction, request: Request) -> None:
    """Remove all trace of a job; its children stay."""
    row = tx.job(request.job_id())
    if row.state == "RUNNING":
        raise Refused("405 Can't delete a RUNNING job")
    if row.state == "PAUSED":
        raise Refused("405 Can't delete a parent jobs with children running")
    tx.run("delete", row.job_id)
    tx.promote(row.sequential_key)


def cancel_job(tx: Transaction, request: Request) -> None:
    """A child need not run any more; its parent will hear of it."""
    row = tx.job(request.job_id())
    if tx.rows("children", row.job_id):
        raise Refused("404 Invalid jobID - Cannot cancel a job with children")
    if not row.parent_id:
        raise Refused("404 Invalid jobID - Cannot cancel a job without a parent")
    if row.state not in ("RUNNING", "FINISHED", "PAUSED"):
        tx.run("set_state", row.job_id, "CANCELLED")
        tx.resume_parent(row.parent_id, "running_child")


def requeue_jobs(tx: Transaction, request: Request) -> None:
    ids = [read_integer(entry) for entry in read_list(request.get("jobids"))]
    if len(ids) > MOST_IDS:
        raise Refused("402 Malformed jobIDs", ("error", f"more than {MOST_IDS} ids"))
    put_back(tx, ids, name=request.get("name"), undo_try=request.flag("decrementfailures"))


def put_back(tx: Transaction, ids: Sequence[int], *, name: str = "", undo_try: bool = True) -> None:
    """Back in line, due since they were created. Also for jobs that could not be delivered to who asked for them."""
    for job_id in ids:
        row = tx.find(job_id)
        if row is None:
            continue
        key = row.sequential_key
        taken = bool(key) and tx.first("holder_of_sequence", key, job_id) is not None
        tx.run("requeue", job_id, "WAITING" if taken else "QUEUED", name, undo_try)
        if not taken:
            tx.queued(name or row.name, row.created)
