"""What is echoed means the same: parse(echo(s)) == s, and every cron form reads back to the schedule."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headrace.schedule import ScheduleError, anchored, anchors, parse, parse_cron7
from volume import volume

from .helpers import NOW

ZONES = st.sampled_from(["UTC", "Europe/Zurich", "America/New_York", "Japan", "Etc/GMT+5"])
# The same examples on every run: a failure must not come and go.
SETTINGS: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much],
}


def field(low: int, high: int, *specials: str, turns: bool = False) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    ranges = st.tuples(value, value).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    items = [value.map(str), ranges, st.tuples(ranges, st.integers(1, 20)).map(lambda pair: f"{pair[0]}/{pair[1]}")]
    items.append(st.integers(1, high + 2).map(lambda step: f"*/{step}"))
    if specials:
        items.append(st.sampled_from(specials))
    if turns:
        items.append(st.tuples(value, st.integers(1, 40)).map(lambda pair: f"{pair[0]}/{pair[1]}"))
    lists = st.lists(st.one_of(items), min_size=1, max_size=4).map(",".join)
    return st.one_of(st.just("*"), items[0], lists)


CLASSIC = st.tuples(
    st.one_of(st.just("0"), field(0, 59)),
    field(0, 59),
    field(0, 23),
    field(1, 31, "L", "LW", "15W", "1W"),
    field(1, 12, "jan", "DEC"),
    field(0, 7, "5L", "2#3", "mon", "SUN"),
).map(" ".join)

SEVEN = st.tuples(
    st.one_of(st.just("*"), st.just("*"), field(1970, 2200, turns=True)),
    field(1, 12, "June", turns=True),
    field(1, 31, "L", "20-L", "20-L/3", turns=True),
    field(0, 6, "5L", "2#3", "mon", turns=True),
    field(0, 23, turns=True),
    field(0, 59, turns=True),
    field(0, 59, turns=True),
).map(" ".join)

CLOCKS = st.sampled_from(["at 9am", "at 6:30", "at 0:15:30", "at noon and 17:45", "at 7, 9 and 11", ""])
WINDOWS = st.sampled_from(["between 9 and 17", "from 22 to 3", "between 9:30 and 17:10", "from 23:50 to 0:10", "", ""])
WITHIN = st.sampled_from(["", "", "in July", "in June and July 2027", "in 2028"])
DATES = st.sampled_from(
    [
        *("on the 1st and 15th", "on the last day", "on the last weekday", "on the 2nd friday", "on the 31st"),
        *("on the 1st and 3rd monday and the last friday", "on the 1st, 2nd, 3rd and the last day"),
    ]
)
WEEKDAYS = st.sampled_from(
    ["monday and friday", "tuesday to saturday", "weekday", "weekend", "2nd sunday and every wednesday", "other friday"]
)
MONTHS = st.sampled_from(
    ["every month", "the month", "June", "every 3 months", "every 14 months", "March and May 2031"]
)


def joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda texts: " ".join(filter(None, texts)))


def interval(*units: str) -> st.SearchStrategy[str]:
    return st.tuples(st.integers(1, 130), st.sampled_from(units)).map(lambda pair: f"every {pair[0]} {pair[1]}s")


STARTS = st.sampled_from(["", "", "starting 2026-06-05", "starting 1970-01-01"])
ON_DATES = joined(DATES, st.just("of"), MONTHS)
ON_WEEKDAYS = joined(st.just("on every"), WEEKDAYS, WITHIN)
PHRASES = st.one_of(
    joined(interval("second", "minute", "hour"), WINDOWS, st.one_of(WITHIN, ON_DATES, ON_WEEKDAYS)),
    joined(st.just("every hour"), st.sampled_from(["at :20", "at :05, :10 and :20"]), WINDOWS),
    joined(interval("second", "minute", "hour"), STARTS, st.sampled_from(["", "at 9:15"])),
    joined(interval("day"), WITHIN, CLOCKS, STARTS),
    joined(interval("week"), st.sampled_from(["", "on monday and friday", "on sunday"]), CLOCKS, STARTS),
    joined(interval("month"), st.one_of(st.just(""), DATES), CLOCKS, STARTS),
    joined(interval("year"), st.sampled_from(["", "on 1 June", "on the 2nd friday of May"]), CLOCKS, STARTS),
    joined(ON_DATES, st.sampled_from(["", "every year"]), CLOCKS),
    joined(ON_WEEKDAYS, CLOCKS),
    joined(st.sampled_from(["daily", "weekly", "monthly", "yearly", "mondays", "weekdays", "every 3 May"]), CLOCKS),
)


@settings(max_examples=volume(700), **SETTINGS)
@given(st.one_of(CLASSIC, CLASSIC.map(lambda text: text.partition(" ")[2]), SEVEN, PHRASES), ZONES)
def test_an_echo_parses_back_to_the_schedule(text: str, zone: str) -> None:
    try:
        schedule = parse(text, tz=zone)
    except ScheduleError:
        assume(False)
    assert parse(schedule.echo(), tz="Asia/Kolkata") == schedule
    for form in (schedule.cron5, schedule.cron6, schedule.cron7):
        assert form is None or parse(form, tz=zone) == schedule


@settings(max_examples=volume(400), **SETTINGS)
@given(PHRASES, ZONES)
def test_an_echo_of_a_phrase_is_itself_its_echo(text: str, zone: str) -> None:
    try:
        echo = parse(text, tz=zone).echo()
    except ScheduleError:
        assume(False)
    assert parse(echo).echo() == echo


@settings(max_examples=volume(400), **SETTINGS)
@given(PHRASES, ZONES)
def test_an_anchor_is_echoed_and_kept(text: str, zone: str) -> None:
    try:
        schedule = parse(text, tz=zone)
    except ScheduleError:
        assume(False)
    fixed = anchored(schedule, NOW)
    assert parse(fixed.echo()) == fixed
    anchor = anchors.anchor_of(fixed)
    if anchors.is_open(schedule) and anchor is not None:
        assert anchors.anchored_at(schedule, anchor) == fixed


@settings(max_examples=volume(200), **SETTINGS)
@given(SEVEN)
def test_every_seven_field_cron_can_be_written_again(text: str) -> None:
    schedule = parse_cron7(text)
    assert schedule.cron7 is not None
    again = parse_cron7(schedule.cron7)
    assert again == schedule or not (again.ever_runs or schedule.ever_runs)
