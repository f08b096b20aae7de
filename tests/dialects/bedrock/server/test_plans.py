"""No command reads the whole table: the query plans, statement by statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headrace.dialects.bedrock.server import take
from headrace.dialects.bedrock.server.database import Database
from headrace.dialects.bedrock.server.statements import SQL
from headrace.dialects.bedrock.server.take import Wish, next_in_line
from headrace.dialects.bedrock.server.transaction import Transaction
from headrace.values.clock import SystemClock

ON_JOBS = sorted(name for name, text in SQL.items() if " jobs" in text and name != "schema")
BY_NAME, OF_ALL = "jobsMockedNamePriorityNextRun", "jobsMockedPriorityNextRunName"
"""The lines that GetJob reads. Their first column, an expression, is whether a job is mocked."""
EXPECTED = {
    "due_of_name": f"SEARCH jobs USING COVERING INDEX {BY_NAME} (<expr>=? AND name=? AND priority=? AND nextRun<?)",
    "top_priority_of_name": f"SEARCH jobs USING COVERING INDEX {BY_NAME} (<expr>=? AND name=? AND priority<?)",
    "next_name": f"SEARCH jobs USING COVERING INDEX {BY_NAME} (<expr>=? AND name>? AND name<?)",
    "name_after": f"SEARCH jobs USING COVERING INDEX {BY_NAME} (<expr>=? AND name>? AND name<?)",
    "due": f"SEARCH jobs USING COVERING INDEX {OF_ALL} (<expr>=? AND priority=? AND nextRun<?)",
    "top_priority": f"SEARCH jobs USING COVERING INDEX {OF_ALL} (<expr>=? AND priority<?)",
    "next_due": f"SEARCH jobs USING COVERING INDEX {OF_ALL} (<expr>=? AND priority=? AND nextRun>?)",
    "fallen_due": f"SEARCH jobs USING COVERING INDEX {OF_ALL} (<expr>=? AND priority=? AND nextRun>? AND nextRun<?)",
    "by_name": "SEARCH jobs USING INDEX jobsName (name=? AND <expr>=?)",
    "first_waiting": "SEARCH jobs USING INDEX jobsSequentialKeyState (sequentialKey=? AND state=?)",
    "holder_of_sequence": "SEARCH jobs USING COVERING INDEX jobsSequentialKeyState (sequentialKey=? AND state=?)",
    "pending_child": "SEARCH jobs USING COVERING INDEX jobsParentJobIDState (parentJobID=? AND state=?)",
}
SORTED = {"ended_children", "fallen_due"}
"""Where a few rows are sorted, or made distinct, in the end."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    database = Database(str(tmp_path / "jobs.db"))
    yield database.connection
    database.close()


@pytest.mark.parametrize("name", ON_JOBS)
def test_plans(connection: apsw.Connection, name: str) -> None:
    values = (None,) * SQL[name].count("?")
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values[: _parameters(SQL[name])])]
    assert not [step for step in plan if "SCAN" in step], plan
    if name not in SORTED:
        assert not [step for step in plan if "B-TREE" in step], plan
    if name in EXPECTED:
        assert plan[0] == EXPECTED[name]


def _parameters(statement: str) -> int:
    return max(map(int, re.findall(r"\?(\d+)", statement)), default=0)


def fill(connection: apsw.Connection, count: int, name: str, data: str = "{}", priority: int = 500) -> None:
    """So many jobs, their names from their numbers: `x`."""
    connection.execute(
        "INSERT INTO jobs (created, state, name, nextRun, repeat, data, priority) "
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < :count) "
        f"SELECT '2020', 'QUEUED', {name}, '2020', '', :data, :priority FROM n WHERE :count > 0",
        {"count": count, "data": data, "priority": priority},
    )


class Steps:
    """Counts the steps of SQLite's machine within a block."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.count = 0

    def _step(self) -> bool:
        self.count += 1
        return False

    def __enter__(self) -> Steps:
        self._connection.set_progress_handler(self._step, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.set_progress_handler(None)


@pytest.mark.parametrize("others", [0, 20_000])
@pytest.mark.parametrize("pattern", ["mine/x", "mine/*", "a,mine/x"])
def test_the_work_does_not_grow_with_the_queue(connection: apsw.Connection, pattern: str, others: int) -> None:
    """One hand-out, with other people's jobs in front of it."""
    fill(connection, others, "'other/' || (x % 3)", priority=1000)
    fill(connection, 1, "'mine/x'")
    tx = Transaction(connection, SystemClock().now(), set())
    with Steps(connection) as steps:
        (job_id,) = next_in_line(tx, Wish(pattern), 1)
    assert job_id == others + 1
    assert steps.count < 1_500


def test_many_names_are_no_trouble_either(connection: apsw.Connection) -> None:
    """As many names as jobs: the line of all names is the short way."""
    fill(connection, 20_000, "'mine/' || x")
    tx = Transaction(connection, SystemClock().now(), set())
    with Steps(connection) as steps:
        assert next_in_line(tx, Wish("mine/*"), 3) == [1, 2, 3]
    assert steps.count < 1_500


@pytest.mark.parametrize("mocked", ['{"mockRequest":true}', '{"a":1,"mock\\u0052equest":null}'])
@pytest.mark.parametrize("name", ["'mine/x'", "'mine/' || x"])
@pytest.mark.parametrize("pattern", ["mine/x", "mine/*", "*", "m*x", "a,mine/x"])
def test_real_jobs_are_found_behind_any_number_of_mocked_ones(
    connection: apsw.Connection, pattern: str, name: str, mocked: str
) -> None:
    fill(connection, 20_000, name, mocked, priority=1000)
    tx = Transaction(connection, SystemClock().now(), set())
    with Steps(connection) as steps:
        assert next_in_line(tx, Wish(pattern), 1) == []
    assert steps.count < 1_500
    fill(connection, 1, "'mine/x'", '{"a":"\\u0052 is no mockRequest"}')
    with Steps(connection) as steps:
        assert next_in_line(tx, Wish(pattern), 1) == [20_001]
        assert tx.first("by_name", "mine/x", 0)[0] == 20_001
    assert steps.count < 1_500
    with Steps(connection) as steps:
        assert next_in_line(tx, Wish("mine/*", mocked=True), 3) == [1, 2, 3]
    assert steps.count < 1_500


def test_the_end_of_a_prefix() -> None:
    assert take.first_beyond("a") == "b"
    assert take.first_beyond("\ud7ff") == "\ue000"
    assert take.first_beyond("a\U0010ffff") == "b"
    assert take.first_beyond("\U0010ffff") == b""
    assert take.first_beyond("") == b""
