"""Classic cron: its grammar, and cronsim as the oracle for the five fields."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError

from headrace.schedule import ScheduleError, parse
from volume import volume

from .helpers import NOW, from_on, utc


@pytest.mark.parametrize(
    ("cron", "times"),
    [
        ("0 9 * * MON-FRI", ["2026-05-15 09:00:00", "2026-05-18 09:00:00"]),
        ("*/20 * * * *", ["2026-05-14 10:40:00", "2026-05-14 11:00:00"]),
        ("0 0 * * 7", ["2026-05-17 00:00:00", "2026-05-24 00:00:00"]),
        ("0 0 * * 5-7", ["2026-05-15 00:00:00", "2026-05-16 00:00:00", "2026-05-17 00:00:00"]),
        ("0 0 * * SAT-SUN", ["2026-05-16 00:00:00", "2026-05-17 00:00:00", "2026-05-23 00:00:00"]),
        ("0 0 L * *", ["2026-05-31 00:00:00", "2026-06-30 00:00:00"]),
        ("0 0 LW * *", ["2026-05-29 00:00:00", "2026-06-30 00:00:00"]),
        ("0 0 1W * *", ["2026-06-01 00:00:00", "2026-07-01 00:00:00", "2026-08-03 00:00:00"]),
        ("0 0 16W * *", ["2026-05-15 00:00:00", "2026-06-16 00:00:00"]),
        ("0 0 31W * *", ["2026-05-29 00:00:00", "2026-07-31 00:00:00"]),
        ("0 0 * * FRIL", ["2026-05-29 00:00:00", "2026-06-26 00:00:00"]),
        ("0 0 * * MON#2", ["2026-06-08 00:00:00", "2026-07-13 00:00:00"]),
        ("0 0 ? * 1", ["2026-05-18 00:00:00"]),
        # both day fields: either is enough, but a star in one asks for both
        ("0 0 1 * 1", ["2026-05-18 00:00:00", "2026-05-25 00:00:00", "2026-06-01 00:00:00", "2026-06-08 00:00:00"]),
        ("0 0 */2 * 1", ["2026-05-25 00:00:00", "2026-06-01 00:00:00", "2026-06-15 00:00:00"]),
        ("0 0 1 * */2", ["2026-08-01 00:00:00", "2026-09-01 00:00:00"]),
        # six fields, seconds first
        ("15 30 9 * * *", ["2026-05-15 09:30:15", "2026-05-16 09:30:15"]),
        ("*/20 * * * * *", ["2026-05-14 10:20:40", "2026-05-14 10:21:00"]),
        ("@yearly", ["2027-01-01 00:00:00"]),
        ("@annually", ["2027-01-01 00:00:00"]),
        ("@monthly", ["2026-06-01 00:00:00"]),
        ("@weekly", ["2026-05-17 00:00:00"]),
        ("@daily", ["2026-05-15 00:00:00"]),
        ("@midnight", ["2026-05-15 00:00:00"]),
        ("@hourly", ["2026-05-14 11:00:00"]),
    ],
)
def test_next_runs(cron: str, times: list[str]) -> None:
    assert from_on(parse(cron), NOW, len(times)) == times


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("* * * *", "'* * * *' has 4 fields; classic cron has 5, or 6 with the second first"),
        ("* * * * * * * *", "has 8 fields"),
        ("0 0 30 2 *", "'0 0 30 2 *' can't be kept: such a date never comes"),
        ("0 0 31 4,6,9,11 *", "such a date never comes"),
        ("5/15 * * * *", "'5/15' could not be placed in the minute field: a step needs a range: write 5-59/15"),
        ("* * * * banana", "'banana' could not be placed in the day of week field"),
        ("* * * * 8", "'8' could not be placed in the day of week field: it goes from 0 to 7"),
        ("* * * * MON#6", "after '#' comes 1 to 5"),
        ("* * 32W * *", "'32W' could not be placed in the day of month field: it goes from 1 to 31"),
        ("* 22-2 * * *", "the range runs backward; write it as two ranges, joined by a comma"),
        ("@reboot", "'@reboot' is not a cron macro; there are @yearly, @annually"),
        ("* * * * * Mars/Crater", "'Mars/Crater' is not a known time zone"),
        ("0," * 300 + "0 * * * *", "is too long"),
    ],
)
def test_what_is_not_cron_is_refused(cron: str, message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse(cron)
    assert message in str(refused.value)


def test_a_zone_may_follow_the_fields() -> None:
    assert parse("0 9 * * * Europe/Zurich") == parse("0 9 * * *", tz="Europe/Zurich")
    assert parse("0 9 * * * in Europe/Zurich").tz == ZoneInfo("Europe/Zurich")


def test_the_same_schedule_is_equal_however_it_is_written() -> None:
    assert parse("00 09 * * 1,2,3,4,5") == parse("0 9 * JAN-DEC mon-fri") == parse("0 0 9 ? * 1-5")
    assert hash(parse("0 9 * * *")) == hash(parse("every day at 9am"))
    assert parse("0 9 * * *") != parse("0 9 * * *", tz="Asia/Tokyo")


def random_field(chance: random.Random, low: int, high: int, names: tuple[str, ...] = ()) -> str:
    def value() -> int:
        return chance.randint(low, high)

    def item() -> str:
        match chance.randrange(6):
            case 0 | 1:
                return str(value())
            case 2 if names:
                return chance.choice(names)
            case 3:
                return f"*/{chance.randint(1, high)}"
            case 4:
                # Not 3-3/9, which cronsim reads as 3/9 and that as 3-12/9.
                first, last = sorted(chance.sample(range(low, high + 1), 2))
                return f"{first}-{last}/{chance.randint(1, 9)}"
            case _:
                first, last = sorted((value(), value()))
                return f"{first}-{last}"

    if chance.random() < 0.35:
        return "*"
    return ",".join(item() for _ in range(chance.choice((1, 1, 1, 2, 3))))


def random_cron(chance: random.Random) -> str:
    day = random_field(chance, 1, 31) if chance.random() < 0.9 else chance.choice(("L", "LW", "L,10"))
    weekday = random_field(chance, 0, 7, ("mon", "FRI", "SUN", "5L", "2#3", "sat#5"))
    month = random_field(chance, 1, 12, ("jan", "FEB"))
    return f"{random_field(chance, 0, 59)} {random_field(chance, 0, 23)} {day} {month} {weekday}"


def test_cronsim_agrees() -> None:
    chance = random.Random("cronsim")
    compared = 0
    for _ in range(volume(900)):
        cron = random_cron(chance)
        start = datetime(2020, 1, 1) + timedelta(seconds=chance.randrange(12 * 365 * 86400))
        try:
            oracle = CronSim(cron, start)
            expected = [str(next(oracle)) for _ in range(6)]
        except (CronSimError, StopIteration):  # it refuses impossible days, and gives up after 50 years
            continue
        runs = parse(cron).upcoming(start, 6)
        assert [str(run.replace(tzinfo=None)) for run in runs] == expected, f"{cron} from {start}"
        compared += 1
    assert compared > volume(700)


def test_cronsim_agrees_on_daylight_saving() -> None:
    chance = random.Random("cronsim in a zone")
    # Not Lord Howe, whose clock goes back by half an hour: cronsim leaves out a run there.
    zones = ["Europe/Zurich", "America/New_York", "Australia/Sydney", "America/Havana", "Africa/Casablanca"]
    for _ in range(volume(150)):
        zone = ZoneInfo(chance.choice(zones))
        hour = chance.choice(("*", "*/2", "1", "2", "0-3", "1,2", "*/3"))
        minute = chance.choice(("*/30", "0", "30", "15,45", "*/20", "59"))
        start = datetime(2026, chance.choice((3, 4, 10, 11)), 1, tzinfo=zone) + timedelta(days=chance.randrange(31))
        oracle = CronSim(f"{minute} {hour} * * *", start)
        expected = [next(oracle).astimezone(zone).isoformat() for _ in range(40)]
        runs = parse(f"{minute} {hour} * * *", tz=zone).upcoming(start, 40)
        assert [run.astimezone(zone).isoformat() for run in runs] == expected, f"{minute} {hour} from {start} in {zone}"


def test_a_naive_start_is_read_in_the_zone_of_the_schedule() -> None:
    assert parse("0 9 * * *", tz="Asia/Tokyo").next(datetime(2026, 5, 14, 8)) == utc("2026-05-14")
