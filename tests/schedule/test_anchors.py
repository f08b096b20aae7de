"""Strict intervals: from when they count, and that their echo says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from headrace.schedule import ScheduleError, anchored, anchors, parse

from .helpers import NOW, local, utc

OPEN = [
    ("every other Friday", "every 2 weeks on Friday at 00:00 starting 2026-05-15 UTC"),
    ("every 2 weeks on Friday", "every 2 weeks on Friday at 00:00 starting 2026-05-15 UTC"),
    (
        "every 5 minutes from 9am to 5pm on every other Friday",
        "every 5 minutes between 09:00 and 17:59 every 2 weeks on Friday starting 2026-05-15 UTC",
    ),
    ("every other Thursday at 9am", "every 2 weeks on Thursday at 09:00 starting 2026-05-21 UTC"),
    ("every 2 weeks on Monday and Friday", "every 2 weeks on Monday and Friday at 00:00 starting 2026-05-15 UTC"),
    ("every 2 weeks", "every 14 days at 10:20:30 starting 2026-05-28 UTC"),
    ("every 3 days", "every 3 days at 10:20:30 starting 2026-05-17 UTC"),
    ("every 3 days at 9am", "every 3 days at 09:00 starting 2026-05-15 UTC"),
    ("every 3 days at 11am", "every 3 days at 11:00 starting 2026-05-14 UTC"),
    ("every other day at midnight", "every 2 days at 00:00 starting 2026-05-15 UTC"),
    ("every 7 minutes", "every 7 minutes starting 2026-05-14 at 10:27:30 UTC"),
    ("every 45 minutes", "every 45 minutes starting 2026-05-14 at 11:05:30 UTC"),
    ("every 5 hours", "every 5 hours starting 2026-05-14 at 15:20:30 UTC"),
    ("every 90 minutes", "every 90 minutes starting 2026-05-14 at 11:50:30 UTC"),
    ("every 5 months on the last day", "every 5 months on the last day at 00:00 starting 2026-05-31 UTC"),
    ("every 2 years on 1 May", "every 2 years on the 1st of May at 00:00 starting 2027-05-01 UTC"),
]


@pytest.mark.parametrize(("phrase", "echo"), OPEN)
def test_an_anchor_is_the_first_run_and_is_echoed(phrase: str, echo: str) -> None:
    schedule = parse(phrase)
    assert anchors.is_open(schedule)
    fixed = anchored(schedule, NOW)
    assert fixed.echo() == echo
    assert parse(echo) == fixed
    assert not anchors.is_open(fixed)
    first = fixed.next(NOW - timedelta(days=1))
    assert first == anchors.anchor_of(fixed)
    assert first is not None
    assert first > NOW


@pytest.mark.parametrize(("phrase", "echo"), OPEN)
def test_the_anchor_is_kept_by_the_same_phrase(phrase: str, echo: str) -> None:
    anchor = anchors.anchor_of(parse(echo))
    assert anchor is not None
    assert anchors.anchored_at(parse(phrase), anchor) == parse(echo)


@pytest.mark.parametrize(
    "phrase", ["every 10 minutes", "every 6 hours", "every day at 9am", "every 3 months", "every Friday"]
)
def test_what_a_calendar_says_has_no_anchor(phrase: str) -> None:
    schedule = parse(phrase)
    assert not anchors.is_open(schedule)
    assert anchored(schedule, NOW) is schedule
    assert anchors.anchor_of(schedule) is None


def test_every_other_friday_is_a_strict_fortnight() -> None:
    runs = anchored(parse("every other Friday at 9am", tz="Europe/Berlin"), NOW).upcoming(NOW, 60)
    assert {(later.date() - earlier.date()).days for earlier, later in pairwise(runs)} == {14}
    assert {run.astimezone(ZoneInfo("Europe/Berlin")).hour for run in runs} == {9}


def test_days_keep_their_wall_time_over_a_change_of_clocks() -> None:
    now = utc("2026-10-23 08:00")
    schedule = anchored(parse("every 2 days", tz="Europe/Berlin"), now)
    assert local(schedule, now, 2) == ["2026-10-25 10:00:00+01:00", "2026-10-27 10:00:00+01:00"]


def test_minutes_are_constant_over_the_hour() -> None:
    runs = anchored(parse("every 45 minutes"), NOW).upcoming(NOW, 50)
    assert {later - earlier for earlier, later in pairwise(runs)} == {timedelta(minutes=45)}


def test_an_anchor_in_an_hour_that_comes_twice_reads_back() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)  # 02:30 for the second time
    for phrase in ("every 7 minutes", "every 25 seconds", "every 5 hours", "every 2 days", "every 3 days at 2:30"):
        fixed = anchored(parse(phrase, tz=berlin), now)
        assert parse(fixed.echo()) == fixed
        again = anchors.anchor_of(fixed)
        assert again is not None
        assert anchors.anchored_at(parse(phrase, tz=berlin), again) == fixed
    assert anchored(parse("every 7 minutes", tz=berlin), now).next(now) == now + timedelta(minutes=7)


def test_a_start_that_is_written_stays() -> None:
    schedule = parse("every 7 minutes starting 1970-01-01 at 0:03")
    assert anchored(schedule, NOW) is schedule


@pytest.mark.parametrize(
    ("phrase", "first", "last", "echo"),
    [
        ("every 30 minutes from 9am to 5pm", "09:00", "17:30", "every 30 minutes between 09:00 and 17:59 UTC"),
        ("every 30 minutes from 9am to 5:00pm", "09:00", "17:00", "every 30 minutes between 09:00 and 17:00 UTC"),
        ("every 30 minutes from 9:00 to 17:00", "09:00", "17:00", "every 30 minutes between 09:00 and 17:00 UTC"),
        ("every 20 minutes from 9:10 to 11:00", "09:10", "10:50", "every 20 minutes between 09:10 and 10:50 UTC"),
        ("every 7 minutes from 9am to 10:00", "09:00", "09:56", "every 7 minutes between 09:00 and 09:56 UTC"),
        ("every 45 minutes from 9 to 17", "09:00", "17:15", "every 45 minutes between 09:00 and 17:15 UTC"),
        ("every hour from 9am to 5pm", "09:00", "17:00", "every hour between 09:00 and 17:00 UTC"),
    ],
)
def test_a_window_counts_from_its_start_to_its_end(phrase: str, first: str, last: str, echo: str) -> None:
    schedule = parse(phrase)
    runs = [run for run in schedule.upcoming(utc("2026-06-01") - timedelta(seconds=1), 100) if run < utc("2026-06-02")]
    assert (f"{runs[0]:%H:%M}", f"{runs[-1]:%H:%M}") == (first, last)
    assert len({later - earlier for earlier, later in pairwise(runs)}) == 1
    assert schedule.echo() == echo
    assert parse(echo) == schedule


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("every hour from 9 to 5", "the window runs backwards; say 5pm or 17:00"),
        ("every 5 minutes from 9am to 5", "the window runs backwards; say 5pm or 17:00"),
        ("every 5 minutes from 22 to 0", "the window runs backwards; say 0:00"),
        ("every monday and monday", "Monday is named twice; name it once"),
        ("every weekday and on friday", "Friday is named twice; name it once"),
        ("every 2nd sunday and every sunday", "Sunday is named twice; name it once"),
        ("every monday to friday and wednesday", "Wednesday is named twice; name it once"),
        ("every 2nd sunday (the 2nd of a month)", "what stands in brackets here is (the 2nd and 4th of a month)"),
        ("every 15 seconds from 9am to 5:00pm", "an interval of seconds needs a window that ends with a full hour"),
        ("weekdays 9 to 17", "'9' could not be placed in 'weekdays 9 to 17'"),
        ("weekdays ten to six", "'ten' could not be placed in 'weekdays ten to six'"),
        ("every weekday at 9 to 5", "'to' could not be placed in 'every weekday at 9 to 5'"),
        ("every hour from Monday", "a first date is written as in 'starting 2026-06-01', or given as start="),
        ("every other weekday at 9am", "name the days, as in 'every Monday, Wednesday and Friday'"),
        ("every Friday night at 1am", "1:00 is not clear with 'night'"),
        ("every 5 hours starting at 2am", "write both, as in 'starting 2026-06-01 at 2:00'"),
    ],
)
def test_what_could_be_misread_is_refused(phrase: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse(phrase)
    assert message in str(refused.value)


def test_over_midnight_needs_clear_times() -> None:
    assert parse("every hour from 10pm to 2am") == parse("every hour from 22:00 to 2:00")
