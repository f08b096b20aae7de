"""Lengths of time: '30s', '5 minutes', '1h30m', '2 hours and 30 minutes', 'an hour and a half'.

amounts  := amount { [ "and" ] amount }            largest unit first, each once
amount   := number unit [ "and a half" ] | number "and a half" unit | fraction
fraction := "half" ( a | an ) unit | [ "a" ] "quarter" [ "of" ] "an hour" | "three quarters of an hour"
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from headrace.schedule.errors import ScheduleError
from headrace.schedule.vocabulary import SECONDS_IN, UNITS
from headrace.schedule.words import END, Phrase, read_number

_AND_A_HALF = ("and", "a", "half")
_OF_AN_HOUR = (
    (("a", "quarter", "of", "an", "hour"), 15),
    (("quarter", "of", "an", "hour"), 15),
    (("a", "quarter", "hour"), 15),
    (("quarter", "hour"), 15),
    (("half", "hour"), 30),
    (("three", "quarters", "of", "an", "hour"), 45),
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A length of time as said: calendar months, which have no fixed length, and exact time."""

    months: int
    exact: timedelta


def parse_duration(value: timedelta | int | float | str) -> timedelta:
    """A length of time from a timedelta, a number of seconds, or words. Months and years are refused.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    >>> parse_duration(2.5)
    datetime.timedelta(seconds=2, microseconds=500000)
    """
    if isinstance(value, str):
        phrase = Phrase(value)
        amount = phrase.attempt(read_amounts)
        if amount is None or phrase.peek() is not END or phrase.zone_name:
            raise phrase.unplaced("a duration is numbers with units, as in '5 minutes' or '1h30m'")
        if amount.months:
            raise phrase.refusal("months and years have no fixed length; say it in days or weeks")
        return amount.exact
    duration = seconds(value)
    if duration < timedelta(0):
        raise ScheduleError(f"a duration can't be negative, and {value!r} is")
    return duration


def seconds(value: timedelta | int | float) -> timedelta:
    """A timedelta from itself or from a number of seconds, of either sign."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ScheduleError(f"{value!r} is not a duration; give a timedelta, seconds, or words like '5 minutes'")
    try:
        if math.isfinite(value):
            return timedelta(seconds=value)
    except OverflowError:
        pass
    raise ScheduleError(f"{value!r} seconds are beyond what a duration can hold")


def read_amounts(phrase: Phrase) -> Amount | None:
    """A list of amounts, largest unit first and each unit once; None when there is none here."""
    months, exact, smallest = 0, timedelta(0), math.inf
    while (found := phrase.attempt(_amount if smallest == math.inf else _another_amount)) is not None:
        size, amount = found
        if size >= smallest:
            phrase.skip(-1)
            raise phrase.unplaced("say each unit once, the largest first")
        smallest = size
        months += amount.months
        try:
            exact += amount.exact
        except OverflowError:
            raise phrase.refusal("it is beyond what a duration can hold") from None
    return None if smallest == math.inf else Amount(months, exact)


def _another_amount(phrase: Phrase) -> tuple[float, Amount] | None:
    phrase.take("and")
    return _amount(phrase)


def _amount(phrase: Phrase) -> tuple[float, Amount] | None:
    """One amount, and the size of its unit in seconds to compare it by."""
    return _fraction(phrase) or _counted(phrase)


def _fraction(phrase: Phrase) -> tuple[float, Amount] | None:
    for words, minutes in _OF_AN_HOUR:
        if phrase.take_all(*words):
            return SECONDS_IN["hour"], Amount(0, timedelta(minutes=minutes))
    unit = UNITS.get(phrase.peek(2).word, "")
    if phrase.peek().word == "half" and phrase.peek(1).word in ("a", "an") and unit in SECONDS_IN:
        phrase.skip(3)
        return SECONDS_IN[unit], Amount(0, timedelta(seconds=SECONDS_IN[unit] / 2))
    return None


def _counted(phrase: Phrase) -> tuple[float, Amount] | None:
    token = phrase.peek()
    number = read_number(token)
    count = number if number is not None else token.decimal
    halves = 1 if all(phrase.peek(ahead).word == word for ahead, word in enumerate(_AND_A_HALF, start=1)) else 0
    spelled = phrase.peek(1 + 3 * halves).word
    factor = 2 if spelled in ("fortnight", "fortnights") else 1
    unit = "week" if factor == 2 else UNITS.get(spelled, "")
    if count is None or not unit:
        return None
    if unit in ("month", "year") and (number is None or halves):
        raise phrase.unplaced("months and years are counted whole")
    phrase.skip(2 + 3 * halves)
    if unit in ("month", "year"):
        months = (number or 0) * (12 if unit == "year" else 1)
        return (365 if unit == "year" else 30) * 86400, Amount(months, timedelta(0))
    halves = halves or int(phrase.take_all(*_AND_A_HALF))
    try:
        length = timedelta(seconds=(count + halves / 2) * factor * SECONDS_IN[unit])
    except OverflowError:
        raise phrase.refusal("it is beyond what a duration can hold") from None
    return SECONDS_IN[unit], Amount(0, length)
