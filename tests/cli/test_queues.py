"""`headrace queues pause`, `resume` and `limit`: what they refuse, on both native stores."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.records import SessionInfo
from store.redis import servers

from . import shop
from .conftest import Run, alone


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    alone(tmp_path, monkeypatch)
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("pause", "www-*"), exits.CONFIGURATION, "The queue 'www-*' has one of *?[ in it"),
        (("limit", "www-*", "3"), exits.CONFIGURATION, "The queue 'www-*' has one of *?[ in it"),
        (("pause", ""), exits.CONFIGURATION, "A queue needs a name"),
        (("resume", ""), exits.CONFIGURATION, "A queue needs a name"),
        (("limit", "", "3"), exits.CONFIGURATION, "A queue needs a name"),
        (("limit", "a\nb", "3"), exits.CONFIGURATION, "a character that cannot be printed"),
        (("limit", "mail", "0"), exits.CONFIGURATION, "a limit is at least 1, not 0. To stop a queue, pause it."),
        (("limit", "mail", "9" * 23), exits.CONFIGURATION, "a limit goes up to 281,474,976,710,655"),
        (("limit", "mail", "²"), exits.USAGE, "the limit is a whole number, not '²'. Write for example 3, or none."),
        (("limit", "mail", "9" * 5_000), exits.USAGE, "the limit is a whole number"),
    ],
)
def test_what_makes_no_sense(app: Headrace, run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    shop.add.enqueue(1)
    result = run("queues", *arguments)
    assert result.exit_code == code, result.output
    assert words in " ".join(result.stderr.split())
    assert app.store.run(app.store.controls()) == []  # type: ignore[attr-defined]


def test_what_was_said_about_a_pattern_once_can_be_taken_back(app: Headrace, run: Run) -> None:
    store = app.store
    store.run(store.pause("www-*", "ada"))  # type: ignore[attr-defined]
    store.run(store.limit("www-*", 2))  # type: ignore[attr-defined]
    assert run("queues", "resume", "www-*").exit_code == exits.OK
    assert run("queues", "limit", "www-*", "none").exit_code == exits.OK
    assert store.run(store.controls()) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", ["before", "behind"])
def test_an_app_that_is_named_goes_before_that_of_the_environment(
    app: Headrace, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    shop.add.enqueue(1)
    (tmp_path / "other.py").write_text("from headrace import Headrace\napp = Headrace('sqlite:///other.db')")
    monkeypatch.setenv("HEADRACE_APP", f"{tmp_path / 'other.py'}:app")
    named = ["--app", "cli.shop:app"]
    arguments = [*named, "pause", "mail"] if place == "before" else ["pause", "mail", *named]
    assert run("queues", *arguments, store=None).exit_code == exits.OK
    assert [control.queue for control in app.store.run(app.store.controls())] == ["mail"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("arguments", [("pause", "mial"), ("limit", "mial", "3")])
def test_a_queue_that_was_never_seen_is_said_to_be_so(app: Headrace, run: Run, arguments: tuple[str, ...]) -> None:
    """It is done all the same: an operator may pause a queue before its first use."""
    shop.send.enqueue("ada")
    result = run("queues", *arguments)
    assert result.exit_code == exits.OK
    assert result.stderr == "No job, worker or task here has a queue named mial yet. Did you mean mail?\n"
    assert [control.queue for control in app.store.run(app.store.controls())] == ["mial"]  # type: ignore[attr-defined]
    assert run("queues", *arguments).stderr == "", "it is known since"
    for known in ("mail", "~mail"):
        assert run("queues", arguments[0], known, *arguments[2:]).stderr == ""


def test_a_queue_that_a_worker_listens_to_is_known(app: Headrace, run: Run) -> None:
    app.store.run(app.store.open(SessionInfo(id="s", name="w", queues=("www-*",))))
    assert run("queues", "pause", "www-7").stderr == ""
    assert "a queue named www yet." in run("queues", "pause", "www").stderr


def test_the_age_of_the_oldest_ready_job_is_shown(app: Headrace, run: Run) -> None:
    assert "OLDEST" not in run("queues").output
    shop.add.enqueue(1)
    age = app.queue("default").oldest_ready_seconds()
    assert age is not None
    (listed,) = json.loads(run("queues", "--json").output)["queues"]
    assert 0 <= age <= listed["oldest_ready_seconds"] < 60
    heading, row = run("queues").output.splitlines()
    assert re.fullmatch(r"\d+(\.\d)? m?s", dict(zip(heading.split("\t"), row.split("\t"), strict=True))["OLDEST"])
