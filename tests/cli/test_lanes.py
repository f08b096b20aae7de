"""`headrace lanes`: what is set for lanes, and what is refused, on both native stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from headrace.records import Lane
from store.redis import servers

from . import shop
from .conftest import Run, alone


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    alone(tmp_path, monkeypatch)
    monkeypatch.setenv("HEADRACE_OPERATOR", "ops@desk")
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


def told(run: Run, *arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == exits.OK, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def rules(app: Headrace, key: str = "k", queue: str = "default") -> Lane:
    lane: Lane = app.store.run(app.store.lane(queue, key)).lane  # type: ignore[attr-defined]
    return lane


def test_a_limit_is_set_and_cleared(app: Headrace, run: Run) -> None:
    shop.add.using(lane="k", limit=3).enqueue(1)
    result = run("lanes", "limit", "default", "k", "2")
    assert (result.exit_code, result.stdout) == (exits.OK, "Lane k of default runs at most 2 at once.\n")
    assert rules(app).limit == 2
    assert told(run, "lanes", "limit", "default", "k", "none") == {"queue": "default", "lane": "k", "limit": None}
    assert rules(app).limit is None
    assert run("lanes", "clear", "default", "k").stdout == "Lane k of default goes by what calls say.\n"
    assert rules(app).limit == 3
    assert run("lanes", "clear", "default", "k").stdout == "Nothing was set for lane k of default.\n"


def test_a_rate_is_set(app: Headrace, run: Run) -> None:
    result = run("lanes", "rate", "mail", "k", "5 per 10 seconds")
    assert (result.exit_code, result.stdout) == (exits.OK, "Lane k of mail starts at most 5 per 10 seconds.\n")
    assert rules(app, queue="mail") == Lane("k", rate=5, per=10_000, weight=1)
    set_now = told(run, "lanes", "rate", "mail", "k", "10/minute")
    assert set_now == {"queue": "mail", "lane": "k", "rate": 10, "per": 60_000}
    assert told(run, "lanes", "rate", "mail", "k", "none")["rate"] is None


def test_a_queue_that_was_never_seen_is_named(app: Headrace, run: Run) -> None:
    shop.add.using(queue="mail").enqueue(1)
    for arguments in (("limit", "mial", "k", "2"), ("rate", "mial", "k", "1/minute")):
        result = run("lanes", *arguments)
        assert result.exit_code == exits.OK
        assert "a queue named mial yet. Did you mean mail?" in result.stderr
    assert not run("lanes", "limit", "mail", "k", "2").stderr


def test_lanes_are_listed(app: Headrace, run: Run) -> None:
    assert run("lanes", "list", "default").stdout == "No lanes in default.\n"
    assert "Nothing is set for any lane" in run("lanes").stdout
    for number in range(3):
        shop.add.using(lane="busy", limit=2, rate="5/second").enqueue(number)
    run("lanes", "limit", "default", "idle", "4")
    (busy, idle) = told(run, "lanes", "list", "default")["lanes"]
    assert (busy["lane"], busy["limit"], busy["rate"], busy["per"], busy["waiting"]) == ("busy", 2, 5, 1_000, 3)
    assert (busy["limit_is_set"], busy["set_by"]) == (False, None)
    assert (idle["lane"], idle["limit"], idle["waiting"], idle["limit_is_set"]) == ("idle", 4, 0, True)
    shown = run("lanes", "list", "default").stdout
    assert "at most 2 at once, 5 per 1 s" in shown
    assert "limit set by ops@desk" in " ".join(shown.split())
    (rule,) = told(run, "lanes")["lanes"]
    assert (rule["queue"], rule["lane"], rule["limit"], rule["rate"], rule["set_by"]) == (
        *("default", "idle", 4, None, "ops@desk"),
    )
    assert "idle" in run("lanes").stdout


def test_acts_on_lanes_are_in_the_audit(app: Headrace, run: Run) -> None:
    for limit in ("2", "none"):
        run("lanes", "limit", "mail", "k", limit)
    for rate in ("10/minute", "none"):
        run("lanes", "rate", "mail", "k", rate)
    run("lanes", "clear", "mail", "k")
    run("lanes", "clear", "mail", "k")
    acts = told(run, "audit")["acts"]
    assert [(act["who"], act["what"], act["about"]) for act in reversed(acts)] == [
        ("ops@desk", "limit", "lane k of queue mail: limit from none to 2"),
        ("ops@desk", "limit", "lane k of queue mail: limit from 2 to none"),
        ("ops@desk", "rate", "lane k of queue mail: rate from none to 10/minute"),
        ("ops@desk", "rate", "lane k of queue mail: rate from 10 per 60 s to none"),
        ("ops@desk", "clear", "lane k of queue mail"),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("limit", "www-*", "k", "3"), exits.CONFIGURATION, "The queue 'www-*' has one of *?[ in it"),
        (("limit", "mail", "", "3"), exits.CONFIGURATION, "A lane needs a name"),
        (("limit", "mail", "k", "0"), exits.CONFIGURATION, "limit is a whole number, 1 or more, not 0"),
        (("limit", "mail", "k", "many"), exits.USAGE, "the limit is a whole number"),
        (("rate", "mail", "k", "fast"), exits.USAGE, "rate is written like '10/minute'"),
        (("rate", "mail", "k", "0/minute"), exits.USAGE, "rate allows 1 to"),
        (("rate", "mail", "k", "5 per 0 seconds"), exits.USAGE, "rate needs a period"),
    ],
)
def test_what_makes_no_sense_is_refused(
    app: Headrace, run: Run, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = run("lanes", *arguments)
    assert result.exit_code == code, result.output
    assert words in " ".join(result.stderr.split())
    assert app.store.run(app.store.lane_rules()) == []  # type: ignore[attr-defined]
