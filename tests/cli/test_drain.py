"""`headrace drain`."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace
from headrace.cli import cli, exits
from headrace.ops import act, audit, drain, look
from processes import environment

from . import shop
from .test_copy import counted


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["drain", *arguments])


@pytest.fixture
def other(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/other.db"


def test_a_dry_run_says_what_would_be_done_and_does_nothing(app: Headrace, url: str, other: str) -> None:
    shop.add.enqueue(1)
    result = run(url, other, "--dry-run")
    assert (result.exit_code, result.stdout) == (exits.OK, "1 job and 0 schedules would be moved.\n")
    bedrock = run(url, "bedrock://localhost:1", "--dry-run", "--json")
    plan = json.loads(bedrock.stdout)
    assert (bedrock.exit_code, plan["jobs"], plan["left"]) == (exits.OK, 1, [])
    assert "if the drain is killed, the 100 jobs of one step may come twice." in plan["warnings"][0]
    assert counted(url) == 1


def test_it_asks_unless_told_not_to(app: Headrace, url: str, other: str) -> None:
    shop.add.enqueue(1)
    result = run(url, other)
    assert (result.exit_code, "Nobody is there to be asked: add --yes." in result.stderr) == (exits.USAGE, True)
    result = run(url, other, "--yes", "--map", "shop:add=sums:add", "--map-queue", "default=sums", "--rate", "1000")
    assert result.stdout == "1 job and 0 schedules moved.\n"
    assert (counted(url), counted(other)) == (0, 1)
    assert [queue.queue for queue in look.queues(app)] == ["default"], "a job came within the last minute"
    (line,) = audit.trail(app)
    assert (line.what, line.about) == ("drain", f"to {other}: jobs 1, schedules 0")
    assert json.loads(run(url, other, "--yes", "--json").stdout) == {
        "jobs": 0,
        "schedules": 0,
        "left": [],
        "running": {"number": 0, "since": None, "until": None},
        "held": [],
    }


def test_what_stays_is_told(app: Headrace, url: str, other: str) -> None:
    shop.add.using(tags=["red"]).enqueue(1)
    result = run(url, "hworker+redis://localhost:1/0?name=x", "--dry-run")
    assert "Not carried:" in result.stdout
    assert "has no tags: leave tags out." in result.stdout
    assert result.exit_code == exits.NOT_DONE


def test_what_is_held_back_is_told(app: Headrace, url: str, other: str) -> None:
    shop.add.enqueue(1)
    act.pause(app, "default", by="ann")
    for flag in ("--dry-run", "--yes"):
        result = run(url, other, flag)
        assert "queue default\tpaused by ann\t\theadrace queues resume default" in result.stdout
        assert ("Note: Queue default would be paused at" in result.stderr) == (flag == "--dry-run")
        assert result.exit_code == exits.OK


def test_a_queue_that_is_resumed_at_the_target_during_a_drain_is_not_paused_again(
    app: Headrace, url: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "AT_ONCE", 1)
    app.enqueue_many([shop.add.call(number) for number in range(2)])
    act.pause(app, "default")
    with contextlib.closing(Headrace(other)) as there:
        resumed: list[bool] = []
        drain.drain(app, there, advance=lambda _: resumed.append(act.resume(there, "default").changed))
    assert resumed == [True, False]


def test_a_pair_without_an_equals_sign_is_refused(url: str, other: str) -> None:
    result = run(url, other, "--map", "nonsense")
    assert (result.exit_code, "--map nonsense: write it as OLD=NEW." in result.stderr) == (exits.USAGE, True)


@pytest.mark.process
@pytest.mark.parametrize("point", ["drain.claimed", "drain.put:2", "drain.released", "drain.deleted"])
def test_a_process_that_dies_leaves_what_the_next_one_finishes(app: Headrace, url: str, other: str, point: str) -> None:
    app.enqueue_many([shop.add.call(number) for number in range(250)])
    command = [sys.executable, "-m", "headrace", "drain", url, other, "--yes", "--json"]
    first = subprocess.run(command, env={**environment(), "HEADRACE_CRASH": point}, capture_output=True, check=False)
    assert first.returncode == 128 + signal.SIGKILL
    second = subprocess.run(command, env=environment(), capture_output=True, check=True)
    assert json.loads(second.stdout)["left"] == []
    assert (counted(url), counted(other)) == (0, 250)
