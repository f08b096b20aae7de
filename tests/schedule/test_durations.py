"""Lengths of time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.schedule import ScheduleError, parse_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (timedelta(minutes=5), 300),
        (0, 0),
        (30, 30),
        (0.5, 0.5),
        ("30s", 30),
        ("5 minutes", 300),
        ("5 min", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2 hours and 30 minutes", 9000),
        ("2 hours, 30 minutes and 5 seconds", 9005),
        ("half an hour", 1800),
        ("an hour", 3600),
        ("a day", 86400),
        ("three weeks", 3 * 604800),
        ("a fortnight", 14 * 86400),
        ("1.5 hours", 5400),
        ("0.25s", 0.25),
        ("  5   MINUTES ", 300),
    ],
)
def test_a_duration(value: timedelta | float | str, seconds: float) -> None:
    assert parse_duration(value) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "the phrase is empty"),
        ("30", "'30' could not be understood: a duration is numbers with units"),
        ("5 parsecs", "'5' could not be placed in '5 parsecs'"),
        ("5 minutes ago", "'ago' could not be placed in '5 minutes ago'"),
        ("minutes", "'minutes' could not be understood"),
        ("30 minutes 2 hours", "'hours' could not be placed in '30 minutes 2 hours': say each unit once, the largest"),
        ("5 minutes and 5 minutes", "say each unit once"),
        ("1 month", "'1 month' can't be kept: months and years have no fixed length; say it in days or weeks"),
        ("1.5 months", "months and years are counted whole"),
        ("999999999 weeks", "it is beyond what a duration can hold"),
        ("5 minutes UTC", "ends too early"),
        (-1, "a duration can't be negative, and -1 is"),
        (timedelta(seconds=-1), "a duration can't be negative"),
        (float("nan"), "nan seconds are beyond what a duration can hold"),
        (float("inf"), "inf seconds are beyond what a duration can hold"),
        (10**400, "seconds are beyond what a duration can hold"),
        (True, "True is not a duration"),
        (None, "None is not a duration; give a timedelta, seconds, or words like '5 minutes'"),
    ],
)
def test_what_is_not_a_duration_is_refused(value: timedelta | float | str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_duration(value)
    assert message in str(refused.value)
