"""Recurring phrases: what they mean, how they are echoed, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from zoneinfo import available_timezones

import pytest

from headrace.schedule import Schedule, ScheduleError, parse, restore

from .helpers import NOW, from_on, local, utc


@pytest.mark.parametrize(
    ("phrase", "echo", "cron"),
    [
        ("every weekday at 9:30", "every weekday at 09:30 UTC", "30 9 * * 1-5"),
        ("every day at 4am UTC", "every day at 04:00 UTC", "0 4 * * *"),
        ("Every Day At 4 PM", "every day at 16:00 UTC", "0 16 * * *"),
        ("every day at 9", "every day at 09:00 UTC", "0 9 * * *"),
        ("each day at noon and midnight", "every day at 00:00 and 12:00 UTC", "0 0,12 * * *"),
        ("daily at half past 9", "every day at 09:30 UTC", "30 9 * * *"),
        ("every minute", "every minute UTC", "* * * * *"),
        ("every half hour", "every 30 minutes UTC", "*/30 * * * *"),
        ("every 4 hours at :30", "every 4 hours at :30 UTC", "30 */4 * * *"),
        ("every hour at :10, :25 and :40", "every hour at :10, :25 and :40 UTC", "10-40/15 * * * *"),
        ("every 5 minutes between 9am and 5pm", "every 5 minutes between 09:00 and 17:59 UTC", "*/5 9-17 * * *"),
        (
            "every 15 minutes between 9 and 17 on weekdays",
            "every 15 minutes between 09:00 and 17:59 on weekdays UTC",
            "*/15 9-17 * * 1-5",
        ),
        ("every minute from 10pm to 2am", "every minute between 22:00 and 02:59 UTC", "* 0-2,22,23 * * *"),
        ("every 2 hours between 8am and 6pm", "every 2 hours between 08:00 and 18:00 UTC", "0 8-18/2 * * *"),
        ("every 2 hours between 8:30 and 18:00", "every 2 hours between 08:30 and 16:30 UTC", "30 8-16/2 * * *"),
        ("every 3 hours from 20:00 to 4:00", "every day at 02:00, 20:00 and 23:00 UTC", "0 2,20,23 * * *"),
        ("every hour between 9 and 11 at :20", "every hour between 09:20 and 11:20 UTC", "20 9-11 * * *"),
        ("last day of the month at 18:00", "on the last day of every month at 18:00 UTC", "0 18 L * *"),
        ("on the last weekday of every month", "on the last weekday of every month at 00:00 UTC", "0 0 LW * *"),
        ("on the last friday of the month", "on the last Friday of every month at 00:00 UTC", "0 0 * * 5L"),
        ("1st and 15th of every month", "on the 1st and the 15th of every month at 00:00 UTC", "0 0 1,15 * *"),
        ("every 1st and 15th of the month", "on the 1st and the 15th of every month at 00:00 UTC", "0 0 1,15 * *"),
        (
            "on the 1st and 3rd Monday of every month at 9",
            "on the 1st Monday and the 3rd Monday of every month at 09:00 UTC",
            "0 9 * * 1#1,1#3",
        ),
        ("every 6 months", "every 6 months on the 1st at 00:00 UTC", "0 0 1 */6 *"),
        ("every 12 months", "every year on the 1st of January at 00:00 UTC", "0 0 1 1 *"),
        ("monthly", "on the 1st of every month at 00:00 UTC", "0 0 1 * *"),
        ("yearly on June 1st", "every year on the 1st of June at 00:00 UTC", "0 0 1 6 *"),
        (
            "every year on the 2nd friday of june at noon",
            "every year on the 2nd Friday of June at 12:00 UTC",
            "0 12 * 6 5#2",
        ),
        ("every monday to wednesday", "every Monday to Wednesday at 00:00 UTC", "0 0 * * 1-3"),
        ("every friday - monday", "every Monday, Friday, Saturday and Sunday at 00:00 UTC", "0 0 * * 0,1,5,6"),
        ("every saturday, sunday and monday", "every Monday, Saturday and Sunday at 00:00 UTC", "0 0 * * 0,1,6"),
        ("every monday in june to august", "every Monday in June, July and August at 00:00 UTC", "0 0 * 6-8 1"),
        ("every day at 8am in Europe/Zurich", "every day at 08:00 in Europe/Zurich", "0 8 * * *"),
        ("every day at 8am in Japan", "every day at 08:00 in Japan", "0 8 * * *"),
        (
            "every 15 minutes, between 9 and 17, on weekdays",
            "every 15 minutes between 09:00 and 17:59 on weekdays UTC",
            "*/15 9-17 * * 1-5",
        ),
        ("every week on monday at 9", "every Monday at 09:00 UTC", "0 9 * * 1"),
    ],
)
def test_a_phrase_that_cron_knows_too(phrase: str, echo: str, cron: str) -> None:
    schedule = parse(phrase)
    assert schedule.echo() == echo
    assert schedule.cron5 == cron
    assert parse(cron, tz=schedule.tz) == parse(echo) == schedule


@pytest.mark.parametrize(
    ("phrase", "echo", "times"),
    [
        (
            "every 90 minutes",
            "every 90 minutes UTC",
            ["2026-05-14 10:30:00", "2026-05-14 12:00:00", "2026-05-14 13:30:00"],
        ),
        ("every 1h30m", "every 90 minutes UTC", ["2026-05-14 10:30:00"]),
        ("every 1 hour and 30 minutes", "every 90 minutes UTC", ["2026-05-14 10:30:00"]),
        ("every 36 hours", "every 36 hours UTC", ["2026-05-14 12:00:00", "2026-05-16 00:00:00"]),
        ("every 90 seconds", "every 90 seconds UTC", ["2026-05-14 10:21:00", "2026-05-14 10:22:30"]),
        (
            "every 90 minutes starting 2026-05-14 at 10:10",
            "every 90 minutes starting 2026-05-14 at 10:10 UTC",
            ["2026-05-14 11:40:00", "2026-05-14 13:10:00"],
        ),
        (
            "every 45 minutes starting 2026-06-01",
            "every 45 minutes starting 2026-06-01 at 00:00 UTC",
            ["2026-06-01 00:00:00", "2026-06-01 00:45:00", "2026-06-01 01:30:00"],
        ),
        (
            "every 90 minutes between 9am and 5pm",
            "every day at 09:00, 10:30, 12:00, 13:30, 15:00 and 16:30 UTC",
            ["2026-05-14 10:30:00", "2026-05-14 12:00:00"],
        ),
        (
            "every 2 weeks on Friday",
            "every 2 weeks on Friday at 00:00 UTC",
            ["2026-05-22 00:00:00", "2026-06-05 00:00:00", "2026-06-19 00:00:00"],
        ),
        (
            "every 2 weeks on Friday and Sunday starting 2026-05-18",
            "every 2 weeks on Friday and Sunday at 00:00 starting 2026-05-18 UTC",
            ["2026-05-22 00:00:00", "2026-05-24 00:00:00", "2026-06-05 00:00:00"],
        ),
        ("every fortnight", "every 14 days UTC", ["2026-05-21 00:00:00", "2026-06-04 00:00:00"]),
        ("every 45 minutes", "every 45 minutes UTC", ["2026-05-14 10:30:00", "2026-05-14 11:15:00"]),
        ("every 5 months", "every 5 months on the 1st at 00:00 UTC", ["2026-09-01 00:00:00", "2027-02-01 00:00:00"]),
        ("every hour and a half", "every 90 minutes UTC", ["2026-05-14 10:30:00", "2026-05-14 12:00:00"]),
        (
            "every monday starting 2026-06-01",
            "every Monday at 00:00 starting 2026-06-01 UTC",
            ["2026-06-01 00:00:00", "2026-06-08 00:00:00"],
        ),
        (
            "fortnightly on tuesday",
            "every 2 weeks on Tuesday at 00:00 UTC",
            ["2026-05-19 00:00:00"],
        ),
        (
            "every 3 days at 9am starting 2026-05-14",
            "every 3 days at 09:00 starting 2026-05-14 UTC",
            ["2026-05-17 09:00:00", "2026-05-20 09:00:00"],
        ),
        ("every 45 days at 0:00", "every 45 days at 00:00 UTC", ["2026-06-06 00:00:00", "2026-07-21 00:00:00"]),
        (
            "every 18 months on the last day at 5pm",
            "every 18 months on the last day at 17:00 UTC",
            ["2027-01-31 17:00:00", "2028-07-31 17:00:00"],
        ),
        (
            "every 2 years on 1 June",
            "every 2 years on the 1st of June at 00:00 UTC",
            ["2026-06-01 00:00:00", "2028-06-01 00:00:00"],
        ),
        ("every 2 years", "every 2 years on the 1st of January at 00:00 UTC", ["2028-01-01 00:00:00"]),
        (
            "every day at 9am and 5:30pm",
            "every day at 09:00 and 17:30 UTC",
            ["2026-05-14 17:30:00", "2026-05-15 09:00:00"],
        ),
        (
            "every 5 minutes between 9:30am and 10:25",
            "every 5 minutes between 09:30 and 10:25 UTC",
            ["2026-05-14 10:25:00", "2026-05-15 09:30:00", "2026-05-15 09:35:00"],
        ),
        (
            "every 20 minutes from 23:30 to 0:30",
            "every 20 minutes between 23:30 and 00:30 UTC",
            ["2026-05-14 23:30:00", "2026-05-14 23:50:00", "2026-05-15 00:10:00", "2026-05-15 00:30:00"],
        ),
    ],
)
def test_a_phrase_beyond_cron(phrase: str, echo: str, times: list[str]) -> None:
    schedule = parse(phrase)
    assert schedule.echo() == echo
    assert (schedule.cron5, schedule.cron6, schedule.cron7) == (None, None, None)
    assert parse(echo) == schedule
    assert from_on(schedule, NOW, len(times)) == times


def test_an_interval_of_weeks_keeps_its_count_over_the_end_of_the_year() -> None:
    runs = parse("every 3 weeks on monday").upcoming(utc("2025-11-01"), 20)
    assert {(later - earlier).days for earlier, later in pairwise(runs)} == {21}


def test_an_elapsed_interval_does_not_know_daylight_saving() -> None:
    schedule = parse("every 90 minutes", tz="Europe/Zurich")
    assert local(schedule, utc("2026-03-29"), 2) == ["2026-03-29 03:30:00+02:00", "2026-03-29 05:00:00+02:00"]


def test_a_stored_schedule_carries_its_zone() -> None:
    schedule = parse("every day at 9am", tz="Europe/Zurich")
    assert str(schedule) == "every day at 09:00 in Europe/Zurich"
    assert parse(str(schedule), tz="Asia/Tokyo") == schedule


def test_every_zone_can_be_stored() -> None:
    for key in sorted(available_timezones()):
        schedule = parse("every day at 9am", tz=key)
        assert restore(str(schedule)) == schedule


def test_what_english_can_not_say_is_echoed_as_cron() -> None:
    assert parse("0 0 1 * 1").echo() == "0 0 1 * 1 UTC"
    assert parse("0 0 */2 * 1", tz="Asia/Tokyo").echo() == "0 0 */2 * 1 in Asia/Tokyo"
    assert parse("5 0 9 * * *").echo() == "every day at 09:00:05 UTC"
    assert parse("*/7 3 9 * * *").echo() == "*/7 3 9 * * * UTC"
    assert parse("* 1/3 1 * 0 0 0").echo() == "* 1/3 1 * 0 0 0 UTC"


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("every blue moon", "'blue' could not be placed in 'every blue moon': after 'every' comes a unit"),
        ("every day at", "'every day at' ends too early: after 'at' comes a time of day, as in 'at 9am'"),
        ("every day at dawn", "'dawn' could not be placed in 'every day at dawn': after 'at' comes a time of day"),
        ("every day at 25", "'25' could not be placed in 'every day at 25': an hour is 0 to 23"),
        ("every day 9", "'9' could not be placed in 'every day 9'"),
        ("every day at 9am at 5pm", "it gives the time of day twice; join several times with 'and'"),
        ("every 5 minutes every hour", "it has two intervals; keep one"),
        ("every day every week", "it has two intervals; keep one"),
        ("every 5 minutes at 9am", "a time of day does not go with an interval shorter than a day"),
        ("every 5 minutes at :30", "':MM' is the minute of an hourly job, as in 'every hour at :40'"),
        ("every day at :30", "':MM' is the minute of an hourly job"),
        ("every hour at :60", "':60' could not be placed in 'every hour at :60': a minute is 0 to 59"),
        ("every day between 9 and 17", "a window needs an interval shorter than a day"),
        ("every 5 minutes between 9 or 17", "'or' could not be placed in 'every 5 minutes between 9 or 17': a window"),
        ("every 5 minutes between 9 and", "ends too early: a window goes from one time of day to another"),
        ("every 5 minutes between 9:00:30 and 17", "a window is exact to the minute"),
        ("every 5 minutes from 9 to 10 from 11 to 12", "it has two windows; keep one"),
        ("every 90 seconds between 9 and 17", "in a window an interval above a minute must be of whole minutes"),
        ("every 90 minutes on weekdays", "an interval counted in real time runs around the clock"),
        ("every 5 minutes on monday starting 2026-06-01", "an interval shorter than a day runs around the clock"),
        (
            "every 2 weeks starting tomorrow",
            "'tomorrow' could not be placed in 'every 2 weeks starting tomorrow': after",
        ),
        ("every 2 weeks starting 2026-02-30", "there is no such date"),
        ("every 2 weeks on the 1st", "an interval of weeks goes with plain weekdays"),
        ("every 2 days on monday", "can't be narrowed to some days; leave one out"),
        ("every month on friday", "it does not say which such weekday of the month; say 'on the 1st Friday"),
        ("every month in june", "it names months and an interval of months; keep one"),
        ("every year on friday", "it does not say which such weekday of the year"),
        ("every year in june", "a yearly date needs a day and a month, as in 'every year on 1 June'"),
        ("every year on the 5th", "a yearly date needs a day and a month"),
        ("every june", "'june' could not be placed in 'every june': say which day, as in 'every 1 June'"),
        ("every 30 minutes between 9:05 and 9:10", "the window is shorter than the interval"),
        ("every 31 june", "such a date never comes"),
        ("every day on the 2nd", "can't be narrowed to some days"),
        ("every 1st monday", "'1st' could not be placed in 'every 1st monday': say 'every monday' or 'on the 1st"),
        ("every month every 2nd sunday", "could mean one or two a month"),
        ("every 6th sunday", "'6th' could not be placed in 'every 6th sunday': a month has at most five of a weekday"),
        (
            "every 2nd sunday and monday",
            "'monday' could not be placed in 'every 2nd sunday and monday': say 'every 2nd'",
        ),
        ("on the 6th monday of every month", "a month has at most five of a weekday"),
        (
            "on the 32nd of every month",
            "'32nd' could not be placed in 'on the 32nd of every month': a month has at most",
        ),
        ("on the last of every month", "after 'last' comes 'day', 'weekday' or the name of a weekday"),
        ("on the 5th on friday every month", "a day of the month and a weekday together could mean both or either"),
        ("every monday and on the 1st tuesday", "it mixes every such weekday with one of the month"),
        ("every day at 9:00:00 and 9:00:30", "several times of day must share their seconds"),
        ("every 30 minutes and 1 hour", "say each unit once, the largest first"),
        ("every 0 minutes", "'0' could not be placed in 'every 0 minutes': an interval is at least 1"),
        ("every 20000 days", "the interval is longer than anyone will wait"),
        ("every 999999999 hours", "the interval is longer than anyone will wait"),
        ("every day in 1900", "'1900' could not be placed in 'every day in 1900': years begin with 1970"),
        ("every day in the bath", "'the' could not be placed in 'every day in the bath': here comes a month or a year"),
        ("biweekly", "'biweekly' could not be understood: it has two meanings; say 'every 2 weeks' or two"),
        ("monday at 9am", "'monday at 9am' can't be kept: it does not say that it recurs; begin with 'every'"),
        ("tomorrow at 9am", "'tomorrow' could not be placed in 'tomorrow at 9am': a schedule begins with 'every'"),
        ("1 2 3", "'1' could not be placed in '1 2 3': a schedule begins with 'every'"),
        ("every day,", "',' could not be placed in 'every day,'"),
        ("every day at 9am in Mars/Crater", "'Mars/Crater' is not a known time zone"),
        (
            "FINISHED, +1 HOUR",
            "'FINISHED, +1 HOUR' is a repeat rule, which depends on the run before; "
            "say it with task.repeat(...) or --repeat",
        ),
        ("", "the phrase is empty"),
        (None, "None is not a schedule"),
    ],
)
def test_what_is_not_understood_is_refused(phrase: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse(phrase)
    assert message in str(refused.value)


def test_a_schedule_is_a_schedule() -> None:
    assert isinstance(parse("every day"), Schedule)
    assert isinstance(parse("every 90 minutes"), Schedule)
