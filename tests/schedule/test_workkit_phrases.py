"""WorkKit's phrases: every row of the specification's table, and every refusal."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.schedule import ScheduleError, cron7_of_phrase, parse, parse_cron7, parse_instant, says_recurring

from .helpers import NOW, from_on, shown

TABLE: list[tuple[str, str, list[str]]] = [
    ("now", "2026 5 14 * 10 20 30", ["2026-05-14 10:20:30"]),
    ("5 minutes", "2026 5 14 * 10 25 30", ["2026-05-14 10:25:30"]),
    ("in 20 seconds", "2026 5 14 * 10 20 50", ["2026-05-14 10:20:50"]),
    ("in 2 hours", "2026 5 14 * 12 20 30", ["2026-05-14 12:20:30"]),
    ("in 1 hour 15 minutes", "2026 5 14 * 11 35 30", ["2026-05-14 11:35:30"]),
    ("in half an hour", "2026 5 14 * 10 50 30", ["2026-05-14 10:50:30"]),
    ("1h30m", "2026 5 14 * 11 50 30", ["2026-05-14 11:50:30"]),
    ("in 3 days", "2026 5 17 * 10 20 30", ["2026-05-17 10:20:30"]),
    ("in 2 weeks", "2026 5 28 * 10 20 30", ["2026-05-28 10:20:30"]),
    ("in 1 month", "2026 6 14 * 10 20 30", ["2026-06-14 10:20:30"]),
    ("10 days from now", "2026 5 24 * 10 20 30", ["2026-05-24 10:20:30"]),
    ("9pm", "2026 5 14 * 21 0 0", ["2026-05-14 21:00:00"]),
    ("9am", "2026 5 15 * 9 0 0", ["2026-05-15 09:00:00"]),
    ("11:45", "2026 5 14 * 11 45 0", ["2026-05-14 11:45:00"]),
    ("23:59:59", "2026 5 14 * 23 59 59", ["2026-05-14 23:59:59"]),
    ("noon", "2026 5 14 * 12 0 0", ["2026-05-14 12:00:00"]),
    ("midnight", "2026 5 15 * 0 0 0", ["2026-05-15 00:00:00"]),
    ("8am tomorrow", "2026 5 15 * 8 0 0", ["2026-05-15 08:00:00"]),
    ("tomorrow at 8am", "2026 5 15 * 8 0 0", ["2026-05-15 08:00:00"]),
    ("tomorrow", "2026 5 15 * 0 0 0", ["2026-05-15 00:00:00"]),
    ("day after tomorrow at 6:30am", "2026 5 16 * 6 30 0", ["2026-05-16 06:30:00"]),
    ("today at 6pm", "2026 5 14 * 18 0 0", ["2026-05-14 18:00:00"]),
    ("saturday at 11am", "2026 5 16 * 11 0 0", ["2026-05-16 11:00:00"]),
    ("thursday at 9am", "2026 5 21 * 9 0 0", ["2026-05-21 09:00:00"]),
    ("thursday at 11am", "2026 5 14 * 11 0 0", ["2026-05-14 11:00:00"]),
    ("next thursday at 11am", "2026 5 21 * 11 0 0", ["2026-05-21 11:00:00"]),
    ("next monday", "2026 5 18 * 0 0 0", ["2026-05-18 00:00:00"]),
    ("2026-06-01", "2026 6 1 * 0 0 0", ["2026-06-01 00:00:00"]),
    ("2026-06-01 07:05", "2026 6 1 * 7 5 0", ["2026-06-01 07:05:00"]),
    ("2026-06-01T07:05:09Z", "2026 6 1 * 7 5 9", ["2026-06-01 07:05:09"]),
    ("3 June at 4pm", "2026 6 3 * 16 0 0", ["2026-06-03 16:00:00"]),
    ("June 3rd, 2027 at 4pm", "2027 6 3 * 16 0 0", ["2027-06-03 16:00:00"]),
    ("1 May", "2027 5 1 * 0 0 0", ["2027-05-01 00:00:00"]),
    ("every second", "* * * * * * *", ["2026-05-14 10:20:30", "2026-05-14 10:20:31"]),
    ("every minute", "* * * * * * 0", ["2026-05-14 10:21:00", "2026-05-14 10:22:00"]),
    ("every hour", "* * * * * 0 0", ["2026-05-14 11:00:00", "2026-05-14 12:00:00"]),
    ("every day", "* * * * 0 0 0", ["2026-05-15 00:00:00", "2026-05-16 00:00:00"]),
    ("every week", "* * * 0 0 0 0", ["2026-05-17 00:00:00", "2026-05-24 00:00:00"]),
    ("every month", "* * 1 * 0 0 0", ["2026-06-01 00:00:00", "2026-07-01 00:00:00"]),
    ("every year", "* 1 1 * 0 0 0", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
    ("hourly", "* * * * * 0 0", ["2026-05-14 11:00:00", "2026-05-14 12:00:00"]),
    ("daily at 6am", "* * * * 6 0 0", ["2026-05-15 06:00:00", "2026-05-16 06:00:00"]),
    ("weekly on tuesday at 8:15", "* * * 2 8 15 0", ["2026-05-19 08:15:00", "2026-05-26 08:15:00"]),
    ("every 10 seconds", "* * * * * * */10", ["2026-05-14 10:20:30", "2026-05-14 10:20:40"]),
    ("every 20 minutes", "* * * * * */20 0", ["2026-05-14 10:40:00", "2026-05-14 11:00:00"]),
    ("every 4 hours", "* * * * */4 0 0", ["2026-05-14 12:00:00", "2026-05-14 16:00:00"]),
    ("every 3 months", "* */3 1 * 0 0 0", ["2026-07-01 00:00:00", "2026-10-01 00:00:00"]),
    ("every 60 minutes", "* * * * * 0 0", ["2026-05-14 11:00:00", "2026-05-14 12:00:00"]),
    ("every hour at :40", "* * * * * 40 0", ["2026-05-14 10:40:00", "2026-05-14 11:40:00"]),
    ("every tuesday", "* * * 2 0 0 0", ["2026-05-19 00:00:00", "2026-05-26 00:00:00"]),
    ("every tuesday and thursday at 7:30am", "* * * 2,4 7 30 0", ["2026-05-19 07:30:00", "2026-05-21 07:30:00"]),
    ("every tuesday to saturday at 7am", "* * * 2-6 7 0 0", ["2026-05-15 07:00:00", "2026-05-16 07:00:00"]),
    ("tuesdays at 7am", "* * * 2 7 0 0", ["2026-05-19 07:00:00", "2026-05-26 07:00:00"]),
    ("weekdays at 8am", "* * * 1-5 8 0 0", ["2026-05-15 08:00:00", "2026-05-18 08:00:00"]),
    ("every weekday at 9:30", "* * * 1-5 9 30 0", ["2026-05-15 09:30:00", "2026-05-18 09:30:00"]),
    ("every weekend at noon", "* * * 0,6 12 0 0", ["2026-05-16 12:00:00", "2026-05-17 12:00:00"]),
    ("every 2nd Sunday at 9am", "* * * 0/2 9 0 0", ["2026-05-24 09:00:00", "2026-06-14 09:00:00"]),
    ("every 3rd tuesday at 5pm", "* * * 2/3 17 0 0", ["2026-05-19 17:00:00", "2026-06-16 17:00:00"]),
    ("every second monday at 9am", "* * * 1/2 9 0 0", ["2026-05-25 09:00:00", "2026-06-08 09:00:00"]),
    ("every day at 6am and 6pm", "* * * * 6,18 0 0", ["2026-05-14 18:00:00", "2026-05-15 06:00:00"]),
    ("every month on the 10th at 3am", "* * 10 * 3 0 0", ["2026-06-10 03:00:00", "2026-07-10 03:00:00"]),
    ("on the 1st and 20th of every month at 5pm", "* * 1,20 * 17 0 0", ["2026-05-20 17:00:00", "2026-06-01 17:00:00"]),
    ("on the last day of every month at 10pm", "* * L * 22 0 0", ["2026-05-31 22:00:00", "2026-06-30 22:00:00"]),
    ("every month on the 2nd friday at noon", "* * * 5#2 12 0 0", ["2026-06-12 12:00:00", "2026-07-10 12:00:00"]),
    ("every year on 1 June at 9am", "* 6 1 * 9 0 0", ["2026-06-01 09:00:00", "2027-06-01 09:00:00"]),
    ("every 31 October at 8pm", "* 10 31 * 20 0 0", ["2026-10-31 20:00:00", "2027-10-31 20:00:00"]),
    ("every day in July at 5am", "* 7 * * 5 0 0", ["2026-07-01 05:00:00", "2026-07-02 05:00:00"]),
    ("every 10 minutes between 8am and 4pm", "* * * * 8-16 */10 0", ["2026-05-14 10:30:00", "2026-05-14 10:40:00"]),
    ("every minute from 11pm to 1am", "* * * * 0,1,23 * 0", ["2026-05-14 23:00:00", "2026-05-14 23:01:00"]),
    ("every 2 hours between 8am and 6pm", "* * * * 8-18/2 0 0", ["2026-05-14 12:00:00", "2026-05-14 14:00:00"]),
    (
        "every 15 seconds from 9am to 5pm on weekdays",
        "* * * 1-5 9-17 * */15",
        ["2026-05-14 10:20:30", "2026-05-14 10:20:45"],
    ),
    ("every 15 minutes on saturday and sunday", "* * * 0,6 * */15 0", ["2026-05-16 00:00:00", "2026-05-16 00:15:00"]),
    (
        "every 5 seconds from 9am to 5pm on every 2nd Sunday and every Wednesday of March 2027",
        "2027 3 * 0/2,3 9-17 * */5",
        ["2027-03-03 09:00:00"],
    ),
]
ONE_TIME = [row for row in TABLE if len(row[2]) == 1 and not says_recurring(row[0])]
RECURRING = [row for row in TABLE if says_recurring(row[0])]


@pytest.mark.parametrize(("phrase", "cron", "times"), TABLE)
def test_a_phrase_becomes_its_cron(phrase: str, cron: str, times: list[str]) -> None:
    assert cron7_of_phrase(phrase, NOW) == cron
    assert from_on(parse_cron7(cron), NOW, len(times)) == times


@pytest.mark.parametrize(("phrase", "cron", "times"), ONE_TIME)
def test_a_one_time_phrase_is_the_same_instant_natively(phrase: str, cron: str, times: list[str]) -> None:
    assert shown(parse_instant(phrase, now=NOW)) == times[0]


@pytest.mark.parametrize(("phrase", "cron", "times"), RECURRING)
def test_a_recurring_phrase_is_the_same_schedule_natively(phrase: str, cron: str, times: list[str]) -> None:
    assert parse(phrase) == parse(cron)
    assert from_on(parse(phrase), NOW, len(times)) == times


def test_both_halves_of_the_table_are_tested() -> None:
    assert len(ONE_TIME) == 33
    assert len(ONE_TIME) + len(RECURRING) == len(TABLE)


@pytest.mark.parametrize(
    ("phrase", "message"),
    [
        ("soon", "'soon' could not be understood"),
        ("today at 9am", "'today at 9am' can't be kept: it has passed"),
        ("13pm", "'13pm' could not be understood: with am or pm an hour is 1 to 12"),
        ("25:00 tomorrow", "'25:00' could not be placed in '25:00 tomorrow': a day goes from 0:00 to 23:59:59"),
        ("30 February", "'30 February' can't be kept: there is no such date"),
        ("2020-01-01", "'2020-01-01' can't be kept: it has passed"),
        ("every", "'every' ends too early: after 'every' comes a unit, a weekday or a date"),
        ("every 0 minutes", "'0' could not be placed in 'every 0 minutes': an interval is at least 1"),
        ("every 7 minutes", "the cron that comes nearest is '* * * * * */7 0'"),
        ("every 45 minutes", "the cron that comes nearest is '* * * * * */45 0'"),
        ("every 25 seconds", "the cron that comes nearest is '* * * * * * */25'"),
        ("every 5 hours", "the cron that comes nearest is '* * * * */5 0 0'"),
        ("every other monday at 9am", "the cron that comes nearest is '* * * 1/2 9 0 0'"),
        ("every other day at 1am", "the cron that comes nearest is '* * */2 * 1 0 0'"),
        ("every 3 days", "the cron that comes nearest is '* * */3 * 0 0 0'"),
        ("every 5 months", "the cron that comes nearest is '* */5 1 * 0 0 0'"),
        ("every hour from 9 to 5", "the window runs backwards; say 5pm or 17:00"),
        ("every weekday on friday at 9am", "Friday is named twice; name it once"),
        ("every 5 minutes from 9am to 5:00pm", "give the window in whole hours, as in 'from 9am to 5pm'"),
        ("every 90 minutes", "no single WorkKit cron says 'every 90 minutes'"),
        ("every 2 weeks", "no single WorkKit cron says 'every 2 weeks'"),
        ("every day at 9am and 5:30pm", "no single WorkKit cron says 'every day at 9am and 5:30pm'"),
        ("every 5 minutes between 9:30am and 5pm", "no single WorkKit cron says 'every 5 minutes between 9:30am"),
        ("tomorrow tomorrow", "'tomorrow' could not be placed in 'tomorrow tomorrow': a day was given before"),
        ("", "the phrase is empty; write for example 'in 5 minutes' or 'every day at 9am'"),
        # the kinds of refusal that the specification lists in words
        ("every 60 seconds at 9am", "a time of day does not go with an interval shorter than a day"),
        ("every 2 years", "no single WorkKit cron says 'every 2 years'"),
        ("every 31 days", "no single WorkKit cron says"),
        ("every 24 months", "no single WorkKit cron says"),
        ("every day between 9am and 5pm", "a window needs an interval shorter than a day"),
        ("every month on the 5th on Friday", "a day of the month and a weekday together"),
        ("every day at 9am in Europe/Zurich", "no single WorkKit cron says"),
    ],
)
def test_what_no_cron_can_say_is_refused(phrase: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        cron7_of_phrase(phrase, NOW)
    assert message in str(refused.value)


def test_a_fraction_of_a_second_is_rounded_up_for_a_delay_and_down_for_now() -> None:
    late = NOW + timedelta(microseconds=1)
    assert cron7_of_phrase("in 5 minutes", late) == "2026 5 14 * 10 25 31"
    assert cron7_of_phrase("now", late) == "2026 5 14 * 10 20 30"
    assert cron7_of_phrase("today at 10:20:30", late) == "2026 5 14 * 10 20 30"


def test_months_cut_the_day_to_the_length_of_the_month() -> None:
    assert cron7_of_phrase("in 1 month", NOW.replace(month=1, day=31)) == "2026 2 28 * 10 20 30"
    assert cron7_of_phrase("in 1 year", NOW.replace(year=2024, month=2, day=29)) == "2025 2 28 * 10 20 30"


def test_29_february_waits_for_a_leap_year() -> None:
    assert cron7_of_phrase("29 February", NOW) == "2028 2 29 * 0 0 0"


def test_exactly_a_minute_an_hour_and_a_day_are_taken() -> None:
    assert cron7_of_phrase("every 60 seconds", NOW) == "* * * * * * 0"
    assert cron7_of_phrase("every 60 minutes", NOW) == "* * * * * 0 0"
    assert cron7_of_phrase("every 24 hours", NOW) == "* * * * 0 0 0"
