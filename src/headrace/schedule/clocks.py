"""Times of day in words: '9am', 'half past nine', 'ten to seven in the evening', "8 o'clock".

    clock := 9am | 9:30 | 7.30pm | noon | midnight
           | hour "o'clock" | offset ( "past" | "to" ) hour | "at" hour | "at" HHMM
    offset := half | quarter | number [ "minutes" ]
    hour := number | 9am, each perhaps with am or pm after it
    part := "in the" ( morning | afternoon | evening ) | "at night" | "tonight"

A bare hour is on the 24-hour clock, unless a part of the day is named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from headrace.schedule.errors import ScheduleError
from headrace.schedule.times import Clock
from headrace.schedule.vocabulary import DAYPARTS, DIGITS, TENS
from headrace.schedule.words import Phrase, Spoken

Numbers = Literal["none", "words", "all"]
_MINUTES = {**DIGITS, **TENS}


def read_clock(phrase: Phrase, *, bare: bool, numbers: Numbers = "all") -> Spoken | None:
    """A time of day. With ``bare`` a number alone is an hour; ``numbers`` says which may come before 'to'.

    >>> read_clock(Phrase("quarter to six"), bare=False).clock
    (5, 45, 0)
    >>> read_clock(Phrase("9 to 17"), bare=True, numbers="none").clock
    (9, 0, 0)
    """
    if (shift := read_offset(phrase, numbers)) is not None:
        hour = _read_hour(phrase)
        if hour is None:
            raise phrase.unplaced("'past' and 'to' need an hour, as in 'half past 3'")
        if hour.clock[1:] != (0, 0):
            phrase.skip(-1)
            raise phrase.unplaced("'past' and 'to' need a full hour")
        return _shifted(_with_half(phrase, hour), shift)
    token = phrase.peek()
    if token.clock:
        phrase.skip()
        return token.clock
    if phrase.peek(1).word == "oclock":
        spoken = _read_hour(phrase)
        if spoken is not None:
            phrase.skip()
            return _with_half(phrase, spoken)
    if not bare:
        return None
    if token.number is not None and len(token.text) == 4 and token.text.isdigit():
        return _military(phrase, token.number)
    spoken = _read_hour(phrase)
    return None if spoken is None else _with_half(phrase, spoken)


def read_clocks(phrase: Phrase, *, bare: bool) -> list[Spoken]:
    """A list of times of day, joined by 'and' or commas; empty when there is none."""
    found: list[Spoken] = []

    def another(words: Phrase) -> Spoken | None:
        if found and not words.take("and"):
            return None
        if found:
            words.take("at")
        return read_clock(words, bare=bare, numbers="all" if bare else "none")

    while (spoken := phrase.attempt(another)) is not None:
        found.append(spoken)
    return found


def read_offset(phrase: Phrase, numbers: Numbers) -> int | None:
    """'half past', 'ten to', '5 minutes past': the minutes, negative before the hour; None when there are none.

    'nine to five' is no time before five: without 'minutes', only the numbers of a clock's face come before 'to'.
    """
    ahead = int(phrase.peek().word == "a" and phrase.peek(1).word == "quarter")
    token = phrase.peek(ahead)
    named = {"half": 30, "quarter": 15}.get(token.word)
    minutes = named or (token.number if token.number is not None else _MINUTES.get(token.word))
    counted = named is None and phrase.peek(1).word in ("minute", "minutes")
    ahead += 2 if counted else 1
    joint = phrase.peek(ahead).word
    if minutes is None or joint not in ("past", "to") or not 0 < minutes < 60:
        return None
    if joint == "to" and named == 30:
        raise phrase.unplaced("say 'half past' the hour before")
    if joint == "to" and not (named or counted):
        said = numbers == "all" or (numbers == "words" and token.number is None)
        if not said or minutes not in (5, 10, 20, 25):
            return None
    phrase.skip(ahead + 1)
    return minutes if joint == "past" else -minutes


def read_daypart(phrase: Phrase) -> str:
    """'in the evening', 'at night', or a part of the day after a day ('tomorrow morning'); empty when there is none."""
    if phrase.peek().word in DAYPARTS:
        return phrase.take(*DAYPARTS)
    if phrase.peek().word in ("in", "during") and phrase.peek(1).word == "the" and phrase.peek(2).word in DAYPARTS:
        phrase.skip(2)
        return phrase.take(*DAYPARTS)
    if phrase.take_all("at", "night"):
        return "night"
    return ""


def clock_in(part: str, spoken: Spoken, *, after_midnight: bool = False) -> Clock:
    """A time of day in a part of the day. With ``after_midnight`` the small hours belong to the night.

    >>> clock_in("evening", Spoken((7, 30, 0))), clock_in("morning", Spoken((7, 30, 0)))
    ((19, 30, 0), (7, 30, 0))
    """
    hour, minute, second = spoken.clock
    if not part:
        return spoken.clock
    if part == "night" and after_midnight and (hour < 6 or spoken.clock == (0, 0, 0)):
        return spoken.clock
    first, last = DAYPARTS[part]
    hours = {hour} if spoken.definite or hour == 12 else {hour, (hour + 12) % 24}
    fitting = [each for each in sorted(hours) if first <= each <= last]
    if len(fitting) != 1:
        raise ScheduleError(
            f"{hour}:{minute:02} is not clear with '{part}'; leave that out, and say it as in 7pm or 19:00"
        )
    return fitting[0], minute, second


def _read_hour(phrase: Phrase) -> Spoken | None:
    token = phrase.peek()
    if token.clock:
        phrase.skip()
        return token.clock
    number = token.number if token.number is not None else DIGITS.get(token.word)
    if number is None:
        return None
    if number > 23:
        raise phrase.unplaced("an hour is 0 to 23")
    phrase.skip()
    return Spoken((number, 0, 0), definite=number > 12, minutes=False, bare=True)


def _with_half(phrase: Phrase, spoken: Spoken) -> Spoken:
    """The hour with 'am' or 'pm' after it, where these stand alone: 'three pm'."""
    if spoken.definite or phrase.peek().word not in ("am", "pm"):
        return spoken
    hour = spoken.clock[0]
    if not 1 <= hour <= 12:
        raise phrase.unplaced("with am or pm an hour is 1 to 12")
    late = phrase.take("am", "pm") == "pm"
    return replace(spoken, clock=(hour % 12 + (12 if late else 0), *spoken.clock[1:]), definite=True, bare=False)


def _shifted(spoken: Spoken, minutes: int) -> Spoken:
    minute = (spoken.clock[0] * 60 + minutes) % 1440
    return replace(spoken, clock=(minute // 60, minute % 60, 0), minutes=True, bare=False)


def _military(phrase: Phrase, number: int) -> Spoken:
    hour, minute = divmod(number, 100)
    if hour > 23 or minute > 59:
        raise phrase.unplaced("a day goes from 0000 to 2359")
    phrase.skip()
    return Spoken((hour, minute, 0), definite=True)
