"""`headrace log` and `headrace update`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace import Headrace
from headrace.cli import exits

from . import shop

Ask = Callable[..., Any]
Run = Callable[..., Any]


def test_a_line_from_the_shell(app: Headrace, ask: Ask, run: Run) -> None:
    job = shop.add.enqueue(1)
    assert run("log", job.id[-6:], "the customer has called").stdout == f"{job.id}  logged\n"
    assert [(line.what, line.detail) for line in job.history[1:]] == [("log", "the customer has called")]
    assert "the customer has called" in run("job", job.id).stdout
    assert ask("audit")["acts"][0]["what"] == "log"
    result = run("log", "nobody", "x")
    assert (result.exit_code, result.stderr) == (exits.NOT_DONE, "nobody  not found\n")


def test_data_from_the_shell(app: Headrace, ask: Ask, run: Run) -> None:
    job = shop.add.enqueue(1)
    assert run("update", job.id, "a=true", "b=two=2", 'c={"d": 1}', "e=").stdout == f"{job.id}  updated\n"
    assert job.refresh().data == {"a": True, "b": "two=2", "c": {"d": 1}, "e": ""}
    assert ask("update", job.id, "a=1", "--remove", "c", "--remove", "nothing")["jobs"][0]["ok"]
    assert job.refresh().data == {"a": 1, "b": "two=2", "e": ""}
    assert [act["what"] for act in ask("audit")["acts"]] == ["update", "update"]
    assert run("update", "nobody", "a=1").exit_code == exits.NOT_DONE


def test_what_the_shell_can_not_change(app: Headrace, run: Run) -> None:
    job = shop.add.enqueue(1)
    assert run("update", job.id).exit_code == exits.USAGE
    for wrong in ("a", "=1"):
        result = run("update", job.id, wrong)
        assert result.exit_code == exits.USAGE
        assert f"{wrong!r} is not KEY=VALUE" in result.stderr
    result = run("update", job.id, "a=1", "a=2")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (exits.USAGE, "Error: 'a' is given twice.")
    job.update(lambda _: [1])
    result = run("update", job.id, "a=1")
    assert result.exit_code == exits.CONFIGURATION
    assert "is not an object with keys but [1]" in result.stderr
