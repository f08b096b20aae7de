"""GetJob and GetJobs: hand out jobs that are due, each to exactly one worker."""

from __future__ import annotations

from headrace.dialects.bedrock.line import Wish, next_in_line
from headrace.dialects.bedrock.moments import next_run, shift
from headrace.dialects.bedrock.transaction import Answer, Row, Transaction, read_text
from headrace.dialects.bedrock.values import (
    MOST_TRIES,
    read_data,
    read_integer,
    read_priority,
    render,
    render_object,
    render_text,
)
from headrace.dialects.bedrock.wire import Refused, Request

LONGEST_PATTERN = 12_750
MOST_JOBS = 10_000
"""An answer holds no more jobs than this, however many are asked for: everybody else waits while it is made."""


class Wanted:
    """A checked GetJob or GetJobs: the wish, how many, and whether the answer is a list."""

    __slots__ = ("count", "many", "wish")

    def __init__(self, request: Request) -> None:
        name = request.get("name")
        if not name:
            raise Refused("402 Missing name")
        if len(name.encode()) > LONGEST_PATTERN:
            raise Refused("402 Malformed name")
        self.many = request.verb == "getjobs"
        number = request.find("numresults")
        if self.many and number is None:
            raise Refused("402 Missing numResults")
        if not self.many and number is not None:
            raise Refused("402 Cannot use numResults with GetJob; try GetJobs")
        self.count = min(max(1, read_integer(number or "")), MOST_JOBS)
        priority = request.find("jobpriority")
        mocked = request.find("mockrequest") is not None or request.find("getmockedjobs") is not None
        self.wish = Wish(name, None if priority is None else read_priority(priority), mocked=mocked)


class HandOut:
    """What a GetJob or GetJobs took: the answer, and the ids to put back should it not be delivered."""

    __slots__ = ("body", "ids")

    def __init__(self, body: Answer, ids: list[int]) -> None:
        self.body = body
        self.ids = ids


def get_jobs(tx: Transaction, wanted: Wanted) -> HandOut | None:
    """Take what there is; None when there is nothing."""
    rows = next_in_line(tx, wanted.wish, wanted.count)
    if not rows:
        return None
    taken = []
    bodies = []
    for row in rows:
        if _blacklisted(tx, row.name) or _tries(row) >= MOST_TRIES:
            tx.fail(row)
            continue
        bodies.append(_describe(tx, row))
        _start(tx, row)
        taken.append(row.job_id)
    if wanted.many:
        return HandOut(f'{{"jobs":[{",".join(bodies)}]}}', taken)
    return HandOut(bodies[0] if bodies else "{}", taken)


def _blacklisted(tx: Transaction, name: str) -> bool:
    return any(tx.value("matches", name, pattern) for pattern in tx.blacklist)


def _tries(row: Row) -> int:
    if "retryAfterCount" not in row.data:
        return 0
    count = read_data(row.data).get("retryAfterCount")
    return read_integer(str(count)) if isinstance(count, int | float | str) else 0


def _describe(tx: Transaction, row: Row) -> str:
    """The job as it was before it was handed out."""
    members = [
        ("created", render(row.created)),
        ("data", render(row.data)),
        ("jobID", str(row.job_id)),
        ("lastRun", render(row.last_run)),
        ("name", render(row.name)),
        ("nextRun", render(row.next_run)),
        ("priority", render(row.priority)),
        ("repeat", render(row.repeat)),
        ("retryAfter", render(row.retry_after)),
    ]
    if row.parent_id:
        parent = tx.find(row.parent_id)
        members.append(("parentData", render_text("") if parent is None else render(parent.data)))
        members.append(("parentJobID", str(row.parent_id)))
    else:
        members += _ended_children(tx, row.job_id)
    return render_object(sorted(members, key=lambda member: member[0].lower()) if len(members) > 9 else members)


def _ended_children(tx: Transaction, job_id: int) -> list[tuple[str, str]]:
    children = tx.rows("ended_children", job_id)
    if not children:
        return []
    lists: dict[str, list[str]] = {"FINISHED": [], "CANCELLED": []}
    for child_id, state, data in children:
        lists[state].append(render_object([("data", render(read_text(data))), ("jobID", str(child_id))]))
    return [
        ("cancelledChildJobs", f"[{','.join(lists['CANCELLED'])}]"),
        ("finishedChildJobs", f"[{','.join(lists['FINISHED'])}]"),
    ]


def _start(tx: Transaction, row: Row) -> None:
    if not row.retry_after:
        tx.run("start", row.job_id, tx.now_seconds)
        return
    again = shift(row.retry_after, tx.moment)
    scheduled = row.repeat[:9].upper() == "SCHEDULED"
    if row.repeat:
        repeated = next_run(row.repeat, scheduled=row.next_run, started=tx.now_seconds, finished=tx.moment)
        again = None if again is None or repeated is None else min(again, repeated)
    if again is None:
        # Nobody can say when to try again. The worker has it already; nobody else will get it.
        tx.run("start", row.job_id, tx.now_seconds)
        tx.fail(row)
        return
    tx.run("start_with_retry", row.job_id, tx.now_seconds, again)
    if not row.name.startswith("manual"):
        tx.run("count_try", row.job_id, _tries(row) + 1, row.next_run if scheduled else None)
