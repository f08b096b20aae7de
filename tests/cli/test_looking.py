"""`headrace jobs`, `job`, `queues`, `workers`, `failures`: what they show, to people and to programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.ops import look
from headrace.records import NewJob
from processes import WorkerProcess, environment, eventually

from . import shop
from .conftest import Run

Ask = Callable[..., Any]


@pytest.fixture
def lived(app: Headrace) -> Headrace:
    """A store with some life behind it."""
    shop.add.enqueue(1)
    shop.send.enqueue("ada")
    shop.fail.enqueue("no \x1b[31mway [bold]!\nnext line")
    shop.give_up.enqueue()
    shop.move.enqueue()
    app.worker(queues=["default", "mail"]).run_until_empty()
    shop.add.using(run_after="1 hour").enqueue(5)
    shop.add.using(queue="nobody").enqueue(6)
    assert shop.add.enqueue(7).cancel()
    return app


def test_jobs_newest_first(lived: Headrace, ask: Ask) -> None:
    page = ask("jobs")
    states = [(job["task"].removeprefix("cli.shop:"), job["state"]) for job in page["jobs"]]
    assert page["cursor"] is None
    assert states == [
        ("add", "cancelled"),
        ("add", "ready"),
        ("add", "scheduled"),
        ("move", "ready"),
        ("give_up", "failed"),
        ("fail", "failed"),
        ("send", "done"),
        ("add", "done"),
    ]


def test_the_shape_of_a_job(lived: Headrace, ask: Ask) -> None:
    job = ask("jobs", "--task", "cli.shop:add", "--state", "done")["jobs"][0]
    assert set(job) == {
        "id", "task", "queue", "state", "priority", "arguments", "options", "created", "run_after", "started",
        "finished", "attempts", "crashes", "max_crashes", "worker", "progress", "data", "result", "group", "error",
        "cancelling", "unique_key", "after", "lane", "tags", "expires", "tracked", "schedule",
        "tick",
    }  # fmt: skip
    assert (job["arguments"], job["result"], job["attempts"], job["error"]) == ({"a": 1}, 3, 1, None)
    assert job["created"].endswith("Z")
    assert job["created"] <= job["started"] <= job["finished"]


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["--state", "failed"], 2),
        (["--state", "failed", "--state", "done"], 4),
        (["--queue", "mail"], 1),
        (["--task", "cli.shop:add"], 4),
        (["--group", "out of stock"], 1),
        (["--queue", "nothing"], 0),
    ],
)
def test_filters(filters: list[str], count: int, lived: Headrace, ask: Ask) -> None:
    assert len(ask("jobs", *filters)["jobs"]) == count


def test_pages(lived: Headrace, ask: Ask, run: Run) -> None:
    ids = [job["id"] for job in ask("jobs")["jobs"]]
    found: list[str] = []
    cursor: list[str] = []
    for _ in range(3):
        page = ask("jobs", "--limit", "3", *cursor)
        found += [job["id"] for job in page["jobs"]]
        cursor = ["--cursor", page["cursor"]]
    assert (found, page["cursor"]) == (ids, None)
    assert "There are more: add --cursor " in run("jobs", "--limit", "3").stderr


@pytest.mark.parametrize("cursor", ["here", "9" * 30, ""])
def test_a_wrong_cursor(cursor: str, lived: Headrace, run: Run) -> None:
    result = run("jobs", "--cursor", cursor)
    assert result.exit_code == exits.USAGE
    assert f"Invalid value for '--cursor': {cursor!r} is no cursor of this store." in result.stderr


def test_no_jobs(app: Headrace, run: Run) -> None:
    assert run("jobs").output == "No jobs.\n"
    assert run("jobs", "--state", "done").output == "No such jobs.\n"
    assert run("queues").output == "No queues: there are no jobs and no workers.\n"
    assert run("workers").output == "No workers. Start one: headrace worker APP\n"
    assert run("failures").output == "No failed jobs.\n"


@pytest.mark.parametrize("command", ["jobs", "queues", "workers", "failures", "doctor"])
def test_tables_fit_eighty_columns(command: str, lived: Headrace, run: Run) -> None:
    lived.store.run(lived.store.put([NewJob(id="1" * 32, task="a.very.long.module.name:" + "x" * 99, body=b"{}")]))
    lived.store.run(lived.store.put([NewJob(id="2" * 32, task="t", queue="q" * 150, body=b"{}")]))
    output = run(command, env={"COLUMNS": "80"}).stdout
    assert max(map(len, output.splitlines())) <= 80 or command == "doctor"


def test_ids_are_never_cut(lived: Headrace, run: Run, ask: Ask) -> None:
    output = run("jobs", env={"COLUMNS": "64"}).stdout
    assert all(job["id"] in output for job in ask("jobs")["jobs"])
    assert all(re.search(r"  (.+ ago|just now|in \d+ \w+)$", line.rstrip()) for line in output.splitlines()[1:]), output


def test_nothing_is_cut_in_a_pipe(lived: Headrace, run: Run) -> None:
    name = "a.very.long.module.name:" + "x" * 99
    lived.store.run(lived.store.put([NewJob(id="1" * 32, task=name, body=b"{}")]))
    assert name in run("jobs").stdout


def test_one_job(lived: Headrace, ask: Ask, run: Run) -> None:
    job_id = ask("jobs", "--task", "cli.shop:fail")["jobs"][0]["id"]
    job = ask("job", job_id)
    assert (job["group"], job["error"]["type"]) == ("ValueError", "ValueError")
    assert "in fail" in job["error"]["traceback"]
    assert [event["what"] for event in job["history"]] == ["created", "started", "failed"]
    output = run("job", job_id).stdout
    assert "state      failed" in output
    assert "ValueError: no \\x1b[31mway [bold]!" in output


@pytest.mark.parametrize(
    ("given", "shown", "document"),
    [
        ("1 hour", "60 min after it is due", {"at": None, "seconds_after_due": 3600.0}),
        ("2040-01-02 03:04:05Z", "2040-01-02", {"at": "2040-01-02T03:04:05.000Z", "seconds_after_due": None}),
    ],
)
def test_the_expiry_of_a_job(given: str, shown: str, document: object, app: Headrace, ask: Ask, run: Run) -> None:
    job = shop.add.using(expires=given).enqueue(1)
    assert ask("job", job.id)["expires"] == document
    assert shown in run("job", job.id).stdout


def test_a_remark_on_a_queue_is_not_cut(lived: Headrace, run: Run) -> None:
    lived.queue("default").pause(by="ada")
    lived.queue("default").limit(3)
    words = run("queues", env={"COLUMNS": "80"}).stdout.split()
    assert {"ada", "most", "once"} <= set(words)


def test_the_attempts_of_a_job(lived: Headrace, ask: Ask, run: Run) -> None:
    job_id = ask("jobs", "--task", "cli.shop:fail")["jobs"][0]["id"]
    (attempt,) = ask("job", job_id)["runs"]
    assert ask("job", job_id)["attempts"] == 1
    assert (attempt["number"], attempt["outcome"], attempt["error"]["type"]) == (1, "failed", "ValueError")
    assert ask("job", job_id, "--attempt", "1") == attempt
    assert "ATTEMPT\tOUTCOME\tTOOK\tWORKER\tERROR\n1\tfailed\t" in run("job", job_id).stdout
    alone = run("job", job_id, "--attempt", "1").stdout
    assert "outcome    failed" in alone
    assert "in fail" in alone
    none = run("job", job_id, "--attempt", "2")
    assert (none.exit_code, "The history tells of 1 attempts." in none.output) == (2, True)


def test_what_jobs_say_never_reaches_the_terminal_as_it_is(lived: Headrace, ask: Ask, run: Run) -> None:
    evil = "\x1b]0;owned\x07[red]\u202e"
    lived.store.run(lived.store.put([NewJob(id="3" * 32, task=f"t{evil}", queue=f"q{evil}", body=evil.encode())]))
    for command in (
        ["jobs"],
        ["job", "3" * 32],
        ["why", "3" * 32],
        ["queues"],
        ["failures"],
        ["doctor"],
        ["job", evil],
    ):
        output = run(*command, color=True, env={"FORCE_COLOR": "1"}).output
        assert "\x1b]" not in output
        assert "\x07" not in output
        assert "\u202e" not in output


def test_a_body_that_is_no_json(lived: Headrace, ask: Ask) -> None:
    lived.store.run(lived.store.put([NewJob(id="4" * 32, task="t", body=b"\xff")]))
    assert ask("job", "4" * 32)["arguments"] == {"base64": "/w=="}


def test_a_job_that_says_how_far_it_is(app: Headrace, run: Run) -> None:
    job = shop.half_way.enqueue()
    app.worker().run_until_empty()
    assert "50 % (2 of 4)" in run("job", job.id).stdout


def test_a_job_that_is_not_there(app: Headrace, run: Run) -> None:
    for command in ("job", "why"):
        result = run(command, "0" * 32)
        assert result.exit_code == exits.NOT_DONE
        assert f"There is no job {'0' * 32}: it was purged or deleted, or never existed." in result.stderr
        result = run(command, "01a1dd")
        assert result.exit_code == exits.NOT_DONE
        assert "There is no job '01a1dd', and none of the newest 0 has that in its id." in result.stderr


def test_queues(lived: Headrace, ask: Ask, run: Run) -> None:
    queues = {queue["queue"]: queue for queue in ask("queues")["queues"]}
    assert set(queues) == {"default", "elsewhere", "mail", "nobody"}
    rates = queues["default"].pop("rates")
    for kind, number in (("come", 5), ("go", 4)):
        seconds = rates[kind]["seconds"]
        assert 60 <= seconds < 65
        assert rates[kind]["per_second"] == number / seconds
    assert queues["default"] == {
        "queue": "default", "workers": 0, "scheduled": 1, "ready": 0, "running": 0, "blocked": 0, "done": 1,
        "failed": 2, "cancelled": 1, "limit": None, "paused_by": None, "paused": None,
        "oldest_ready_seconds": None,
    }  # fmt: skip
    shown = run("queues").stdout
    assert "elsewhere" in shown
    assert "IN/S\tOUT/S" in shown


def test_workers(app: Headrace, worker: WorkerProcess, ask: Ask, run: Run) -> None:
    (found,) = ask("workers")["workers"]
    assert set(found) == {
        "id", "name", "pid", "supervisor", "host", "queues", "tasks", "running", "alive", "opened", "seen", "timeout",
        "memory", "stopping", "version",
    }  # fmt: skip
    assert (found["queues"], found["running"], found["alive"], found["timeout"]) == (["default", "mail"], 0, True, 15.0)
    assert "cli.shop:add" in found["tasks"]
    assert "alive" in run("workers").stdout
    assert {queue["workers"] for queue in ask("queues")["queues"]} == {1}


def test_a_dead_worker(app: Headrace, worker: WorkerProcess, ask: Ask) -> None:
    worker.kill()
    eventually(lambda: not ask("workers")["workers"][0]["alive"], "its death to be seen")


def test_failures(lived: Headrace, ask: Ask, run: Run) -> None:
    groups = ask("failures")["failures"]
    assert all(group["first_seen"] <= group["last_seen"] for group in groups)
    assert [sum(group["by_hour"]) for group in groups] == [group["count"] for group in groups]
    assert run("failures").stdout.splitlines()[0] == "GROUP\tCOUNT\tFIRST\tLAST\tHOUR\t48H\tTASKS"
    assert [(group["group"], group["count"], group["tasks"]) for group in groups] == [
        ("ValueError", 1, ["cli.shop:fail"]),
        ("out of stock", 1, ["cli.shop:give_up"]),
    ]
    assert all(group["newest"] for group in groups)
    assert [group["group"] for group in ask("failures", "--limit", "1")["failures"]] == ["ValueError"]
    (only,) = ask("failures", "--task", "cli.shop:give_up")["failures"]
    assert (only["first_seen"], only["by_hour"]) == (None, None)
    assert (only["group"], only["count"], only["tasks"]) == ("out of stock", 1, ["cli.shop:give_up"])
    assert ask("failures", "ValueError")["jobs"][0]["task"] == "cli.shop:fail"
    assert "cli.shop:give_up" in run("failures", "out of stock").stdout
    result = run("failures", "nothing")
    assert (result.exit_code, result.stderr) == (exits.NOT_DONE, "No failed jobs in the group 'nothing'.\n")


def test_a_group_of_failures_names_its_tasks_and_says_if_there_may_be_others(
    app: Headrace, ask: Ask, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("fail", "flaky", "fail"):
        app.tasks[f"cli.shop:{task}"].using(retries=0).enqueue()
    app.worker().run_until_empty()
    (group,) = ask("failures")["failures"]
    assert (group["count"], group["tasks"], group["looked_at"]) == (3, ["cli.shop:fail", "cli.shop:flaky"], 3)
    assert run("failures").stdout.splitlines()[1].endswith("\tcli.shop:fail, cli.shop:flaky")
    assert ask("failures", "--queue", "default")["failures"][0]["tasks"] == group["tasks"]
    monkeypatch.setattr(look, "PAGE", 2)
    assert run("failures").stdout.splitlines()[1].endswith("\tcli.shop:fail, cli.shop:flaky, …")


@pytest.mark.parametrize("command", ["jobs", "queues", "workers", "failures", "doctor", "health", "purge"])
def test_a_store_that_is_not_there(command: str, run: Run, url: str) -> None:
    result = run(command)
    file = Path(url.removeprefix("sqlite:///"))
    assert result.exit_code == exits.STORE
    assert f"There is no store at {file}: nothing has been enqueued there yet" in result.stderr
    assert not file.exists()


def test_a_file_that_is_no_store(run: Run, url: str) -> None:
    with open(url.removeprefix("sqlite:///"), "wb") as file:
        file.write(b"certainly not a database" * 100)
    result = run("jobs")
    assert result.exit_code == exits.STORE
    assert "is not a SQLite database." in result.stderr


def test_which_store(app: Headrace, run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.add.enqueue(1)
    assert "cli.shop:add" in run("jobs", "--app", "cli.shop:app", store=None).stdout
    monkeypatch.setenv("HEADRACE_STORE", url)
    assert "cli.shop:add" in run("jobs", store=None).stdout
    assert run("jobs", store="sqlite:///other.db").exit_code == exits.STORE
    monkeypatch.setenv("HEADRACE_STORE", "sqlite:///other.db")
    monkeypatch.setenv("HEADRACE_APP", "cli.shop:app")
    assert "cli.shop:add" in run("jobs", store=None).stdout


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_closed_pipe_is_quiet(options: list[str], app: Headrace, url: str) -> None:
    app.enqueue_many([shop.add.using(queue="q" * 150).call(number) for number in range(1000)])
    command = [sys.executable, "-m", "headrace", "jobs", "--limit", "1000", "--store", url, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_at_80_columns_a_history_keeps_its_columns(app: Headrace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    job = shop.fail.enqueue("a reason that takes more than one line of a terminal, " * 3)
    app.worker().run_until_empty()
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("job", job.id).stdout
    history = shown[shown.index("WHEN") :]
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in history
    assert "WORKER" in history
    assert f"-{os.getpid()}" in history, "the worker's name is whole"
