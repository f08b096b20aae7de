"""Instants: datetimes, delays, timestamps and one-time phrases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from headrace.schedule import ScheduleError, parse_instant

from .helpers import NOW, shown, utc

ZURICH = ZoneInfo("Europe/Zurich")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2026, 6, 1, 9), "2026-06-01 07:00:00"),
        (datetime(2026, 6, 1, 9, tzinfo=UTC), "2026-06-01 09:00:00"),
        (datetime(2026, 6, 1, 9, tzinfo=timezone(timedelta(hours=-5))), "2026-06-01 14:00:00"),
        (datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01 00:00:00"),
        (datetime(2026, 3, 29, 2, 30), "2026-03-29 01:00:00"),  # in the gap
        (datetime(2026, 10, 25, 2, 30), "2026-10-25 00:30:00"),  # the first pass
        (datetime(2026, 10, 25, 2, 30, fold=1), "2026-10-25 01:30:00"),  # asked for the second
        (timedelta(minutes=5), "2026-05-14 10:25:30"),
        (90, "2026-05-14 10:22:00"),
        (-30, "2026-05-14 10:20:00"),
        # in digits: on the wall clock of the zone unless they say theirs, and the past is fine
        ("2026-06-01", "2026-05-31 22:00:00"),
        ("2026-06-01 07:05", "2026-06-01 05:05:00"),
        ("2026-06-01 07:05:09", "2026-06-01 05:05:09"),
        ("2014-12-29 07:38:51", "2014-12-29 06:38:51"),
        ("2026-06-01T07:05:09Z", "2026-06-01 07:05:09"),
        ("2026-06-01T07:05:09+02:00", "2026-06-01 05:05:09"),
        ("2026-06-01 07:05 UTC", "2026-06-01 07:05:00"),
        # in words: on the wall clock of the zone, where it is 12:20:30 on Thursday 14 May
        ("now", "2026-05-14 10:20:30"),
        ("7pm tomorrow", "2026-05-15 17:00:00"),
        ("7 PM, tomorrow", "2026-05-15 17:00:00"),
        ("7 p.m. tomorrow", "2026-05-15 17:00:00"),
        ("in 5 minutes", "2026-05-14 10:25:30"),
        ("5 minutes", "2026-05-14 10:25:30"),
        ("5 minutes from now", "2026-05-14 10:25:30"),
        ("next Monday at 9am", "2026-05-18 07:00:00"),
        ("this friday at 9am", "2026-05-15 07:00:00"),
        ("in 2 hours and 30 minutes", "2026-05-14 12:50:30"),
        ("noon on 24 December", "2026-12-24 11:00:00"),
        ("half past 3 tomorrow", "2026-05-15 01:30:00"),
        ("half past 3pm tomorrow", "2026-05-15 13:30:00"),
        ("quarter past 15 tomorrow", "2026-05-15 13:15:00"),
        ("quarter to noon tomorrow", "2026-05-15 09:45:00"),
        ("in a fortnight", "2026-05-28 10:20:30"),
        ("1h30m", "2026-05-14 11:50:30"),
        ("tomorrow at 9", "2026-05-15 07:00:00"),
        ("at 17", "2026-05-14 15:00:00"),
        ("at 9 on the 24th of December, 2027", "2027-12-24 08:00:00"),
        ("December 24th at 9:30pm", "2026-12-24 20:30:00"),
        ("2026-06-01 at 7pm", "2026-06-01 17:00:00"),
        ("tomorrow at 7pm UTC", "2026-05-15 19:00:00"),
        ("tomorrow at 7pm in Asia/Tokyo", "2026-05-15 10:00:00"),
        ("noon", "2026-05-15 10:00:00"),
        ("29 march 2027 at 2:30", "2027-03-29 00:30:00"),
        ("28 march 2027 at 2:30", "2027-03-28 01:00:00"),  # in the gap
        ("31 october 2027 at 2:30", "2027-10-31 00:30:00"),  # twice: the first
        ("in 1 month", "2026-06-14 10:20:30"),
        ("in 6 months", "2026-11-14 11:20:30"),  # the calendar moves, the clock stays
        ("in 200 days", "2026-11-30 10:20:30"),  # exactly
    ],
)
def test_an_instant(value: datetime | timedelta | float | str, expected: str) -> None:
    instant = parse_instant(value, now=NOW, tz=ZURICH)
    assert shown(instant) == expected
    assert instant.tzinfo is UTC


def test_a_delay_keeps_the_fraction_of_now() -> None:
    now = NOW.replace(microsecond=250_000)
    assert parse_instant("in 5 minutes", now=now) == now + timedelta(minutes=5)


def test_a_clock_that_shows_now_means_tomorrow() -> None:
    assert parse_instant("10:20:30", now=NOW) == NOW + timedelta(days=1)
    assert parse_instant("today at 10:20:30", now=NOW) == NOW


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "the phrase is empty"),
        ("soon", "'soon' could not be understood"),
        ("end of month", "'end' could not be placed in 'end of month'"),
        ("9 tomorrow", "'9' could not be placed in '9 tomorrow': write it as an hour, 'at 9' or '9:00'"),
        ("tomorrow at 24", "'24' could not be placed in 'tomorrow at 24': an hour is 0 to 23"),
        ("tomorrow at", "'tomorrow at' ends too early"),
        ("tomorrow at monday", "'monday' could not be placed in 'tomorrow at monday'"),
        ("in", "'in' ends too early: after 'in' comes a length of time"),
        ("in tomorrow", "'tomorrow' could not be placed in 'in tomorrow': after 'in' comes a length of time"),
        ("in 5 minutes tomorrow", "'tomorrow' could not be placed in 'in 5 minutes tomorrow': a delay stands alone"),
        ("next week", "'next week' ends too early: say on which day, as in 'next week on Tuesday'"),
        ("friday friday", "'friday' could not be placed in 'friday friday': a day was given before"),
        ("9am 10am", "'10am' could not be placed in '9am 10am': a time of day was given before"),
        ("half to 3", "'half' could not be placed in 'half to 3': say 'half past' the hour before"),
        ("half past tomorrow", "'tomorrow' could not be placed in 'half past tomorrow': 'past' and 'to' need an hour"),
        ("half past 3:15", "'3:15' could not be placed in 'half past 3:15': 'past' and 'to' need a full hour"),
        ("31 June", "'31 June' can't be kept: there is no such date"),
        ("29 February 2027", "'29 February 2027' can't be kept: there is no such date"),
        ("32 May", "there is no day 32"),
        ("1 May 2026", "'1 May 2026' can't be kept: it has passed"),
        ("today", "'today' can't be kept: it has passed"),
        ("2th of June", "'2th' could not be placed in '2th of June': write 2nd"),
        ("12:60", "'12:60' could not be understood: a day goes from 0:00 to 23:59:59"),
        ("0am", "with am or pm an hour is 1 to 12"),
        ("tomorrow ☃", "'☃' could not be placed in 'tomorrow ☃'"),
        ("tomorrow in Mars/Crater", "'Mars/Crater' is not a known time zone"),
        ("2026-02-30", "'2026-02-30' is not a time that exists"),
        ("2026-06-01 25:00", "is not a time that exists"),
        ("in 9000 years", "it is beyond the year 9999"),
        ("every day", "'every' could not be placed in 'every day'"),
        ("x" * 301, "a phrase of 301 characters is too long"),
        (float("inf"), "inf seconds are beyond what a duration can hold"),
        (1e12, "1000000000000.0 is beyond the years 1 to 9999"),
        (None, "None is not a time; give a datetime, a timedelta, seconds from now, or words"),
        ("in 2 days tomorrow", "'tomorrow' could not be placed in 'in 2 days tomorrow': a day was given before"),
        ("in 2 weeks on Friday", "'friday' could not be placed in 'in 2 weeks on Friday': a day was given before"),
        ("3 days on Friday", "say from when, as in '3 days from tomorrow'"),
        ("5 days at 9am", "say from when, as in '3 days from tomorrow', or 'in 3 days'"),
        ("nine to five tomorrow", "'nine' could not be placed in 'nine to five tomorrow'"),
        ("a week on Thursday", "today is a Thursday; count from today, as in 'a week today'"),
        ("tonight at 2", "2:00 is not clear with 'night'; leave that out, and say it as in 7pm or 19:00"),
        ("tomorrow and 9am", "'and' could not be placed in 'tomorrow and 9am'"),
        ("\u0663 minutes", "could not be placed"),
    ],
)
def test_what_is_not_an_instant_is_refused(value: datetime | timedelta | float | str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_instant(value, now=NOW)
    assert message in str(refused.value)


def test_now_must_say_its_zone() -> None:
    with pytest.raises(ScheduleError, match="'now' must say its zone"):
        parse_instant("noon", now=datetime(2026, 5, 14))


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ScheduleError, match="'Nowhere' is not a known time zone"):
        parse_instant("noon", now=NOW, tz="Nowhere")


def test_a_gap_with_fractions_ends_on_the_second() -> None:
    assert parse_instant(datetime(2026, 3, 29, 2, 30, 0, 5), now=NOW, tz=ZURICH) == utc("2026-03-29 01:00")
