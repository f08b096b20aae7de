"""Damaged jobs on the command line: shown, found and deleted like any other."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from headrace.cli import cli
from headrace.records import NewJob
from headrace.store.sqlite.store import SqliteStore


def headrace(url: str, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [*arguments, "--store", url])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "change",
    [
        "flags = -5",
        "state = 9",
        "token = -3",
        "body = x'00ff80', options = x'00ff80'",
        "created = -(1 << 60), due = 1 << 60",
    ],
)
def test_a_damaged_job_on_the_command_line(tmp_path: Path, change: str) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = SqliteStore(url)
    store.run(store.put([NewJob(id=job_id, task="t", body=b"{}") for job_id in ("victim", "other")]))
    store.close()
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute(f"UPDATE job SET {change} WHERE id = 'victim'")
    connection.close()

    _, found = headrace(url, "doctor")
    assert ("`damaged`: victim." in found) == change.startswith(("flags", "state", "token"))
    for command in (["jobs"], ["jobs", "--json"], ["job", "victim"], ["job", "victim", "--json"]):
        code, output = headrace(url, *command)
        assert code == 0
        assert "victim" in output
    if change == "flags = -5":
        _, output = headrace(url, "job", "victim", "--json")
        assert json.loads(output)["group"] == "damaged"
    assert headrace(url, "delete", "victim")[0] == 0
    code, output = headrace(url, "jobs")
    assert "victim" not in output
    assert "other" in output
