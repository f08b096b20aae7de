"""`headrace enqueue`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, State
from headrace.cli import exits
from headrace.records import Lane
from processes import WorkerProcess, environment

from . import shop
from .conftest import Run

APP = ("--app", "cli.shop:app")


def arguments(app: Headrace, job_id: str) -> Any:
    return json.loads(app.job(job_id.strip()).snapshot.body)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["add", "1"], {"a": 1}),
        (["cli.shop:add", "1", "-2"], {"a": 1, "b": -2}),
        (["add", "a=1", "b=3"], {"a": 1, "b": 3}),
        (["send", "ada@example.org"], {"to": "ada@example.org"}),
        (["send", "42", "subject=7"], {"to": "42", "subject": "7"}),
        (["send", '"a=b"'], {"to": "a=b"}),
        (["send", "to=a=b"], {"to": "a=b"}),
        (["send", '"--quiet"'], {"to": "--quiet"}),
    ],
)
def test_arguments(written: list[str], meant: object, app: Headrace, run: Run) -> None:
    result = run("enqueue", *written, *APP)
    assert result.exit_code == 0, result.output
    assert arguments(app, result.stdout) == meant


def test_arguments_that_json_writes_as_text(app: Headrace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell has no dates and no bytes: what fits the annotation as JSON is what is meant."""
    monkeypatch.setattr(app, "known_tasks", dict(app.tasks))

    @app.task(name="shop:remind")
    def remind(day: date, sizes: dict[int, Decimal], key: bytes = b"") -> None: ...

    result = run("enqueue", "remind", "2020-02-29", '{"1": "2.50"}', "key=c2VjcmV0", *APP)
    assert result.exit_code == 0, result.output
    assert remind.arguments.decode(app.job(result.stdout.strip()).snapshot.body) == (
        (date(2020, 2, 29), {1: Decimal("2.50")}, b"secret"),
        {},
    )
    result = run("enqueue", "remind", "tomorrow", "{}", *APP)
    assert result.exit_code == exits.USAGE
    assert "an argument does not fit its annotation: Invalid RFC3339 encoded date - at `$.day`." in result.output


def test_options(app: Headrace, run: Run) -> None:
    options = ["--queue", "slow", "--priority", "7", "--run-after", "in 5 minutes", "--retries", "2"]
    job = app.job(run("enqueue", "add", "1", *options, *APP).stdout.strip())
    assert (job.queue, job.snapshot.priority, job.state) == ("slow", 7, State.SCHEDULED)
    assert abs(job.run_after - datetime.now(UTC) - timedelta(minutes=5)) < timedelta(seconds=30)
    assert job.snapshot.options == b'{"retries":2}'


def test_what_a_call_may_say_can_be_said_in_the_shell(app: Headrace, run: Run) -> None:
    parent = shop.add.enqueue(1)
    options = ["--after", parent.id, "--if-failed", "run", "--lane", "k", "--limit", "3", "--rate", "10/minute"]
    more = ["--tag", "a", "--tag", "b", "--run-timeout", "30s", "--max-crashes", "5", "--no-result", "--priority", "0"]
    job = app.job(run("enqueue", "add", "1", *options, *more, *APP).stdout.strip())
    seen = job.snapshot
    assert (seen.after, seen.lane, seen.tags) == ((parent.id,), Lane("k", 3, 10, 60_000), ("a", "b"))
    assert (seen.options, seen.max_crashes) == (b'{"timeout":30000,"keep_result":false}', 5)
    parent.cancel()
    assert job.refresh().state is State.READY
    last = app.job(run("enqueue", "add", "1", "--sequence", "{a}", *APP).stdout.strip())
    assert last.snapshot.lane == Lane("1", sequence=True)


def test_a_job_to_come_after_that_is_not_there_is_refused(app: Headrace, run: Run) -> None:
    result = run("enqueue", "add", "1", "--after", "0" * 32, *APP)
    assert (result.exit_code, result.stdout) == (exits.NOT_DONE, "")
    assert f"There is no job {'0' * 32}: it was purged or deleted, or never existed." in result.stderr
    assert app.store.run(app.store.counts()) == []


def test_a_job_fails_with_the_one_that_it_comes_after_if_nothing_else_is_said(app: Headrace, run: Run) -> None:
    parent = shop.add.enqueue(1)
    job = app.job(run("enqueue", "add", "1", "--after", parent.id, *APP).stdout.strip())
    parent.cancel()
    assert (job.refresh().state, job.snapshot.group) == (State.FAILED, "dependency")


def test_a_key_of_ones_own_is_unique(app: Headrace, ask: Callable[..., Any]) -> None:
    key = ("--unique-key", "k", "--unique-for", "1 hour")
    first = ask("enqueue", "add", "1", *key, *APP)
    assert ask("enqueue", "add", "2", *key, *APP) == {"id": first["id"], "created": False}
    second = ask("enqueue", "add", "2", *key, "--on-clash", "replace", *APP)
    assert second["created"]
    assert second["id"] != first["id"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--limit", "3"], "add lane='a key'"),
        (["--lane", "k", "--limit", "0"], "limit is a whole number, 1 or more, not 0"),
        (["--lane", "k", "--rate", "often"], "rate is written like"),
        (["--sequence", "k", "--lane", "k"], "A sequence runs one job at a time"),
        (["--if-failed", "run"], "add after=[...]"),
        (["--on-clash", "replace"], "on_clash says how a job is unique"),
        (["--queue", "www-*"], "name one queue"),
    ],
)
def test_options_that_make_no_sense(app: Headrace, run: Run, options: list[str], words: str) -> None:
    result = run("enqueue", "add", "1", *options, *APP)
    assert result.exit_code == exits.USAGE
    assert words in " ".join(result.stderr.split())
    assert list(app.jobs()) == []


def test_json(app: Headrace, ask: Callable[..., Any]) -> None:
    answer = ask("enqueue", "add", "1", *APP)
    assert answer == {"id": answer["id"], "created": True}


def test_unique(app: Headrace, run: Run) -> None:
    first, second = (run("enqueue", "add", "1", "--unique", *APP) for _ in range(2))
    assert first.stdout == second.stdout
    assert (first.stderr, second.stderr) == ("", "(it was there already)\n")


@pytest.mark.parametrize(
    ("written", "code", "message"),
    [
        (
            ["add", "x", *APP],
            exits.USAGE,
            "does not fit its annotation: Expected `int`, got `str` - at `$.a`.",
        ),
        (["add", *APP], exits.USAGE, "cli.shop:add: missing a required argument: 'a'."),
        (["add", "1", "c=2", *APP], exits.USAGE, "The task 'cli.shop:add' has no parameter 'c'."),
        (["send", "a=b", *APP], exits.USAGE, "(If a=b is an argument, write it as JSON: '\"a=b\"'.)"),
        (["send", "to=ada", "to=bob", *APP], exits.USAGE, "'to' is given twice."),
        (["send", "ada", "--header", "k=1", "--header", "k=2", *APP], exits.USAGE, "'k' is given twice."),
        (
            ["add", "1", "--unqiue", *APP],
            exits.USAGE,
            "No such option: --unqiue. (If it is an argument,",
        ),
        (["ad", *APP], exits.USAGE, "The app has no task 'ad'. It has cli.shop:add, cli.shop:fail,"),
        (["add", "1", "--run-after", "x", *APP], exits.USAGE, "run_after: 'x' could not be understood"),
        (["add", "1", "--priority", "99999999", *APP], exits.USAGE, "priority goes from -1,000,000 to 1,000,000"),
        (["add", "1", "--timeout", "1s", *APP], exits.USAGE, "--timeout says how long to wait: add --wait."),
        (["add", "1"], exits.USAGE, "Which app? Say --app module:app, set $HEADRACE_APP, or name it in"),
        (["add", "1", "--app", "no_such:app"], exits.CONFIGURATION, "Cannot find a module named 'no_such'."),
        (["add", "1", "--require-worker", *APP], exits.NOT_DONE, "No live worker listens to queue 'default'"),
    ],
)
def test_mistakes(written: list[str], code: int, message: str, app: Headrace, run: Run) -> None:
    result = run("enqueue", *written)
    assert result.exit_code == code
    assert message in result.stderr
    assert app.store.run(app.store.counts()) == []


def test_an_ambiguous_name(app: Headrace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(app.tasks, "other:add", app.tasks["cli.shop:add"])
    result = run("enqueue", "add", "1", *APP)
    assert result.exit_code == exits.USAGE
    assert "'add' could be any of cli.shop:add, other:add: write more of it." in result.stderr


def test_waiting_for_a_result(app: Headrace, worker: WorkerProcess, run: Run) -> None:
    result = run("enqueue", "send", "ada", "--wait", *APP)
    assert (result.exit_code, result.stdout) == (0, '"ada: hi"\n')


def test_waiting_for_nothing(app: Headrace, worker: WorkerProcess, run: Run, tmp_path: Path) -> None:
    result = run("enqueue", "touch", str(tmp_path / "touched"), "--wait", *APP)
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "touched").exists()


def test_waiting_for_a_failure(app: Headrace, worker: WorkerProcess, run: Run, ask: Callable[..., Any]) -> None:
    result = run("enqueue", "fail", "bad \x1b[31m luck", "--wait", *APP)
    assert (result.exit_code, result.stdout) == (exits.JOB_FAILED, "")
    assert "failed (ValueError): ValueError: bad \\x1b[31m luck" in result.stderr
    assert "Traceback (most recent call last):" in result.stderr
    assert "\x1b" not in result.output
    answer = ask("enqueue", "fail", "--wait", *APP, code=exits.JOB_FAILED)
    assert (answer["state"], answer["error"]["type"], answer["error"]["message"]) == ("failed", "ValueError", "no way")


def test_waiting_too_long(app: Headrace, run: Run) -> None:
    result = run("enqueue", "add", "1", "--wait", "--timeout", "0.05s", *APP)
    assert result.exit_code == exits.TEMPORARY
    assert "Timed out after 50 ms: job " in result.stderr


def test_waiting_for_a_cancelled_job(app: Headrace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    job = shop.add.using(unique=True).enqueue(1)
    assert job.cancel()
    monkeypatch.setattr("headrace.task.Using.enqueue", lambda *_, **__: job)
    result = run("enqueue", "add", "1", "--wait", *APP)
    assert result.exit_code == exits.JOB_CANCELLED
    assert f"Job {job.id} was cancelled." in result.stderr


def test_ctrl_c_while_waiting(app: Headrace, url: str) -> None:
    command = [sys.executable, "-m", "headrace", "enqueue", "add", "1", "--wait", *APP, "--store", url]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    job = app.job(process.stderr.readline().removeprefix("job ").strip())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == exits.INTERRUPTED
    assert process.stderr.read().strip() == "headrace: interrupted."
    process.stderr.close()
    assert job.state is State.READY


def test_the_store_of_the_app(app: Headrace, run: Run) -> None:
    result = run("enqueue", "add", "1", *APP, store=None)
    assert app.job(result.stdout.strip()).state is State.READY
