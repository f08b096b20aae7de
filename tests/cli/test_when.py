"""`headrace when`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from headrace.cli import cli, exits


def test_a_phrase_is_explained() -> None:
    output = CliRunner().invoke(cli, ["when", "every", "weekday", "at", "9:30", "--tz", "Europe/Zurich"]).output
    lines = output.splitlines()
    assert lines[:3] == [
        "every weekday at 09:30 in Europe/Zurich",
        "cron: 30 9 * * 1-5",
        "cron with seconds: 0 30 9 * * 1-5",
    ]
    assert sum("09:30:00 CE" in line for line in lines) == 10


def test_json() -> None:
    answer = json.loads(CliRunner().invoke(cli, ["when", "*/5 * * * *", "--json", "--count", "2"]).output)
    assert set(answer) == {"phrase", "meaning", "crons", "runs", "remarks"}
    assert answer["crons"]["cron"] == "*/5 * * * *"
    assert [run["at"][-1] for run in answer["runs"]] == ["Z", "Z"]


def test_an_instant_is_understood_too() -> None:
    output = CliRunner().invoke(cli, ["when", "7pm tomorrow", "--tz", "Asia/Tokyo"]).output
    assert output.startswith("once, at ")
    assert "19:00:00 JST" in output


def test_what_has_passed_is_refused_for_that_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    at_eight = datetime(2026, 5, 14, 20, tzinfo=UTC)
    monkeypatch.setattr("headrace.cli.when.utc_now", lambda: at_eight)
    result = CliRunner().invoke(cli, ["when", "6pm today"])
    assert result.exit_code == exits.USAGE
    assert "'6pm today' can't be kept: it has passed" in result.output
    assert "once, at 2026-05-14 21:00:00 UTC" in CliRunner().invoke(cli, ["when", "9pm today"]).output


def test_a_strict_interval_shows_its_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.cli.when.utc_now", lambda: datetime(2026, 5, 14, 20, tzinfo=UTC))
    lines = CliRunner().invoke(cli, ["when", "every other Friday"]).output.splitlines()
    assert lines[:2] == [
        "every 2 weeks on Friday at 00:00 starting 2026-05-15 UTC",
        "note: it counts from when it is first stored, or from start=; here as if that were now",
    ]


def test_a_date_and_time_is_in_the_zone_asked_for() -> None:
    output = CliRunner().invoke(cli, ["when", "2031-03-03 10:00", "--tz", "Asia/Tokyo"]).output
    assert output.startswith("once, at 2031-03-03 10:00:00 JST")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["every blue moon"], "'blue' could not be placed in 'every blue moon'"),
        (["tomorrow at 25:00"], "a day goes from 0:00 to 23:59:59"),
        (["31 June"], "there is no such date"),
        (["next week"], "say on which day, as in 'next week on Tuesday'"),
        (["FINISHED, +1 HOUR"], "is a repeat rule"),
        (["every day", "--tz", "Mars/Olympus"], "'Mars/Olympus' is not a known time zone"),
        (["every day", "--tz", "../x"], "'../x' is not a known time zone"),
    ],
)
def test_what_is_not_understood(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["when", *arguments])
    assert result.exit_code == exits.USAGE
    assert message in result.output
