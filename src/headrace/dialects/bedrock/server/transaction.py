"""What a command works on: one transaction, its time, and the jobs that it makes runnable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import apsw

from headrace.dialects.bedrock.server.statements import SQL
from headrace.dialects.bedrock.server.values import render
from headrace.dialects.bedrock.times import write_moment
from headrace.dialects.bedrock.wire import Refused

Answer: TypeAlias = str
"""The body of an answer, as JSON text."""

RUNNING_STATES = ("RUNNING", "RUNQUEUED")
PENDING_STATES = frozenset({"QUEUED", "RUNQUEUED", "RUNNING", "PAUSED"})
MOST_REMEMBERED = 10_000


class Row(NamedTuple):
    """A row of the table `jobs`, columns in their order."""

    created: str
    job_id: int
    state: str
    name: str
    next_run: str
    last_run: str | None
    repeat: str
    data: str
    priority: int
    parent_id: int
    retry_after: str
    sequential_key: str


def read_text(value: bytes) -> str:
    """A text of the table. What is not UTF-8, which only a Query or another program can have written, is replaced."""
    return str(value, "utf-8", "replace")


def read_row(values: Iterable[Any]) -> Row:
    """A row from the columns as the statements read them: texts as bytes."""
    return Row._make([read_text(value) if isinstance(value, bytes) else value for value in values])


def describe(row: Row) -> list[tuple[str, str]]:
    """A job's columns for an answer: names and JSON, in alphabetical order."""
    return [
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


class Transaction:
    """A write transaction that commands share, each within a savepoint of its own. All see the same time."""

    __slots__ = ("blacklist", "by_names", "execute", "last_id", "moment", "now", "now_seconds", "runnable", "woken")

    def __init__(
        self,
        connection: apsw.Connection,
        milliseconds: int,
        blacklist: set[str],
        by_names: set[tuple[str, int]] | None = None,
    ) -> None:
        self.execute: Callable[..., apsw.Cursor] = connection.execute
        self.last_id: Callable[[], int] = connection.last_insert_rowid
        """The id of the job that was inserted last."""
        self.moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
        self.now = write_moment(milliseconds)
        self.now_seconds = self.now[:19]
        self.blacklist = blacklist
        """Patterns of job names that are to be failed instead of handed out."""
        self.by_names = set() if by_names is None else by_names
        """Patterns, and kinds of jobs, that were found name by name the last time: see `take.py`."""
        self.runnable: list[str] = []
        """Names of which there may be a job to run now: their waiters should try."""
        self.woken = False
        """Any job may have become runnable: all waiters should try."""

    def run(self, statement: str, *values: Any) -> None:
        self.execute(SQL[statement], values)

    def rows(self, statement: str, *values: Any) -> list[Any]:
        return self.execute(SQL[statement], values).fetchall()

    def stream(self, statement: str, *values: Any) -> Iterator[Any]:
        """The rows of a query one by one; what is not asked for is not read."""
        cursor = self.execute(SQL[statement], values)
        try:
            yield from cursor
        finally:
            cursor.close()

    def first(self, statement: str, *values: Any) -> Any:
        rows = self.execute(SQL[statement], values).fetchall()
        return rows[0] if rows else None

    def value(self, statement: str, *values: Any) -> Any:
        row = self.first(statement, *values)
        return None if row is None else row[0]

    def matches(self, name: str, pattern: str) -> bool:
        """Whether a name matches a pattern, by SQLite's own rules."""
        return bool(self.value("matches", name, pattern))

    def find(self, job_id: int) -> Row | None:
        row = self.first("by_id", job_id)
        return None if row is None else read_row(row)

    def job(self, job_id: int) -> Row:
        row = self.find(job_id)
        if row is None:
            raise Refused("404 No job with this jobID")
        return row

    def remember(self, pattern: tuple[str, int], *, by_names: bool) -> None:
        """Which way to a pattern's jobs of a kind was the short one."""
        if not by_names:
            self.by_names.discard(pattern)
        elif len(self.by_names) < MOST_REMEMBERED:
            self.by_names.add(pattern)

    def queued(self, name: str, next_run: str) -> None:
        """A job has entered the line: its waiters try, if it is due."""
        if next_run <= self.now:
            self.runnable.append(name)

    def wake_all(self) -> None:
        """Any job may have become runnable."""
        self.woken = True

    def promote(self, key: str) -> None:
        """A job of a sequence has ended: the oldest waiting one is next, unless another is active."""
        if not key or self.first("holder_of_sequence", key, 0) is not None:
            return
        successor = self.first("first_waiting", key)
        if successor is not None:
            job_id, name, next_run = successor
            self.run("set_state", job_id, "QUEUED")
            self.queued(read_text(name), read_text(next_run))

    def fail(self, row: Row) -> None:
        """A job has failed without a worker saying so."""
        self.run("set_state", row.job_id, "FAILED")
        self.promote(row.sequential_key)

    def resume_parent(self, parent_id: int, blocked_by: str = "pending_child") -> None:
        """A child has ended: its parent goes on when there is no sibling to wait for."""
        if self.first(blocked_by, parent_id) is not None:
            return
        parent = self.find(parent_id)
        if parent is not None and parent.state == "PAUSED":  # one that runs is with a worker, and stays there
            self.run("set_state", parent_id, "QUEUED")
            self.queued(parent.name, parent.next_run)
