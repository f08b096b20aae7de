"""Everyday phrases with dates worked out by hand, by someone who had not seen the grammar."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headrace.schedule import ScheduleError, anchored, parse, parse_instant, says_recurring

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 18, 14, 20, tzinfo=BERLIN)
"""A Wednesday."""
LINES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("everyday.jsonl").read_text("utf-8").splitlines()
]
CLEAR = [line for line in LINES if line["clear"]]
UNCLEAR = [line for line in LINES if not line["clear"]]

OTHERWISE = {
    # WorkKit's published description has a week begin on Sunday, and a phrase has one meaning on every store.
    "weekly": ["2026-11-22T00:00", "2026-11-29T00:00", "2026-12-06T00:00", "2026-12-13T00:00"],
    "every week": ["2026-11-22T00:00", "2026-11-29T00:00", "2026-12-06T00:00", "2026-12-13T00:00"],
    # A time that clocks jump over runs at the first instant after the gap, as everywhere in headrace.
    "28 March 2027 at 2:30am": ["2027-03-28T03:00"],
}
"""Where the list differs from what is documented."""
REFUSED = [
    "every day at 8am starting Monday",
    "every day at 10am from 1 December",
    "every weekday at 9am until 24 December",
]
"""What is relative to the day on which it is read can't be part of a rule that is read again."""
CURE = re.compile(
    r"\b(say|write|add|give|given|keep|leave|name|make|correct|begin|begins|count|as in|at least|at most)\b"
    r"|an hour is|a day goes from"
)


def read(line: dict[str, Any], count: int) -> list[str]:
    """The first times that a phrase means, as the list writes them."""
    if line["kind"] == "once":
        runs = [parse_instant(line["phrase"], now=NOW, tz=BERLIN)]
    else:
        runs = anchored(parse(line["phrase"], tz=BERLIN), NOW).upcoming(NOW, count)
    return [run.astimezone(BERLIN).replace(tzinfo=None).isoformat() for run in runs]


def wanted(line: dict[str, Any]) -> list[list[str]]:
    phrase = line["phrase"]
    lists = [OTHERWISE[phrase]] if phrase in OTHERWISE else [*line.get("accept", []), line["expect"]]
    return [[datetime.fromisoformat(time).isoformat() for time in times] for times in lists if times]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["phrase"])
def test_it_is_read_right_or_refused_with_a_cure(line: dict[str, Any]) -> None:
    refusal, runs = "", [""]
    try:
        runs = read(line, max((len(times) for times in wanted(line)), default=4))
    except ScheduleError as error:
        refusal = str(error)
    assert CURE.search(refusal) if refusal else runs in wanted(line)


def test_nearly_all_that_is_clear_is_understood() -> None:
    refused = []
    for line in CLEAR:
        try:
            read(line, 1)
        except ScheduleError:
            refused.append(line["phrase"])
    assert refused == REFUSED
    assert len(CLEAR) - len(refused) > 0.95 * len(CLEAR)


@pytest.mark.parametrize("line", CLEAR, ids=lambda line: line["phrase"])
def test_whether_it_recurs_is_heard(line: dict[str, Any]) -> None:
    assert says_recurring(line["phrase"]) == (line["kind"] == "recurring")


@pytest.mark.parametrize(
    "line",
    [line for line in CLEAR if line["kind"] == "recurring" and line["phrase"] not in REFUSED],
    ids=lambda line: line["phrase"],
)
def test_its_echo_means_the_same(line: dict[str, Any]) -> None:
    schedule = parse(line["phrase"], tz=BERLIN)
    for each in (schedule, anchored(schedule, NOW)):
        assert parse(each.echo()) == each


def test_the_list_is_whole() -> None:
    assert (len(LINES), len(CLEAR), len(UNCLEAR)) == (302, 260, 42)
    assert set(OTHERWISE) <= {line["phrase"] for line in LINES}


ASKED_FOR = [
    ("half past nine", "2026-11-19 09:30"),
    ("quarter to six", "2026-11-19 05:45"),
    ("tonight at 8", "2026-11-18 20:00"),
    ("in an hour and a half", "2026-11-18 15:50"),
    ("next week on Tuesday at 10am", "2026-11-24 10:00"),
    ("two weeks from today", "2026-12-02 00:00"),
    ("in 2 days at 9am", "2026-11-20 09:00"),
    ("Friday 20 Nov 2026 at 9am", "2026-11-20 09:00"),
]
ASKED_FOR_OFTEN = [
    ("every morning at 7", "every day at 07:00 UTC"),
    ("nightly at 2am", "every day at 02:00 UTC"),
    ("every midnight", "every day at 00:00 UTC"),
    ("once an hour", "every hour UTC"),
    ("every quarter hour", "every 15 minutes UTC"),
    ("quarterly", "every 3 months on the 1st at 00:00 UTC"),
    ("every hour on the hour", "every hour UTC"),
    ("every business day", "every weekday at 00:00 UTC"),
    ("every day except Sunday", "every Monday to Saturday at 00:00 UTC"),
    ("every 15th", "on the 15th of every month at 00:00 UTC"),
    ("every last Friday", "on the last Friday of every month at 00:00 UTC"),
    ("every 6 hours starting at 2am", "every 6 hours between 02:00 and 20:00 UTC"),
    ("from Monday to Friday at 9am", "every weekday at 09:00 UTC"),
]


@pytest.mark.parametrize(("phrase", "moment"), ASKED_FOR)
def test_what_people_say_of_one_time(phrase: str, moment: str) -> None:
    assert parse_instant(phrase, now=NOW, tz=BERLIN).astimezone(BERLIN).strftime("%Y-%m-%d %H:%M") == moment


@pytest.mark.parametrize(("phrase", "echo"), ASKED_FOR_OFTEN)
def test_what_people_say_of_many_times(phrase: str, echo: str) -> None:
    assert parse(phrase).echo() == echo
    assert parse(echo) == parse(phrase)
