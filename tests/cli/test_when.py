"""`headrace when`."""

from __future__ import annotations

import json

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
    assert [run["utc"][-1] for run in answer["runs"]] == ["Z", "Z"]


def test_an_instant_is_understood_too() -> None:
    output = CliRunner().invoke(cli, ["when", "7pm tomorrow", "--tz", "Asia/Tokyo"]).output
    assert output.startswith("once, at ")
    assert "19:00:00 JST" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["every blue moon"], "'blue' could not be placed in 'every blue moon'"),
        (["every day", "--tz", "Mars/Olympus"], "'Mars/Olympus' is not a known time zone"),
        (["every day", "--tz", "../x"], "'../x' is not a known time zone"),
    ],
)
def test_what_is_not_understood(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["when", *arguments])
    assert result.exit_code == exits.USAGE
    assert message in result.output
