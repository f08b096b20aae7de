"""Tags, tracking and failures from the shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from processes import WorkerProcess, eventually

from . import shop

Ask = Callable[..., Any]
Run = Callable[..., Any]


def found(ask: Ask, *options: str) -> list[str]:
    return [job["id"] for job in ask("jobs", *options)["jobs"]]


def test_tagging_and_finding_by_tag(app: Headrace, ask: Ask, run: Run) -> None:
    one, two = shop.add.enqueue(1), shop.send.using(tags=["urgent"]).enqueue("ada")
    assert ask("tags")["tags"] == [{"tag": "urgent", "jobs": 1}]
    assert ask("tag", one.id, two.id, "--add", "urgent", "--add", "red")["jobs"][0]["outcome"] == "tagged"
    assert found(ask, "--tag", "urgent") == [two.id, one.id]
    assert found(ask, "--tag", "red", "--queue", "mail") == [two.id]
    assert run("tag", two.id, "--remove", "urgent").stdout == f"{two.id}  tagged\n"
    assert found(ask, "--tag", "urgent") == [one.id]
    assert [entry["tag"] for entry in ask("tags", "--limit", "1")["tags"]] == ["red"]
    assert run("tags").stdout.split() == ["TAG", "JOBS", "red", "2", "urgent", "1"]
    assert ask("job", one.id)["tags"] == ["red", "urgent"]
    assert "red, urgent" in run("job", one.id).stdout


def test_tagging_what_is_not_there(app: Headrace, run: Run) -> None:
    shop.add.enqueue(1)
    result = run("tag", "nobody", "--add", "x")
    assert (result.exit_code, result.stderr) == (exits.NOT_DONE, "nobody  not found\n")
    assert run("tag", "nobody").exit_code == exits.USAGE
    assert run("tags").stdout == "No tags.\n"
    result = run("tag", "nobody", "--add", "a\nb")
    assert result.exit_code == exits.CONFIGURATION
    assert "cannot be printed" in result.stderr


def test_tracking(app: Headrace, ask: Ask, run: Run) -> None:
    one, two = shop.add.enqueue(1), shop.add.enqueue(2)
    assert run("track", one.id).stdout == f"{one.id}  tracked\n"
    assert found(ask, "--tracked") == [one.id]
    assert ask("job", one.id)["tracked"] is True
    assert run("untrack", one.id, two.id).exit_code == exits.OK
    assert found(ask, "--tracked") == []
    assert run("jobs", "--tracked").stdout == "No such jobs.\n"


def test_jobs_by_glob(app: Headrace, ask: Ask) -> None:
    one, two = shop.add.enqueue(1), shop.send.enqueue("ada")
    assert found(ask, "--task-like", "*:s?nd") == [two.id]
    assert found(ask, "--task-like", "cli.*") == [two.id, one.id]


def test_jobs_of_a_worker(app: Headrace, worker: WorkerProcess, ask: Ask, run: Run, tmp_path: Path) -> None:
    job = shop.hold.enqueue(f"{tmp_path}/began", f"{tmp_path}/until")
    eventually((tmp_path / "began").exists, "the job to begin")
    (name,) = [entry["name"] for entry in ask("workers")["workers"]]
    assert found(ask, "--worker", name) == [job.id]
    document = ask("workers", name)
    assert [entry["name"] for entry in document["workers"]] == [name]
    assert [entry["id"] for entry in document["jobs"]] == [job.id]
    text = run("workers", name).stdout
    assert all(word in text for word in (job.id, "alive", "last seen", "cli.shop:hold", "default, mail"))
    (tmp_path / "until").touch()
    assert job.result(timeout=20) == "held"
    assert found(ask, "--worker", name) == ask("workers", name)["jobs"] == []
    result = run("workers", "nobody:1")
    assert (result.exit_code, result.stderr) == (exits.NOT_DONE, "There is no worker 'nobody:1' now.\n")


@pytest.mark.parametrize("options", [("--tag", "x"), ("--tracked",), ("--task-like", "*"), ("--worker", "w")])
def test_a_store_without_tags_says_so(run: Run, options: tuple[str, ...]) -> None:
    result = run("jobs", *options, store="workkit+redis://127.0.0.1:1/0?schedule=s")
    assert result.exit_code != exits.OK
    assert "has no search by tag, worker or GLOB" in result.stderr
