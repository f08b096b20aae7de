"""The command line on an hworker queue: the same commands as everywhere, and plain words where the wire has nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import cli
from store.redis.servers import Server

from .scene import Queue


class Shell:
    """Runs commands against the test's queue, in this process."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, *words: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, [*words, "--store", self._url])
        assert result.exit_code == code, result.output
        return result.output

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def shell(one_server: Server, name: str) -> Shell:
    return Shell(f"hworker+{one_server.url}?name={name}")


def test_enqueue_look_and_act(shell: Shell, one_queue: Queue) -> None:
    job_id = shell("enqueue", "dialects.hworker.tasks:work", "7", "--app", "dialects.hworker.tasks:app").strip()
    assert json.loads(one_queue.jobs[0]) == [job_id, [7]]
    assert [job["id"] for job in shell.json("jobs")["jobs"]] == [job_id]
    shown = shell("job", job_id)
    assert "ready" in shown
    assert "history" not in shown
    assert "cancelled" in shell("cancel", job_id)
    assert one_queue.keys == set()


def test_failures_are_revived_page_by_page(shell: Shell, one_queue: Queue) -> None:
    for number in range(120):
        one_queue.client.lpush(one_queue.failed_key, b'["id%d",[1]]' % number)
    assert "120" in shell("failures")
    assert shell.json("revive", "--group", "failed", "--yes") == {"matching": 120, "revived": 120, "refused": 0}
    assert len(one_queue.jobs) == 120


def test_doctor_knows_the_queue(shell: Shell, one_queue: Queue) -> None:
    one_queue.push(b'["a",[1]]')
    assert "revive" in shell("doctor", code=1)  # the test's server keeps nothing on disk, and doctor says so
