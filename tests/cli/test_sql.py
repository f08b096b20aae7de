"""Looking with SQL, from the shell and from Python: it reads, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.errors import ConfigurationError, Unsupported
from store.redis import servers

from . import shop

Ask = Callable[..., Any]
Run = Callable[..., Any]


def test_a_table_and_json(app: Headrace, ask: Ask, run: Run) -> None:
    job = shop.add.enqueue(1)
    query = "SELECT id, state, arguments, started FROM jobs"
    lines = run("sql", query).stdout.splitlines()
    assert lines[0].split() == ["ID", "STATE", "ARGUMENTS", "STARTED"]
    assert lines[1].split()[:2] == [job.id, "ready"]
    (row,) = ask("sql", query)["rows"]
    assert (row["id"], row["state"], row["started"]) == (job.id, "ready", None)
    assert ask("sql", "SELECT x'00ff' AS bytes, 1.5 AS number")["rows"] == [
        {"bytes": {"base64": "AP8="}, "number": 1.5}
    ]
    assert run("sql", "SELECT id FROM jobs WHERE state = 'failed'").stdout == "No rows.\n"


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM job",
        "UPDATE job SET state = 4",
        "INSERT INTO event DEFAULT VALUES",
        "CREATE TABLE extra (x)",
        "DROP TABLE job",
        "ATTACH 'other.db' AS other",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 9",
        "COMMIT",
        "VACUUM",
        "SELECT 1; DELETE FROM job",
        "SELECT 1; SELECT 2",
        "SELECT nothing FROM jobs",
        "SELEKT",
        "SELECT ?",
    ],
)
def test_what_does_not_only_read_is_refused(query: str, app: Headrace, run: Run, tmp_path: Path) -> None:
    """Before it did anything; and the store goes on as before."""
    shop.add.enqueue(1)
    result = run("sql", query)
    assert result.exit_code == exits.CONFIGURATION
    assert any(words in result.stderr for words in ("only reads", "One statement at a time", "can't be run"))
    shop.add.enqueue(2)
    assert run("sql", "SELECT count(*) AS jobs FROM jobs").stdout.split() == ["JOBS", "2"]
    assert run("sql", "SELECT name FROM pragma_table_info('jobs')").exit_code == exits.OK
    assert not (tmp_path / "other.db").exists()


def test_from_python(app: Headrace) -> None:
    job = shop.add.enqueue(1)
    query = "SELECT state FROM jobs WHERE id = ? AND queue = ?"
    assert app.sql(query, job.id, "default") == [{"state": "ready"}]
    assert asyncio.run(app.asql(query, job.id, "default")) == [{"state": "ready"}]
    assert app.sql(query, "nobody", "default") == []
    for values in ((), (object(), "default")):
        with pytest.raises(ConfigurationError, match="can't be run"):
            app.sql(query, *values)


def test_where_there_is_no_sql(run: Run) -> None:
    url = servers.fresh_url()
    assert "has no SQL: use a SQLite or PostgreSQL store for that." in run("sql", "SELECT 1", store=url).stderr
    app = Headrace(url)
    with pytest.raises(Unsupported, match=r"sql\(\) can't be used with .*, which has no SQL: use a SQLite or Post"):
        app.sql("SELECT 1")
    app.close()
