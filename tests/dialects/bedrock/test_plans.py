"""No command reads the whole table: the query plans, statement by statement."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from headrace.clock import SystemClock
from headrace.dialects.bedrock import line
from headrace.dialects.bedrock.database import Database
from headrace.dialects.bedrock.line import Wish, next_in_line
from headrace.dialects.bedrock.statements import SQL
from headrace.dialects.bedrock.transaction import Transaction

ON_JOBS = sorted(name for name, text in SQL.items() if " jobs" in text and name != "schema")
EXPECTED = {
    "due_of_name": "SEARCH jobs USING INDEX jobsNamePriorityNextRun (name=? AND priority=? AND nextRun<?)",
    "top_priority_of_name": "SEARCH jobs USING COVERING INDEX jobsNamePriorityNextRun (name=? AND priority<?)",
    "next_name": "SEARCH jobs USING COVERING INDEX jobsNamePriorityNextRun (name>? AND name<?)",
    "name_after": "SEARCH jobs USING COVERING INDEX jobsNamePriorityNextRun (name>? AND name<?)",
    "due": "SEARCH jobs USING COVERING INDEX jobsPriorityNextRunName (priority=? AND nextRun<?)",
    "top_priority": "SEARCH jobs USING COVERING INDEX jobsPriorityNextRunName (priority<?)",
    "next_due": "SEARCH jobs USING COVERING INDEX jobsPriorityNextRunName (priority=? AND nextRun>?)",
    "fallen_due": "SEARCH jobs USING COVERING INDEX jobsPriorityNextRunName (priority=? AND nextRun>? AND nextRun<?)",
    "by_name": "SEARCH jobs USING INDEX jobsName (name=?)",
    "first_waiting": "SEARCH jobs USING INDEX jobsSequentialKeyState (sequentialKey=? AND state=?)",
    "holder_of_sequence": "SEARCH jobs USING COVERING INDEX jobsSequentialKeyState (sequentialKey=? AND state=?)",
    "pending_child": "SEARCH jobs USING COVERING INDEX jobsParentJobIDState (parentJobID=? AND state=?)",
}
SORTED = {"ended_children", "fallen_due"}
"""Where a few rows are sorted, or made distinct, in the end."""


@pytest.fixture
def connection(tmp_path: Path) -> apsw.Connection:
    return Database(str(tmp_path / "jobs.db")).connection


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


@pytest.mark.parametrize("others", [0, 20_000])
@pytest.mark.parametrize("pattern", ["mine/x", "mine/*", "a,mine/x"])
def test_the_work_does_not_grow_with_the_queue(connection: apsw.Connection, pattern: str, others: int) -> None:
    """Steps of SQLite's machine for one hand-out, with other people's jobs in front of it."""
    connection.execute(
        "INSERT INTO jobs (created, state, name, nextRun, repeat, data, priority) "
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?) "
        "SELECT '2020', 'QUEUED', 'other/' || (x % 3), '2020', '', '{}', 1000 FROM n WHERE ? > 0",
        (others, others),
    )
    connection.execute(
        "INSERT INTO jobs (created, state, name, nextRun, repeat, data) "
        "VALUES ('2020', 'QUEUED', 'mine/x', '2020', '', '{}')"
    )
    tx = Transaction(connection, SystemClock().now(), set())
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.set_progress_handler(count, 1)
    (row,) = next_in_line(tx, Wish(pattern), 1)
    connection.set_progress_handler(None)
    assert row.name == "mine/x"
    assert steps < 1_500


def test_many_names_are_no_trouble_either(connection: apsw.Connection) -> None:
    """As many names as jobs: the line of all names is the short way."""
    connection.execute(
        "INSERT INTO jobs (created, state, name, nextRun, repeat, data) "
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000) "
        "SELECT '2020', 'QUEUED', 'mine/' || x, '2020', '', '{}' FROM n"
    )
    tx = Transaction(connection, SystemClock().now(), set())
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.set_progress_handler(count, 1)
    rows = next_in_line(tx, Wish("mine/*"), 3)
    connection.set_progress_handler(None)
    assert [row.job_id for row in rows] == [1, 2, 3]
    assert steps < 1_500


def test_the_end_of_a_prefix() -> None:
    assert line.first_beyond("a") == "b"
    assert line.first_beyond("\ud7ff") == "\ue000"
    assert line.first_beyond("a\U0010ffff") == "b"
    assert line.first_beyond("\U0010ffff") == b""
    assert line.first_beyond("") == b""
