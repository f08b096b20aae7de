"""Bedrock's repeat rules, with SQLite itself as the oracle for its modifiers."""

from __future__ import annotations

import random
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from headrace.schedule import ScheduleError, parse_modifier, parse_repeat
from volume import volume

from .helpers import NOW, shown, utc


@pytest.mark.parametrize(
    ("rule", "canonical", "expected"),
    [
        ("HOURLY", "FINISHED, +1 HOUR", "2026-05-14 11:20:30"),
        ("daily", "FINISHED, +1 DAY", "2026-05-15 10:20:30"),
        ("Weekly", "FINISHED, +7 DAYS", "2026-05-21 10:20:30"),
        ("SCHEDULED, +1 HOUR", "SCHEDULED, +1 HOUR", "2026-05-14 08:00:00"),
        ("started, +30 seconds", "STARTED, +30 SECONDS", "2026-05-14 09:00:35"),
        ("FINISHED, +1 DAY, START OF DAY", "FINISHED, +1 DAY, START OF DAY", "2026-05-15 00:00:00"),
        ("FINISHED,+1 HOUR,,START OF HOUR", "FINISHED, +1 HOUR, START OF HOUR", "2026-05-14 11:00:00"),
        ("FINISHED, WEEKDAY 4", "FINISHED, WEEKDAY 4", "2026-05-14 10:20:30"),
        ("FINISHED, +1 DAY, WEEKDAY 4", "FINISHED, +1 DAY, WEEKDAY 4", "2026-05-21 10:20:30"),
        ("FINISHED, START OF MONTH, +1 MONTH, -1 DAY", None, "2026-05-31 00:00:00"),
        ("FINISHED, START OF YEAR, +1 YEARS", None, "2027-01-01 00:00:00"),
        ("FINISHED, +99999999 SECONDS", None, "2029-07-14 20:07:09"),
        ("SCHEDULED, -999 DAYS", None, "2023-08-19 07:00:00"),
    ],
)
def test_a_rule(rule: str, canonical: str | None, expected: str) -> None:
    repeat = parse_repeat(rule)
    assert str(repeat) == (canonical or rule)
    assert parse_repeat(str(repeat)) == repeat
    started = utc("2026-05-14 09:00:05")
    assert shown(repeat.next(scheduled=utc("2026-05-14 07:00"), started=started, finished=NOW)) == expected


def test_month_overflow_follows_sqlite() -> None:
    repeat = parse_repeat("SCHEDULED, +1 MONTH")
    assert shown(repeat.next(scheduled=utc("2024-01-31 08:00"))) == "2024-03-02 08:00:00"


def test_a_scheduled_rule_moves_one_step_even_into_the_past() -> None:
    due = utc("2026-05-14 07:00")
    for hour in (8, 9, 10, 11):
        next_due = parse_repeat("SCHEDULED, +1 HOUR").next(scheduled=due, finished=NOW)
        assert next_due is not None
        assert next_due.hour == hour
        due = next_due


def test_results_have_whole_seconds() -> None:
    assert shown(parse_repeat("HOURLY").next(finished=NOW.replace(microsecond=7))) == "2026-05-14 11:20:30"


def test_a_result_that_is_no_time_is_none() -> None:
    assert parse_repeat("FINISHED, +999 YEARS").next(finished=datetime(9500, 1, 1, tzinfo=UTC)) is None
    assert parse_repeat("FINISHED, -999 YEARS").next(finished=datetime(900, 1, 1, tzinfo=UTC)) is None


def test_the_base_must_be_given() -> None:
    with pytest.raises(ScheduleError, match="'FINISHED, \\+1 HOUR' counts from the finished time"):
        parse_repeat("HOURLY").next(scheduled=NOW)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "'' could not be understood"),
        ("+1 DAY", "'+1 DAY' could not be understood: a repeat rule is HOURLY, DAILY or WEEKLY"),
        ("MONTHLY", "'MONTHLY' could not be understood"),
        ("FINISHED", "'FINISHED' ends too early: after the base comes a modifier"),
        ("FINISHED,", "'FINISHED,' ends too early"),
        ("CREATED, +1 DAY", "'CREATED' could not be placed"),
        ("FINISHED, + 1 HOUR", "'+ 1 HOUR' could not be placed in 'FINISHED, + 1 HOUR': write '+1 HOUR'"),
        ("FINISHED, +1 HOUR , +1 HOUR", "'+1 HOUR ' could not be placed"),
        ("FINISHED, 1 HOUR", "'1 HOUR' could not be placed"),
        ("FINISHED, +1  HOUR", "'+1  HOUR' could not be placed"),
        ("FINISHED, +1000 HOURS", "'+1000 HOURS' could not be placed"),
        ("FINISHED, +123456789 SECONDS", "could not be placed"),
        ("FINISHED, +1.5 HOURS", "could not be placed"),
        ("FINISHED, +01:30", "could not be placed"),
        ("FINISHED, +1 WEEK", "could not be placed"),
        ("FINISHED, START OF WEEK", "could not be placed"),
        ("FINISHED, WEEKDAY 7", "could not be placed"),
        ("FINISHED, LOCALTIME", "could not be placed"),
        ("FINISHED, UNIXEPOCH", "could not be placed"),
        ("FINISHED, +\u0663 HOURS", "could not be placed"),
        ("FINISHED, +1 HOUR\n", "could not be placed"),
    ],
)
def test_what_is_not_a_rule_is_refused(rule: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_repeat(rule)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "+1 HOUR, +1 HOUR", "START OF HOUR", "FINISHED, +1 HOUR", "HOURLY", " +1 HOUR"])
def test_retry_after_is_one_modifier(text: str) -> None:
    with pytest.raises(ScheduleError, match="is not one date modifier"):
        parse_modifier(text)


def test_sqlite_agrees() -> None:
    chance = random.Random("sqlite")
    database = sqlite3.connect(":memory:")
    try:
        for _ in range(volume(600)):
            modifiers = [random_modifier(chance) for _ in range(chance.randint(1, 4))]
            due = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=chance.randrange(130 * 365 * 86400))
            marks = ", ?" * len(modifiers)
            (expected,) = database.execute(f"SELECT datetime(?{marks})", (shown(due), *modifiers)).fetchone()
            repeat = parse_repeat(", ".join(["SCHEDULED", *modifiers]))
            got = repeat.next(scheduled=due)
            if got is None or got.year < 1000:
                continue  # Python's calendar ends at year 1 where SQLite's goes on to -4713
            assert shown(got) == expected, f"{due} {modifiers}"
    finally:
        database.close()


def random_modifier(chance: random.Random) -> str:
    match chance.randrange(4):
        case 0:
            return chance.choice(("START OF DAY", "START OF MONTH", "START OF YEAR"))
        case 1:
            return f"WEEKDAY {chance.randrange(7)}"
        case 2:
            return f"{chance.choice('+-')}{chance.randrange(10**8)} SECONDS"
        case _:
            unit = chance.choice(("MINUTE", "HOURS", "DAY", "MONTHS", "YEAR"))
            return f"{chance.choice('+-')}{chance.randrange(1000)} {unit}"
