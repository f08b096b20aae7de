"""`headrace cancel`, `delete`, `revive`, `purge`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, JobCancelled, State
from headrace.cli import exits, failures
from processes import WorkerProcess, environment, eventually

from . import shop
from .conftest import Run

Ask = Callable[..., Any]
NOBODY = "0" * 32


def test_cancel(app: Headrace, run: Run) -> None:
    waiting, done = shop.add.using(queue="other").enqueue(1), shop.add.enqueue(2)
    app.worker(queues=["default"]).run_until_empty()
    result = run("cancel", waiting.id, done.id, NOBODY)
    assert result.exit_code == exits.NOT_DONE
    assert result.stdout == f"{waiting.id}  cancelled\n"
    assert result.stderr == f"{done.id}  done already\n{NOBODY}  not found\n"
    assert waiting.state is State.CANCELLED


def test_cancel_a_running_job(app: Headrace, worker: WorkerProcess, ask: Ask, tmp_path: Path) -> None:
    began = tmp_path / "began"
    job = shop.hold.enqueue(str(began), str(tmp_path / "never"))
    eventually(began.exists, "the job to begin")
    answer = ask("cancel", job.id)
    assert answer == {"jobs": [{"id": job.id, "ok": True, "outcome": "told to stop"}]}
    with pytest.raises(JobCancelled):
        job.result(timeout=20)


def test_delete(app: Headrace, run: Run, ask: Ask) -> None:
    job = shop.add.enqueue(1)
    assert run("delete", job.id).output == f"{job.id}  deleted\n"
    answer = ask("delete", job.id, code=exits.NOT_DONE)
    assert answer == {"jobs": [{"id": job.id, "ok": False, "outcome": "not found"}]}


def failed(app: Headrace) -> list[str]:
    jobs = [shop.fail.enqueue(), shop.fail.enqueue(), shop.give_up.enqueue()]
    app.worker().run_until_empty()
    return [job.id for job in jobs]


def test_revive_by_id(app: Headrace, run: Run) -> None:
    first, *_ = failed(app)
    ready = shop.add.enqueue(1)
    result = run("revive", first, ready.id, NOBODY)
    assert result.exit_code == exits.NOT_DONE
    assert result.stdout == f"{first}  revived\n"
    assert result.stderr == f"{ready.id}  refused: it is ready\n{NOBODY}  not found\n"


def test_revive_refuses_to_break_uniqueness(app: Headrace, run: Run) -> None:
    first = shop.add.using(unique_key="k").enqueue(1)
    assert first.cancel()
    shop.add.using(unique_key="k").enqueue(1)
    result = run("revive", first.id)
    assert result.exit_code == exits.NOT_DONE
    assert result.stderr == f"{first.id}  refused: another job has its unique key\n"


def test_revive_by_group_pages_through(app: Headrace, run: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PAGE", 1)
    failed(app)
    assert run("revive", "--group", "ValueError").output == "2 revived.\n"
    assert ask("queues")["queues"][0]["ready"] == 2
    assert ask("revive", "--queue", "default") == {"revived": 1, "refused": 0}
    result = run("revive", "--task", "cli.shop:fail")
    assert (result.exit_code, result.output) == (exits.NOT_DONE, "No failed jobs fit.\n")


def test_revive_by_tag_and_by_names_of_tasks(app: Headrace, ask: Ask) -> None:
    shop.fail.using(tags=["night"]).enqueue("a")
    shop.fail.enqueue("b")
    shop.give_up.using(tags=["night"]).enqueue()
    app.worker().run_until_empty()
    assert ask("revive", "--tag", "night", "--task-like", "*:fa*") == {"revived": 1, "refused": 0}
    assert ask("revive", "--task-like", "cli.shop:*") == {"revived": 2, "refused": 0}


@pytest.mark.parametrize("arguments", [[], [NOBODY, "--group", "x"]])
def test_revive_what(arguments: list[str], app: Headrace, run: Run) -> None:
    result = run("revive", *arguments)
    assert result.exit_code == exits.USAGE
    assert "Which jobs? Give their ids, or --group, --task, --task-like, --queue or --tag." in result.stderr


def test_purge(app: Headrace, run: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PAGE", 2)
    failed(app)
    app.enqueue_many([shop.add.call(number) for number in range(5)])
    app.worker().run_until_empty()
    waiting = shop.add.enqueue(1)
    assert run("purge", "--yes", "--older-than", "1 hour").output == "0 deleted.\n"
    assert run("purge", "--yes", "--task", "other").output == "0 deleted.\n"
    assert run("purge", "--yes").output == "5 deleted.\n"
    assert ask("purge", "--yes", "--state", "failed", "--queue", "default") == {"deleted": 3, "kept": 0}
    assert [job["id"] for job in ask("jobs")["jobs"]] == [waiting.id]


def test_purge_asks(app: Headrace, run: Run, url: str) -> None:
    shop.add.enqueue(1)
    app.worker().run_until_empty()
    result = run("purge")
    assert result.exit_code == exits.USAGE
    assert "Nobody is there to be asked: add --yes." in result.stderr
    assert at_a_terminal(b"n\n", "purge", "--store", url) == exits.INTERRUPTED
    assert app.store.run(app.store.counts()) != []
    assert at_a_terminal(b"y\n", "purge", "--store", url) == 0
    assert app.store.run(app.store.counts()) == []


def at_a_terminal(typed: bytes, *arguments: str) -> int:
    """Run a command whose standard input is a terminal; answers with its exit code."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "headrace", *arguments]
    process = subprocess.Popen(
        command, stdin=slave, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    os.write(master, typed)
    try:
        return process.wait(timeout=60)
    finally:
        os.close(slave)
        os.close(master)
