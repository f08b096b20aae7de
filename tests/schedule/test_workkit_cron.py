"""WorkKit's seven-field cron: every example of the specification, and every refusal."""

from __future__ import annotations

import pytest

from headrace.schedule import ScheduleError, parse, parse_cron7

from .helpers import NOW, calls, from_on, shown, utc

OWN_EXAMPLE = "2014 3 * 0/2,3 9-17 * */5"


@pytest.mark.parametrize(
    ("asked_from", "answer"),
    [
        ("2014-03-01 00:00:00", "2014-03-05 09:00:00"),
        ("2014-03-05 09:00:01", "2014-03-05 09:00:05"),
        ("2014-03-05 17:59:55", "2014-03-05 17:59:55"),
        ("2014-03-05 17:59:56", "2014-03-09 09:00:00"),
        ("2014-03-09 18:00:00", "2014-03-12 09:00:00"),
        ("2014-03-23 23:00:00", "2014-03-26 09:00:00"),
        ("2014-03-26 17:59:56", "none"),
    ],
)
def test_the_formats_own_example(asked_from: str, answer: str) -> None:
    assert shown(parse_cron7(OWN_EXAMPLE).next(utc(asked_from), inclusive=True)) == answer


def test_the_days_of_the_formats_own_example() -> None:
    days = []
    run = parse_cron7(OWN_EXAMPLE).next(utc("2014-01-01"))
    while run is not None:
        days.append(run.day)
        run = parse_cron7(OWN_EXAMPLE).next(run.replace(hour=23))
    assert days == [5, 9, 12, 19, 23, 26]


@pytest.mark.parametrize(
    ("cron", "start", "times"),
    [
        ("* * * * * * *", "2026-05-14 10:20:30", ["2026-05-14 10:20:30", "2026-05-14 10:20:31"]),
        ("* * * * * * 0", "2026-05-14 10:20:30", ["2026-05-14 10:21:00", "2026-05-14 10:22:00"]),
        ("* * * * * * 30", "2026-05-14 10:20:30", ["2026-05-14 10:20:30", "2026-05-14 10:21:30"]),
        (
            "* * * * * * */20",
            "2026-05-14 10:20:30",
            ["2026-05-14 10:20:40", "2026-05-14 10:21:00", "2026-05-14 10:21:20"],
        ),
        (
            "* * * * * * */25",
            "2026-05-14 10:20:30",
            ["2026-05-14 10:20:50", "2026-05-14 10:21:00", "2026-05-14 10:21:25", "2026-05-14 10:21:50"],
        ),
        (
            "* * * * * */15 0",
            "2026-05-14 10:20:30",
            ["2026-05-14 10:30:00", "2026-05-14 10:45:00", "2026-05-14 11:00:00"],
        ),
        (
            "* * * * */6 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-14 12:00:00", "2026-05-14 18:00:00", "2026-05-15 00:00:00"],
        ),
        (
            "* * * * 8-10 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-15 08:00:00", "2026-05-15 09:00:00", "2026-05-15 10:00:00"],
        ),
        (
            "* * * * 8-18/5 30 0",
            "2026-05-14 10:20:30",
            ["2026-05-14 13:30:00", "2026-05-14 18:30:00", "2026-05-15 08:30:00", "2026-05-15 13:30:00"],
        ),
        (
            "* * * * 7,12 15 0",
            "2026-05-14 10:20:30",
            ["2026-05-14 12:15:00", "2026-05-15 07:15:00", "2026-05-15 12:15:00"],
        ),
        (
            "* * */7 * 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-15 00:00:00", "2026-05-22 00:00:00", "2026-05-29 00:00:00", "2026-06-01 00:00:00"],
        ),
        (
            "* */4 1 * 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-09-01 00:00:00", "2027-01-01 00:00:00", "2027-05-01 00:00:00"],
        ),
        ("*/5 1 1 * 0 0 0", "2026-05-14 10:20:30", ["2030-01-01 00:00:00", "2035-01-01 00:00:00"]),
        (
            "* * 31 * 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-31 00:00:00", "2026-07-31 00:00:00", "2026-08-31 00:00:00"],
        ),
        ("* 2 29 * 0 0 0", "2026-05-14 10:20:30", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("* 2 30 * 0 0 0", "2026-05-14 10:20:30", ["none"]),
        ("2025 * * * * * *", "2026-05-14 10:20:30", ["none"]),
        ("2026 5 14 * 10 20 30", "2026-05-14 10:20:30", ["2026-05-14 10:20:30", "none"]),
        ("2026 5 14 * 10 20 29", "2026-05-14 10:20:30", ["none"]),
        ("* * * 1 9 0 0", "2026-05-14 10:20:30", ["2026-05-18 09:00:00", "2026-05-25 09:00:00"]),
        (
            "* * * 1-5 9 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-15 09:00:00", "2026-05-18 09:00:00", "2026-05-19 09:00:00"],
        ),
        (
            "* * 1 1 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-18 00:00:00", "2026-05-25 00:00:00", "2026-06-01 00:00:00", "2026-06-08 00:00:00"],
        ),
        (
            "* * */10 0 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-17 00:00:00", "2026-05-21 00:00:00", "2026-05-24 00:00:00", "2026-05-31 00:00:00"],
        ),
        ("* * 1-31 1 0 0 0", "2026-05-14 10:20:30", ["2026-05-15 00:00:00", "2026-05-16 00:00:00"]),
        (
            "* * * 4/2 12 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-14 12:00:00", "2026-05-28 12:00:00", "2026-06-11 12:00:00", "2026-06-25 12:00:00"],
        ),
        (
            "* * * 4/3 12 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-21 12:00:00", "2026-06-18 12:00:00", "2026-07-16 12:00:00"],
        ),
        (
            "* * * 5/5 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-29 00:00:00", "2026-07-31 00:00:00", "2026-10-30 00:00:00"],
        ),
        ("* * * 0/1 0 0 0", "2026-05-14 10:20:30", ["2026-05-17 00:00:00", "2026-05-24 00:00:00"]),
        ("* * * 0/6 0 0 0", "2026-05-14 10:20:30", ["none"]),
        (
            "* * * * 22/3 0 0",
            "2026-05-26 00:00:00",
            ["2026-05-27 22:00:00", "2026-05-30 22:00:00", "2026-06-03 22:00:00", "2026-06-06 22:00:00"],
        ),
        (
            "* * * * * 45/6 0",
            "2026-05-14 10:20:30",
            ["2026-05-14 11:45:00", "2026-05-14 17:45:00", "2026-05-14 23:45:00", "2026-05-15 05:45:00"],
        ),
        (
            "* * * * * * 10/20",
            "2026-05-14 10:20:30",
            ["2026-05-14 10:39:10", "2026-05-14 10:59:10", "2026-05-14 11:19:10", "2026-05-14 11:39:10"],
        ),
        (
            "* * 1/3 * 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-06-01 00:00:00", "2026-09-01 00:00:00", "2026-12-01 00:00:00", "2027-03-01 00:00:00"],
        ),
        (
            "* * 31/3 * 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-31 00:00:00", "2026-10-31 00:00:00", "2027-05-31 00:00:00", "2027-10-31 00:00:00"],
        ),
        (
            "* 1/3 1 * 0 0 0",
            "2026-05-14 10:20:30",
            ["2029-01-01 00:00:00", "2032-01-01 00:00:00", "2035-01-01 00:00:00"],
        ),
        ("2027/1 1 1 * 0 0 0", "2026-05-14 10:20:30", ["2027-01-01 00:00:00", "none"]),
        ("2027/2 1 1 * 0 0 0", "2026-05-14 10:20:30", ["none"]),
        ("* * * MON-FRI 9 0 0", "2026-05-14 10:20:30", ["2026-05-15 09:00:00"]),
        ("* Jun 1 * 0 0 0", "2026-05-14 10:20:30", ["2026-06-01 00:00:00"]),
        ("* * L * 0 0 0", "2026-05-14 10:20:30", ["2026-05-31 00:00:00", "2026-06-30 00:00:00", "2026-07-31 00:00:00"]),
        (
            "* * 28-L/2 * 0 0 0",
            "2026-05-14 10:20:30",
            ["2026-05-28 00:00:00", "2026-05-30 00:00:00", "2026-06-28 00:00:00", "2026-06-30 00:00:00"],
        ),
        ("* * * 5L 0 0 0", "2026-05-14 10:20:30", ["2026-05-29 00:00:00", "2026-06-26 00:00:00"]),
        ("* * * 4#5 0 0 0", "2026-05-14 10:20:30", ["2026-07-30 00:00:00", "2026-10-29 00:00:00"]),
        ("* 12 31 * 23 59 59", "2099-12-31 23:59:59", ["2099-12-31 23:59:59", "none"]),
    ],
)
def test_the_examples_of_the_specification(cron: str, start: str, times: list[str]) -> None:
    assert from_on(parse_cron7(cron), utc(start), len(times)) == times


def test_a_start_is_cut_down_to_whole_seconds() -> None:
    cron = parse_cron7("2026 5 14 * 10 20 30")
    assert shown(cron.next(NOW.replace(microsecond=999_999), inclusive=True)) == "2026-05-14 10:20:30"
    assert cron.next(NOW) is None


def test_a_year_beyond_2099_counts_when_it_is_named() -> None:
    assert from_on(parse_cron7("2150 1 1 * 0 0 0"), NOW, 2) == ["2150-01-01 00:00:00", "none"]
    assert from_on(parse_cron7("9999 12 31 * 23 59 59"), NOW, 2) == ["9999-12-31 23:59:59", "none"]


def test_names_may_be_long_or_short_in_any_case() -> None:
    assert parse_cron7("* june * wednesday-FRI 0 0 0") == parse_cron7("* 6 * 3-5 0 0 0")


def test_a_question_mark_is_a_free_day() -> None:
    assert parse_cron7("* * ? 1 9 0 0") == parse_cron7("* * * 1 9 00 0")


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("* * * * *", "'* * * * *' has 5 fields; a WorkKit cron has 7, from year to second"),
        ("* * * * * *", "has 6 fields"),
        ("", "has 0 fields"),
        ("1969 * * * * * *", "'1969' could not be placed in the year field: it goes from 1970 to 9999"),
        ("* 13 * * * * *", "'13' could not be placed in the month field: it goes from 1 to 12"),
        ("* * 0 * * * *", "'0' could not be placed in the day of month field: it goes from 1 to 31"),
        ("* * * 7 * * *", "'7' could not be placed in the day of week field: it goes from 0 to 6"),
        ("* * * * 24 * *", "'24' could not be placed in the hour field"),
        ("* * * * * 60 *", "'60' could not be placed in the minute field"),
        ("* * * * * * 60", "'60' could not be placed in the second field"),
        ("* * * * 5-3 * *", "'5-3' could not be placed in the hour field: the range runs backward"),
        ("* * * * */0 * *", "'*/0' could not be placed in the hour field: a step is at least 1"),
        ("* * * * 5/0 * *", "a step is at least 1"),
        ("* * 1-L/0 * * * *", "a step is at least 1"),
        ("* * * * 1,,2 * *", "'1,,2' could not be placed in the hour field: there is nothing before or after a comma"),
        ("* * * * , * *", "there is nothing before or after a comma"),
        ("* * * * ? * *", "'?' could not be placed in the hour field: '?' stands alone, and only for a day"),
        ("* * ?,1 * * * *", "'?' stands alone"),
        ("* * * MON#6 * * *", "'MON#6' could not be placed in the day of week field: after '#' comes 1 to 5"),
        ("* * * L * * *", "'L' could not be placed in the day of week field"),
        ("* * 15W * * * *", "'15W' could not be placed in the day of month field"),
        ("* * * * -1 * *", "'-1' could not be placed in the hour field"),
        ("* * * * 1- * *", "'1-' could not be placed in the hour field"),
        ("* MON * * * * *", "'MON' could not be placed in the month field"),
        ("* * * * \u0663 * *", "could not be placed in the hour field"),
    ],
)
def test_what_is_not_in_the_grammar_is_refused(cron: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_cron7(cron)
    assert message in str(refused.value)


HOPELESS = [
    "* 2 30 * * * *",
    "1970-9999 2 30 * * * *",
    "1970-9999 * * 0/6 0 0 0",
    "1970-9999 4,6,9,11 31 * 0 0 0",
    "1970-9999 5/9000 1 * 0 0 0",
    "1970-9999 * 5 * 22/3 0 0",
    "* * * * 22/32 0 0",
    "* * * * 3 45/5 0",
    "* * * * * 3 10/5",
    "2027/2 * * * * * *",
]


@pytest.mark.parametrize("cron", HOPELESS)
def test_a_hopeless_cron_ends_in_bounded_work(cron: str) -> None:
    schedule = parse_cron7(cron)
    assert schedule.next(utc("1970-01-01")) is None
    assert calls(lambda: schedule.next(utc("1970-01-01"))) < 100_000


@pytest.mark.parametrize("cron", HOPELESS)
def test_a_hopeless_cron_is_refused_as_a_schedule_of_our_own(cron: str) -> None:
    with pytest.raises(ScheduleError, match="such a date never comes"):
        parse(cron)
