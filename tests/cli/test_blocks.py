"""`headrace block` and `headrace unblock`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.records import SessionInfo, Take

from . import shop
from .conftest import Run

Ask = Callable[..., Any]
ADD = "cli.shop:add"


def take(app: Headrace) -> list[str]:
    store = app.store
    store.run(store.open(SessionInfo(id="s", name="w")))
    return [lease.id for lease in store.run(store.exchange("s", app.clock.now(), take=Take(("default",), 5))).leases]


def test_a_task_is_blocked_listed_and_unblocked(
    app: Headrace, run: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_OPERATOR", "ops@desk")
    job, other = shop.add.enqueue(1), shop.touch.enqueue("x")
    assert run("block").stdout == "No tasks are blocked.\n"
    assert run("block", ADD, "--reason", "It is broken.").stdout == f"{ADD} is blocked.\n"
    assert take(app) == [other.id]
    (found,) = ask("block")["blocked"]
    assert found.pop("since").endswith("Z")
    assert found == {"task": ADD, "reason": "It is broken.", "by": "ops@desk", "jobs": 1}
    shown = run("block").stdout
    assert ADD in shown
    assert "It is broken." in shown
    assert run("block", ADD, "--by", "ada").stdout == f"{ADD} was blocked already. Its reason is the new one.\n"
    assert ask("block")["blocked"][0]["by"] == "ada"
    assert run("unblock", ADD).stdout == f"{ADD} is no longer blocked.\n"
    assert run("unblock", ADD).stdout == f"{ADD} was not blocked.\n"
    assert take(app) == [job.id]


def test_json_tells_what_has_changed(app: Headrace, ask: Ask) -> None:
    app.store.run(app.store.counts())
    assert ask("block", ADD) == {"task": ADD, "blocked": True, "changed": True}
    assert ask("block", ADD) == {"task": ADD, "blocked": True, "changed": False}
    assert ask("unblock", ADD) == {"task": ADD, "blocked": False, "changed": True}
    assert ask("unblock", ADD) == {"task": ADD, "blocked": False, "changed": False}


@pytest.mark.parametrize("known_by", ["app", "worker", "job"])
def test_a_task_is_named_by_the_end_of_its_name(app: Headrace, run: Run, known_by: str) -> None:
    app.store.run(app.store.open(SessionInfo(id="s", name="w", tasks=(ADD,) if known_by == "worker" else ())))
    if known_by == "job":
        shop.add.enqueue(1)
    by_app = known_by == "app"
    result = run("block", "add", "--app", "cli.shop:app", store=None) if by_app else run("block", "add")
    assert (result.stdout, result.stderr) == (f"{ADD} is blocked.\n", "")
    assert run("unblock", "add").stdout == f"{ADD} is no longer blocked.\n"
    assert run("unblock", "add").stdout == "add was not blocked.\n"


def test_a_broken_app_keeps_nobody_from_blocking(app: Headrace, run: Run) -> None:
    app.store.run(app.store.counts())
    assert run("block", ADD, "--app", "nowhere:app").stdout == f"{ADD} is blocked.\n"


@pytest.mark.parametrize("name", ["cli.shop.add", "ad"])
def test_a_name_that_no_task_has_is_blocked_with_a_warning(app: Headrace, run: Run, name: str) -> None:
    shop.add.enqueue(1)
    result = run("block", name)
    assert (result.exit_code, result.stdout) == (0, f"{name} is blocked.\n")
    assert result.stderr == f"No app, worker or job here has a task named {name}. Did you mean {ADD}?\n"


def test_the_end_of_several_names_is_refused(app: Headrace, run: Run) -> None:
    app.store.run(app.store.open(SessionInfo(id="s", name="w", tasks=("a:add", "b:add"))))
    result = run("block", "add")
    assert (result.exit_code, result.stdout) == (exits.USAGE, "")
    assert "'add' could be any of a:add, b:add: write more of it." in result.stderr
    assert run("block").stdout == "No tasks are blocked.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--reason", "It is broken."), exits.USAGE, "Which task?"),
        (("",), exits.CONFIGURATION, "A task needs a name"),
        ((ADD, "--reason", "a\nb"), exits.CONFIGURATION, "a character that cannot be printed"),
        ((ADD, "--reason", "a" * 1_001), exits.CONFIGURATION, "1,000 characters at most, not 1,001"),
    ],
)
def test_what_makes_no_sense(app: Headrace, run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    app.store.run(app.store.counts())
    result = run("block", *arguments)
    assert result.exit_code == code, result.output
    assert words in " ".join(result.stderr.split())
    assert run("block").stdout == "No tasks are blocked.\n"


def test_a_dialect_refuses(run: Run) -> None:
    result = run("block", ADD, store="hworker+redis://localhost:1/0?name=x")
    assert result.exit_code == exits.NOT_DONE
    assert "has no block list: use a native store" in " ".join(result.stderr.split())
