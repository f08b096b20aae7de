"""The daylight-saving rule, by example and against a brute-force oracle over the transitions of all zones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from headrace.schedule import parse
from volume import volume

from .helpers import local, utc

Matches = Callable[[datetime], bool]
AROUND = timedelta(hours=30)


@pytest.mark.parametrize(
    ("phrase", "after", "runs"),
    [
        # a fixed time in the gap: once, at the first valid instant
        ("every day at 2:30", "2026-03-28 12:00", ["2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00"]),
        ("0,30 2 * * *", "2026-03-28 12:00", ["2026-03-29 03:00:00+02:00", "2026-03-30 02:00:00+02:00"]),
        ("every day at 2:30 and 3:00", "2026-03-28 12:00", ["2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00"]),
        # a fixed time in the overlap: once, on the first pass
        ("every day at 2:30", "2026-10-24 12:00", ["2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00"]),
        ("every day at 2:30", "2026-10-25 01:10", ["2026-10-26 02:30:00+01:00"]),
        # an hourly job runs every real hour
        (
            "every hour",
            "2026-03-28 23:30",
            ["2026-03-29 01:00:00+01:00", "2026-03-29 03:00:00+02:00", "2026-03-29 04:00:00+02:00"],
        ),
        (
            "every hour at :30",
            "2026-10-25 00:00",
            ["2026-10-25 02:30:00+02:00", "2026-10-25 02:30:00+01:00", "2026-10-25 03:30:00+01:00"],
        ),
        ("0 0-23 * * *", "2026-10-25 00:00", ["2026-10-25 02:00:00+01:00", "2026-10-25 03:00:00+01:00"]),
        # a running pattern inside one hour: not in the gap, in both passes of the overlap
        ("*/30 2 * * *", "2026-03-28 12:00", ["2026-03-30 02:00:00+02:00"]),
        (
            "*/30 2 * * *",
            "2026-10-24 12:00",
            [
                "2026-10-25 02:00:00+02:00",
                "2026-10-25 02:30:00+02:00",
                "2026-10-25 02:00:00+01:00",
                "2026-10-25 02:30:00+01:00",
                "2026-10-26 02:00:00+01:00",
            ],
        ),
    ],
)
def test_the_rule_by_example(phrase: str, after: str, runs: list[str]) -> None:
    assert local(parse(phrase, tz="Europe/Zurich"), utc(after), len(runs)) == runs


def test_a_whole_day_that_never_was() -> None:
    runs = local(parse("every day at 9am", tz="Pacific/Apia"), utc("2011-12-29 12:00"), 3)
    assert runs == ["2011-12-29 09:00:00-10:00", "2011-12-31 00:00:00+14:00", "2011-12-31 09:00:00+14:00"]


def patterns(chance: random.Random, moment: datetime) -> Iterator[tuple[str, Matches, bool]]:
    """Schedules that hit a wall-clock time, each with an independent reading of it and whether it is running."""
    hour, minute = moment.hour, moment.minute
    weekday = moment.isoweekday() % 7
    step = chance.choice((5, 7, 15, 20, 30))
    other = chance.randrange(24)

    def at(*clocks: tuple[int, int]) -> Matches:
        return lambda wall: (wall.hour, wall.minute) in clocks

    yield f"{minute} {hour} * * *", at((hour, minute)), False
    yield f"{minute} * * * *", lambda wall: wall.minute == minute, True
    yield f"*/{step} {hour} * * *", lambda wall: wall.hour == hour and wall.minute % step == 0, True
    yield f"{minute},59 {hour},{other} * * *", at(*((h, m) for h in (hour, other) for m in (minute, 59))), False
    yield f"0 */{hour + 2} * * *", lambda wall: wall.hour % (hour + 2) == 0 and wall.minute == 0, True
    yield (
        f"{minute} {hour} * * {weekday}",
        lambda wall: (wall.isoweekday() % 7, wall.hour, wall.minute) == (weekday, hour, minute),
        False,
    )
    yield (
        f"every day at {hour}:{minute:02} and {other}:{59 - minute:02}",
        at((hour, minute), (other, 59 - minute)),
        False,
    )
    first, last = sorted((hour * 60 + minute, other * 60 + 1))
    if last - first < 60:  # or the interval might be longer
        first, last = min(first, 1379), min(first, 1379) + 60
    yield (
        f"every {step} minutes between {first // 60}:{first % 60:02} and {last // 60}:{last % 60:02}",
        lambda wall: wall.hour * 60 + wall.minute in range(first, last + 1, step),
        True,
    )


def brute_force(matches: Matches, running: bool, start: datetime, end: datetime, tz: ZoneInfo) -> list[datetime]:
    """Every run in [start, end), by looking at each single minute of the real and of the wall clock."""
    minutes = int((end - start) / timedelta(minutes=1))
    instants = [start + timedelta(minutes=passed) for passed in range(minutes)]
    walls = [instant.astimezone(tz).replace(tzinfo=None, fold=0) for instant in instants]
    if running:
        return [instant for instant, wall in zip(instants, walls, strict=True) if matches(wall)]
    first_shown: dict[datetime, datetime] = {}
    for instant, wall in zip(instants, walls, strict=True):
        first_shown.setdefault(wall, instant)
    runs = set()
    wall = walls[0]
    while wall <= walls[-1]:
        if matches(wall):
            shown_at = first_shown.get(wall)
            if shown_at is None:  # never shown: the first instant at which the clock shows something later
                shown_at = next(instant for instant, other in zip(instants, walls, strict=True) if other > wall)
            runs.add(shown_at)
        wall += timedelta(minutes=1)
    return sorted(runs)


def transitions(key: str, year: int) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    """The instants of a year at which a zone changes its offset, with the offsets before and after."""
    tz = ZoneInfo(key)

    def offset(moment: datetime) -> timedelta:
        found = moment.astimezone(tz).utcoffset()
        assert found is not None
        return found

    day = datetime(year, 1, 1, tzinfo=UTC)
    while day.year == year:
        following = day + timedelta(days=1)
        before, after = offset(day), offset(following)
        if before != after:
            low, high = 0, 86400
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(day + timedelta(seconds=middle)) == before else (low, middle)
            yield day + timedelta(seconds=high), before, after
        day = following


def some_transitions(wanted: int) -> Iterator[tuple[str, datetime, timedelta, timedelta]]:
    """A shuffled walk through the transitions of all zones since 1970; all of them when enough are wanted."""
    pairs = [(key, year) for key in sorted(available_timezones()) for year in range(1970, 2041)]
    random.Random("transitions").shuffle(pairs)
    for key, year in pairs:
        for change, before, after in transitions(key, year):
            if wanted == 0:
                return
            # The oracle looks at whole minutes; a handful of zones once had offsets with seconds.
            if (before % timedelta(minutes=1), after % timedelta(minutes=1)) == (timedelta(0), timedelta(0)):
                wanted -= 1
                yield key, change, before, after


def test_brute_force_agrees_on_the_transitions_of_all_zones() -> None:
    chance = random.Random("moments")
    seen = 0
    for key, change, before, after in some_transitions(volume(20)):
        tz = ZoneInfo(key)
        # A wall-clock time in the gap or the overlap, or just beside it.
        edges = sorted((change + before, change + after))
        span = int((edges[1] - edges[0]) / timedelta(minutes=1))
        moment = edges[0] + timedelta(minutes=chance.randrange(-1, span + 2))
        start, end = change - AROUND, change + AROUND
        for text, matches, running in patterns(chance, moment):
            schedule = parse(text, tz=tz)
            # The oracle sees a margin on both sides, so that gaps at its own edges don't matter.
            expected = brute_force(matches, running, start - AROUND, end + AROUND, tz)
            expected = [run for run in expected if start < run < end]
            runs = []
            run = schedule.next(start)
            while run is not None and run < end:
                runs.append(run)
                run = schedule.next(run)
            assert runs == expected, f"{text} in {key} around {change}"
            seen += 1
    assert seen >= min(volume(20), 1000) * 8


def test_from_every_start_the_next_run_is_the_first_one_later() -> None:
    """next(after) is the same whether it is asked from the run before or from any instant in between."""
    tz = ZoneInfo("America/Havana")
    chance = random.Random("starts")
    for text in ("30 0 * * *", "*/20 0 * * *", "0 * * * *", "every day at 0:15 and 1:00"):
        for change in (utc("2026-03-08 05:00"), utc("2026-11-01 05:00")):
            runs = parse(text, tz=tz).upcoming(change - AROUND, 200)
            for _ in range(volume(40)):
                start = change + timedelta(seconds=chance.randrange(-7200, 7200), microseconds=chance.randrange(2))
                assert parse(text, tz=tz).next(start) == next(run for run in runs if run > start), f"{text} {start}"
