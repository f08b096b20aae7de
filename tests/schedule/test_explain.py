"""Explaining a schedule to a person."""

from __future__ import annotations

from headrace.schedule import explain, parse

from .helpers import NOW, utc


def test_the_echo_the_crons_and_the_next_runs() -> None:
    explained = explain(parse("every 2nd Sunday at 9am", tz="Europe/Zurich"), after=NOW, count=3)
    assert explained.echo == "every 2nd Sunday (the 2nd and 4th of a month) at 09:00 in Europe/Zurich"
    assert explained.crons == {"WorkKit cron": "* * * 0/2 9 0 0"}
    assert [str(run.at) for run in explained.runs] == [
        "2026-05-24 09:00:00+02:00",
        "2026-06-14 09:00:00+02:00",
        "2026-06-28 09:00:00+02:00",
    ]
    assert explained.remarks == ()


def test_all_cron_forms() -> None:
    assert explain(parse("every weekday at 9:30"), after=NOW).crons == {
        "cron": "30 9 * * 1-5",
        "cron with seconds": "0 30 9 * * 1-5",
        "WorkKit cron": "* * * 1-5 9 30 0",
    }


def test_a_time_in_a_gap_is_remarked() -> None:
    explained = explain(parse("every day at 2:30", tz="Europe/Zurich"), after=utc("2026-03-28"), count=3)
    assert [run.remark for run in explained.runs] == [
        "",
        "clocks go forward: 02:30 does not exist, so it runs at 03:00",
        "",
    ]


def test_a_time_in_an_overlap_is_remarked() -> None:
    explained = explain(parse("every day at 2:30", tz="Europe/Zurich"), after=utc("2026-10-24 12:00"), count=1)
    assert explained.runs[0].remark == "clocks go back: 02:30 comes twice, and it runs the first time"
    hourly = explain(parse("every hour", tz="Europe/Zurich"), after=utc("2026-10-24 23:30"), count=3)
    assert [run.remark for run in hourly.runs] == [
        "clocks go back: 02:00 comes twice",
        "clocks went back: 02:00 for the second time",
        "",
    ]


def test_an_interval_that_begins_anew_is_remarked() -> None:
    assert explain(parse("*/45 * * * *"), after=NOW).remarks == (
        "the count begins anew with every hour, as 60 is not a multiple of 45",
    )
    assert explain(parse("0 */5 * * *"), after=NOW).remarks == (
        "the count begins anew with every day, as 24 is not a multiple of 5",
    )
    assert explain(parse("every 90 minutes"), after=NOW).remarks == ()


def test_a_window_over_midnight_is_remarked() -> None:
    explained = explain(parse("every 5 minutes from 10pm to 5am"), after=NOW)
    assert explained.echo == "every 5 minutes between 22:00 and 05:59 UTC"
    assert explained.remarks == ("the window runs over midnight",)


def test_a_last_hour_that_counts_in_full_is_remarked() -> None:
    assert explain(parse("every 5 minutes from 9am to 5pm"), after=NOW).remarks == (
        "the last hour counts in full, to 17:59; write the end as 17:00 to stop sharp there",
    )
    assert explain(parse("every 5 minutes from 9am to 5:00pm"), after=NOW).remarks == ()


def test_the_end_is_remarked() -> None:
    explained = explain(parse("2026 5 14 * 10 20 30"), after=NOW)
    assert (explained.runs, explained.remarks) == ((), ("there is no further run",))
