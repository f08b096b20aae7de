"""FinishJob, RetryJob and FailJob: a worker reports the end of a run."""

from __future__ import annotations

from datetime import timedelta

from headrace.dialects.bedrock.server.requests import Request
from headrace.dialects.bedrock.server.transaction import PENDING_STATES, RUNNING_STATES, Row, Transaction, read_text
from headrace.dialects.bedrock.server.values import is_mocked, read_data
from headrace.dialects.bedrock.times import next_run, write_seconds
from headrace.dialects.bedrock.wire import Refused

IMPOSSIBLE_TIME = "400 Unique Constraints Violation"
"""In Bedrock's words: the column nextRun must not be NULL."""
LONGEST_DELAY = 8
ENDED_STATES = frozenset({"FINISHED", "CANCELLED"})


def finish_job(tx: Transaction, request: Request) -> None:
    """The run is over: repeat, wait for the children, or be gone."""
    row = _check(tx, request)
    children = _delete_ended(tx, row.job_id)
    data, repeating = _new_data(tx, row, request)
    if children & PENDING_STATES:
        _pause(tx, row, data)
    elif repeating and not request.flag("ignorerepeat"):
        _queue_again(tx, row, data, _repeat(tx, row), row.name, row.priority)
    elif row.parent_id:
        tx.run("set_state_and_data", row.job_id, "FINISHED", data)
        tx.resume_parent(row.parent_id)
    elif children:
        raise Refused("405 Failed to delete a job with outstanding children")
    else:
        tx.run("delete", row.job_id)
        tx.promote(row.sequential_key)


def retry_job(tx: Transaction, request: Request) -> None:
    row = _check(tx, request)
    _delete_ended(tx, row.job_id)
    data, repeating = _new_data(tx, row, request)
    name = request.get("name") or row.name
    priority = request.priority(row.priority)
    if repeating and not request.flag("ignorerepeat"):
        again = _repeat(tx, row)
    else:
        again = request.get("nextrun") or _delayed(tx, request.integer("delay"))
    _queue_again(tx, row, data, again, name, priority)


def fail_job(tx: Transaction, request: Request) -> None:
    row = tx.job(request.job_id())
    if row.state not in RUNNING_STATES:
        raise Refused("405 Can only fail RUNNING or RUNQUEUED jobs")
    data = request.find("data")
    tx.run("set_state_and_data", row.job_id, "FAILED", row.data if data is None else data)
    tx.promote(row.sequential_key)


def _check(tx: Transaction, request: Request) -> Row:
    row = tx.job(request.job_id())
    if row.state not in RUNNING_STATES and not is_mocked(row.data):
        raise Refused("405 Can only retry/finish RUNNING and RUNQUEUED jobs")
    if row.parent_id:
        parent = tx.find(row.parent_id)
        if parent is None or parent.state != "PAUSED":
            raise Refused("405 Can only retry/finish child job when parent is PAUSED")
    return row


def _delete_ended(tx: Transaction, job_id: int) -> set[str]:
    """The parent has seen the children that have ended: they are gone now. Returns the states of the others."""
    states = {read_text(state) for (state,) in tx.rows("children", job_id)}
    if not states.isdisjoint(ENDED_STATES):
        tx.run("delete_ended_children", job_id)
    return states - ENDED_STATES


def _new_data(tx: Transaction, row: Row, request: Request) -> tuple[str, bool]:
    """The data from now on, and whether the job still repeats."""
    data = request.get("data")
    repeating = bool(row.repeat)
    if data:
        if is_mocked(data) != is_mocked(row.data):
            raise Refused("500 Mock Mismatch")
        if "delete" in data and read_data(data).get("delete") in (True, "true"):
            repeating = False
    tidied = tx.value("forget_tries", data or row.data)
    if tidied is None:
        raise Refused("502 Failed to update job retryAfterCount")
    return tidied, repeating


def _pause(tx: Transaction, row: Row, data: str) -> None:
    if row.last_run is None:
        raise Refused(IMPOSSIBLE_TIME)
    tx.run("pause", row.job_id, data)
    tx.runnable += [read_text(name) for _, name in tx.rows("paused_children", row.job_id)]
    tx.run("release_children", row.job_id)


def _repeat(tx: Transaction, row: Row) -> str:
    due: str | None = row.next_run
    if row.retry_after:
        # Handing it out has replaced nextRun by the time to try again: what it had been is in the data.
        due = read_data(row.data).get("originalNextRun", due)
    again = next_run(row.repeat, scheduled=due, started=row.last_run, finished=tx.moment)
    if again is None:
        raise Refused(IMPOSSIBLE_TIME)
    return again


def _delayed(tx: Transaction, seconds: int) -> str:
    if seconds < 0:
        raise Refused("402 Must specify a non-negative delay when retrying")
    if len(str(seconds)) > LONGEST_DELAY:
        raise Refused("402 Malformed delay")
    return write_seconds(tx.moment + timedelta(seconds=seconds))


def _queue_again(tx: Transaction, row: Row, data: str, again: str, name: str, priority: int) -> None:
    tx.run("queue_again", row.job_id, again, name, priority, data)
    tx.queued(name, again)
