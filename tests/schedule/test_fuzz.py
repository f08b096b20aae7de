"""Whatever is typed: an answer or a ScheduleError, in bounded work."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headrace.schedule import (
    Schedule,
    ScheduleError,
    cron7_of_phrase,
    parse,
    parse_cron7,
    parse_duration,
    parse_instant,
    parse_modifier,
    parse_repeat,
)
from volume import volume

from .helpers import NOW, calls

# About 50 ms on a slow machine; the dearest input known takes a third of it.
MOST_CALLS = 150_000
TEXT = """
    every each other at on in of the and between from to until last day days weekday weekend monday tuesdays sun
    1st 2nd 3rd 15th 31st 32nd first second third january feb 29 30 31 2027 9999 10000 0 1 5 90 60 24 12 1.5 half
    past quarter noon midnight 9am 13pm 7:30 25:00 :30 :99 19:00:30 hour minutes s h30m week month year fortnight
    daily starting 2026-06-01 2026-02-30 T Z UTC Europe/Zurich in/valid / - , . * ? */5 */0 1-5 5-1 1/2 0/6 5L LW
    tonight morning evening night o'clock ( ) & : except but once twice times nightly quarterly business coming am pm
    15W L MON#2 @daily @never now today tomorrow next this after a an one twelve FINISHED SCHEDULED, +1 HOUR START
"""
WORDS = TEXT.split()
PARSERS: dict[str, Callable[[str], object]] = {
    "parse": parse,
    "parse_cron7": parse_cron7,
    "parse_duration": parse_duration,
    "parse_instant": lambda text: parse_instant(text, now=NOW, tz="Europe/Zurich"),
    "parse_modifier": parse_modifier,
    "parse_repeat": parse_repeat,
    "cron7_of_phrase": lambda text: cron7_of_phrase(text, NOW),
}


def use(parser: Callable[[str], object], text: str) -> None:
    """Parse, and if that works ask for what comes next and how it is said."""
    try:
        found = parser(text)
    except ScheduleError:
        return
    if isinstance(found, Schedule):
        found.next(NOW)
        if parser is parse:
            assert parse(found.echo()) == found


def garbage(chance: random.Random) -> str:
    match chance.randrange(4):
        case 0:
            alphabet = "0123456789*/,-#?LW :.apmTZ+" + chance.choice(("", "\x00\n\t", "é☃\u0663\U0001f600İ"))
            return "".join(chance.choice(alphabet) for _ in range(chance.randrange(60)))
        case 1:
            return "".join(chr(chance.randrange(1, 0x2FFF)) for _ in range(chance.randrange(40)))
        case 2:
            return " ".join(
                chance.choice(("*", "*/2", "1-5", "3", "0/2", "L", *WORDS)) for _ in range(chance.randint(5, 7))
            )
        case _:
            return chance.choice((" ", "  ", "")).join(chance.choice(WORDS) for _ in range(chance.randrange(12)))


@pytest.mark.parametrize("name", PARSERS)
def test_garbage_is_refused_and_nothing_else(name: str) -> None:
    chance = random.Random(name)
    for _ in range(volume(4000)):
        text = garbage(chance)
        try:
            use(PARSERS[name], text)
        except Exception as error:
            raise AssertionError(f"{name}({text!r})") from error


NASTY = [
    *("every " * 40, "1st and " * 30, "at " * 90, "and " * 70, "9am and " * 35, "between " * 30, "," * 290),
    *("1" * 300, "1 " * 140, "a" * 299, "9" * 9 + " weeks", "in " + "1 day " * 40, "last " * 50, ":30 and " * 35),
    "*/1," * 120 + "* * * * *",
    "1970-9999," * 40 + "* * * * * * *",
    "* * * * " + "0-59/7," * 40 + "1 * *",
    "1970-9999 2 30 * * * *",
    "1970-9999 2 29 * 0/31 * *",
    "9999 12 31 * 23 59 59",
    "every 9999 days",
    "every 9999 weeks on friday",
    "every 9999 months on the 31st",
    "every 9999 years",
    "every 400 years on 29 february starting 1901-01-01",
    "every 12 months on the 31st starting 2026-02-01",
    "every day at 9am starting 9999-12-31",
    "every second starting 9999-12-31",
    "on the 29th of february 2027 every year",
    "every year on the 5th monday of february",
    "0 0 29 2 */7",
]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("name", PARSERS)
def test_nasty_text_takes_bounded_work(name: str, text: str) -> None:
    assert calls(lambda: use(PARSERS[name], text)) < MOST_CALLS


def test_random_text_takes_bounded_work() -> None:
    chance = random.Random("bounded")
    for _ in range(volume(300)):
        text = garbage(chance)
        for name, parser in PARSERS.items():
            assert calls(lambda parser=parser, text=text: use(parser, text)) < MOST_CALLS, f"{name}({text!r})"  # type: ignore[misc]
