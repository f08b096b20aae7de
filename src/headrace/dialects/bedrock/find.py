"""Looking at jobs for people: through QueryJob and Query, so that a look takes nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from headrace.dialects.bedrock.client.client import Client
from headrace.dialects.bedrock.client.replies import BedrockError, DoesNotExist
from headrace.dialects.bedrock.mapping import (
    SCHEDULE,
    Tasks,
    literal,
    milliseconds_of,
    read_name,
    read_state,
    split_data,
)
from headrace.dialects.bedrock.schedules import kept_in
from headrace.dialects.bedrock.times import write_moment
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY
from headrace.records import Counts, Filter, HistoryRecord, Lane, Page, Snapshot, State
from headrace.store.contract import Bonds
from headrace.traffic import is_test
from headrace.values.names import TEST_MARK

COLUMNS = "jobID, CAST(name AS BLOB), state, priority, created, nextRun, lastRun, CAST(data AS BLOB), repeat"
"""As bytes: one value that is not UTF-8 must not keep all others from being seen."""
_SQL_STATES = {
    State.SCHEDULED: "(state = 'QUEUED' AND nextRun > {now})",
    State.READY: "(state IN ('QUEUED', 'RUNQUEUED') AND nextRun <= {now})",
    State.RUNNING: "(state = 'RUNNING' OR (state = 'RUNQUEUED' AND nextRun > {now}))",
    State.BLOCKED: "state IN ('PAUSED', 'WAITING')",
    State.DONE: "state = 'FINISHED'",
    State.FAILED: "state = 'FAILED'",
    State.CANCELLED: "state = 'CANCELLED'",
}


def get(client: Client, ids: Sequence[str], tasks: Tasks, now: int) -> list[Snapshot | None]:
    """One QueryJob each; jobs that are done are gone."""
    columns = ("jobID", "name", "state", "priority", "created", "nextRun", "lastRun", "data", "repeat")
    found: list[Snapshot | None] = [None] * len(ids)
    for place, job_id in enumerate(ids):
        with suppress(DoesNotExist):
            if job_id.isdecimal():
                job = client.query_job(int(job_id))
                found[place] = _snapshot([job[name] for name in columns], tasks, now)
    return found


def find(client: Client, wanted: Filter, tasks: Tasks, now: int) -> Page:
    if wanted.group is not None:
        return Page([], None)  # Bedrock keeps no reasons
    conditions = []
    if wanted.states:
        moment = _quote(write_moment(now))
        conditions.append(f"({' OR '.join(_SQL_STATES[state].format(now=moment) for state in wanted.states)})")
    if wanted.queue is not None:
        conditions.append(_of_queue(wanted.queue, tasks))
    if wanted.task is not None:
        conditions.append(f"(name = {_quote(wanted.task)} OR name GLOB {_quote('*/' + literal(wanted.task))})")
    if wanted.schedule is not None:
        named = f"CASE WHEN json_valid(data) THEN json_extract(data, '$.{SCHEDULE}.name') END"
        conditions.append(f"repeat != '' AND coalesce({named}, CAST(jobID AS TEXT)) = {_quote(wanted.schedule)}")
    if wanted.after is not None:
        conditions.append(f"jobID < {int(wanted.after)}")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT {COLUMNS} FROM jobs{where} ORDER BY jobID DESC LIMIT {int(wanted.limit) + 1}"  # noqa: S608  (quoted)
    rows = client.query(sql).rows
    jobs = [_snapshot(row, tasks, now) for row in rows[: wanted.limit]]
    return Page(jobs, jobs[-1].id if len(rows) > wanted.limit else None)


def _of_queue(queue: str, tasks: Tasks) -> str:
    known = ", ".join(_quote(name) for name in tasks)
    if queue == "default":
        return f"(name NOT GLOB '?*/?*' OR name IN ({known}))"
    return f"(name GLOB {_quote(literal(queue) + '/?*')} AND name NOT IN ({known}))"


def counts(client: Client, tasks: Tasks, now: int) -> list[Counts]:
    moment = _quote(write_moment(now))
    sql = f"SELECT CAST(name AS BLOB), state, nextRun <= {moment}, count(*) FROM jobs GROUP BY 1, 2, 3"  # noqa: S608  (quoted)
    by_queue: dict[str, dict[State, int]] = {}
    for name, state, due, number in client.query(sql).rows:
        queue, _ = read_name(str(name), tasks)
        seen = by_queue.setdefault(queue, {})
        kind = read_state(state, "" if due else "~", "0")
        seen[kind] = seen.get(kind, 0) + number
    return [Counts(queue, by_queue[queue]) for queue in sorted(by_queue)]


def history(client: Client, job_id: str, tasks: Tasks, now: int) -> list[HistoryRecord]:
    """What can be told from a job's row."""
    (job,) = get(client, [job_id], tasks, now)
    if job is None:
        return []
    events = [HistoryRecord(job.created, "created")]
    if job.started is not None:
        events.append(HistoryRecord(job.started, "started"))
    if job.state in (State.FAILED, State.CANCELLED):
        events.append(HistoryRecord(job.started or job.created, job.state.value))
    return events


def named(client: Client, names: Sequence[str]) -> set[int]:
    """The jobs that have one of these names."""
    return _ids(client, f"name IN ({', '.join(map(_quote, names))})") if names else set()


def children(client: Client, job_id: int) -> set[str]:
    """The children of a job that have not ended."""
    pending = "state IN ('QUEUED', 'RUNQUEUED', 'RUNNING', 'PAUSED')"
    return set(map(str, _ids(client, f"parentJobID = {int(job_id)} AND {pending}")))


def stranded(client: Client, ids: Sequence[str]) -> list[bool]:
    """Which jobs have neither a retryAfter nor a parent."""
    named = ", ".join(job_id for job_id in ids if job_id.isdecimal())
    found = set(map(str, _ids(client, f"jobID IN ({named}) AND retryAfter = '' AND parentJobID = 0")))
    return [job_id in found for job_id in ids]


PARENT = "It waits there for its children, or goes on with what they have done."
CHILD = "Another job there waits for it."
BEHIND = "It comes after a job of its sequence that stays there."
_ACTIVE = "state IN ('QUEUED', 'RUNQUEUED', 'RUNNING', 'PAUSED')"
_STAYS = (
    "state IN ('RUNNING', 'PAUSED') OR (state = 'RUNQUEUED' AND nextRun > {now}) OR repeat != '' OR parentJobID != 0 "
    "OR EXISTS (SELECT 1 FROM jobs child WHERE child.parentJobID = holder.jobID AND child.parentJobID != 0)"
)


def bonds(client: Client, ids: Sequence[str], tasks: Tasks, now: int) -> list[Bonds]:
    """The sequences of jobs, which neither QueryJob nor GetJobs shows, and what ties them to others."""
    stays = _STAYS.format(now=_quote(write_moment(now)))
    holders = f"SELECT 1 FROM jobs holder WHERE sequentialKey = job.sequentialKey AND {_ACTIVE} AND ({stays})"  # noqa: S608  (quoted)
    children = "SELECT 1 FROM jobs child WHERE child.parentJobID = job.jobID AND child.parentJobID != 0"
    named = ", ".join(job_id for job_id in ids if job_id.isdecimal())
    sql = (
        "SELECT jobID, CAST(name AS BLOB), CAST(sequentialKey AS BLOB), parentJobID != 0, "  # noqa: S608  (quoted)
        f"EXISTS ({children}), state = 'WAITING' AND sequentialKey != '' AND EXISTS ({holders}) "
        f"FROM jobs job WHERE jobID IN ({named})"
    )
    found: dict[str, Bonds] = {}
    for job_id, name, written, is_child, has_children, is_behind in client.query(sql).rows:
        queue, _ = read_name(str(name), tasks)
        key = str(written).removeprefix(TEST_MARK) if is_test(queue) else str(written)
        tied = CHILD if is_child else PARENT if has_children else BEHIND if is_behind else ""
        found[str(job_id)] = Bonds(Lane(key, sequence=True) if key else None, tied)
    return [found.get(job_id, Bonds()) for job_id in ids]


def _ids(client: Client, where: str) -> set[int]:
    """The jobs of which this is true, as far as the server says."""
    with suppress(BedrockError):
        return {job_id for (job_id,) in client.query(f"SELECT jobID FROM jobs WHERE {where}").rows}  # noqa: S608  (quoted)
    return set()


def advice(client: Client) -> list[str]:
    """Jobs that would be lost with their worker."""
    rows = client.query(
        "SELECT CAST(name AS BLOB), count(*) FROM jobs "
        "WHERE retryAfter = '' AND state IN ('QUEUED', 'RUNNING', 'PAUSED', 'WAITING') "
        "GROUP BY 1 ORDER BY 2 DESC LIMIT 20"
    ).rows
    return [
        f"{number:,} {'job' if number == 1 else 'jobs'} named {str(name)!r} without a retryAfter: "
        "one whose worker dies stays RUNNING for ever. Create them with a retryAfter longer than they take."
        for name, number in rows
    ]


def _snapshot(row: Sequence[Any], tasks: Tasks, now: int) -> Snapshot:
    job_id, name, state, priority, created, next_run, last_run, data, repeat = row
    queue, task = read_name(str(name), tasks)
    body, rest, tries = split_data(msgspec.json.encode(data), tasks.get(task))
    return Snapshot(
        id=str(job_id),
        task=task,
        queue=queue,
        state=read_state(state, str(next_run), write_moment(now)),
        priority=priority - DEFAULT_PRIORITY,
        body=body,
        created=milliseconds_of(created) or 0,
        due=milliseconds_of(next_run) or 0,
        started=milliseconds_of(last_run),
        attempts=tries,
        token=tries,
        data=rest,
        schedule=kept_in(data, job_id).name if repeat else None,
        tick=milliseconds_of(next_run) if repeat else None,
    )


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
