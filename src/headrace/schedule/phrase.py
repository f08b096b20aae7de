"""Recurring phrases: reading the words. What they add up to is worked out in ``compose.py``.

    every    := { part }
    part     := "every" [ "other" | number | ordinal ] ( unit | weekdays ) | "every" amounts | "every" date
              | "every" ( "quarter" | "fortnight" | "half hour" | "quarter hour" | noon | midnight | daypart )
              | hourly | daily | nightly | weekly | fortnightly | monthly | quarterly | yearly | annually
              | "once" ( a | an ) unit | ( "twice" | number "times" ) "a day"
              | [ "on" [ "the" ] ] ( weekdays | dates | date ) | "from" weekday "to" weekday
              | ( "except" | "but" ) weekdays
              | [ "at" ] clock { "and" clock } | daypart
              | "at" :MM { "and" :MM } | "on the hour" | "at" offset "past" | offset "past" ( "every" | "each" ) "hour"
              | "between" clock "and" clock | "from" clock ( "to" | "until" ) clock
              | ( "in" | "of" ) ( months [ year ] | year | "the month" | "every month" )
              | "starting" ( YYYY-MM-DD | "at" clock )
    weekdays := weekday { "and" weekday } | weekday "to" weekday | "weekday(s)" | "weekend(s)" | "business day(s)"
    dates    := ordinal { "and" ordinal } [ weekday ] | "last" ( "day" | "weekday" | weekday ) | "first weekday"
    date     := D month [ year ] | month D [ year ]

Case does not matter, a comma counts as "and", and a zone may end the phrase. A bare hour is on the 24-hour
clock and needs a word before it ("at 9", "between 9 and 17"). Every phrase must say that it recurs: two weekdays do.
Days are read in ``phrase_days.py``, clocks and parts of the day in ``clocks.py``.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo

from headrace.schedule.clocks import read_clock, read_clocks, read_daypart, read_offset
from headrace.schedule.compose import compose
from headrace.schedule.draft import SUB_DAY, Draft
from headrace.schedule.phrase_days import (
    PLURALS,
    date_comes,
    read_days,
    read_except,
    read_months,
    read_weekdays,
    read_year_of,
    weekdays_at,
)
from headrace.schedule.schedules import Schedule
from headrace.schedule.vocabulary import DAYPARTS, MONTHS, SECONDS_IN, UNITS, WEEKDAYS
from headrace.schedule.words import END, Phrase, Spoken, read_number, read_ordinal
from headrace.schedule.zone import zone

_ADVERBS = {
    "hourly": (1, "hour"),
    "daily": (1, "day"),
    "everyday": (1, "day"),
    "nightly": (1, "day"),
    "weekly": (1, "week"),
    "fortnightly": (2, "week"),
    "monthly": (1, "month"),
    "quarterly": (3, "month"),
    "yearly": (1, "year"),
    "annually": (1, "year"),
}
_AFTER_EVERY: tuple[tuple[tuple[str, ...], tuple[int, str]], ...] = (
    (("half", "an", "hour"), (30, "minute")),
    (("half", "hour"), (30, "minute")),
    (("quarter", "of", "an", "hour"), (15, "minute")),
    (("quarter", "hour"), (15, "minute")),
    (("quarter",), (3, "month")),
    (("fortnight",), (2, "week")),
)
"""What may come after 'every' in place of a number and a unit."""
_DOUBLE_MEANING = {
    "biweekly": "'every 2 weeks' or two weekdays",
    "bimonthly": "'every 2 months' or two days of every month",
    "biannually": "'every 2 years' or two dates",
}
_RECURRING = {"every", "each", *_ADVERBS, *_DOUBLE_MEANING, *PLURALS}
_WINDOW = "a window goes from one time of day to another, as in 'between 9am and 5pm'"
_AFTER = "after 'every' comes a unit, a weekday or a date, as in 'every 5 minutes' or 'every Monday at 9am'"
_ONE_MONTH = (("of", "the", "month"), ("of", "every", "month"), ("of", "each", "month"))


def parse_phrase(text: str, tz: ZoneInfo) -> Schedule:
    """Read a recurring phrase; a zone in the phrase wins over ``tz``.

    >>> parse_phrase("every 5 minutes between 9am and 5pm on weekdays", ZoneInfo("UTC")).echo()
    'every 5 minutes between 09:00 and 17:59 on weekdays UTC'
    """
    phrase = Phrase(text)
    draft = Draft()
    while phrase.peek() is not END:
        _read_part(phrase, draft)
    if not draft.recurring:
        raise phrase.refusal("it does not say that it recurs; begin with 'every'")
    return compose(draft, phrase, zone(phrase.zone_name) if phrase.zone_name else tz)


def says_recurring(text: str) -> bool:
    """Whether a phrase speaks of many times rather than one.

    >>> says_recurring("Mon, Wed and Fri at 7am"), says_recurring("once on Friday"), says_recurring("once a day")
    (True, False, True)
    """
    phrase = Phrase(text)
    weekdays = 0
    while (token := phrase.peek()) is not END:
        if token.word in _RECURRING or _often(phrase) or any(phrase.take_all(*words) for words in _PERIODIC):
            return True
        weekdays += token.word in WEEKDAYS
        phrase.skip()
    return weekdays > 1


_PERIODIC = (("of", "the", "month"), ("of", "the", "year"))


def _often(phrase: Phrase) -> bool:
    """Whether 'once a', 'twice a' or 'three times a' comes here."""
    ahead = 1 if phrase.peek().word in ("once", "twice") else 2 if phrase.peek(1).word == "times" else 0
    return bool(ahead) and phrase.peek(ahead).word in ("a", "an", "each", "every", "per")


def _read_part(phrase: Phrase, draft: Draft) -> None:
    if phrase.take("every", "each"):
        _read_every(phrase, draft)
    elif phrase.peek().word in _DOUBLE_MEANING:
        raise phrase.unplaced(f"it has two meanings; say {_DOUBLE_MEANING[phrase.peek().word]}")
    elif adverb := phrase.take(*_ADVERBS):
        draft.recurring = True
        draft.part = "night" if adverb == "nightly" else draft.part
        _set_interval(phrase, draft, *_ADVERBS[adverb])
    elif _often(phrase):
        _read_often(phrase, draft)
    elif part := read_daypart(phrase):
        _set_part(phrase, draft, part)
    elif phrase.take_all("on", "the", "hour"):
        _set_marks(phrase, draft, [0])
    elif phrase.take("at"):
        _read_times(phrase, draft)
    elif phrase.peek().word in ("between", "from"):
        _read_window_or_weekdays(phrase, draft)
    elif phrase.take("except", "but"):
        read_except(phrase, draft)
    elif phrase.take("in", "of", "during"):
        _read_period(phrase, draft)
    elif phrase.take("starting"):
        _read_start(phrase, draft)
    elif phrase.peek().word == "until":
        raise phrase.unplaced("a last date is given as end=")
    elif phrase.take_comma():
        pass
    elif phrase.peek().word == "and" and phrase.peek(1).word in ("every", "each", "on"):
        phrase.skip()
    elif phrase.take("on") or not (_read_minutes_past(phrase, draft) or _read_clocks(phrase, draft, bare=False)):
        _read_days(phrase, draft)


def _read_days(phrase: Phrase, draft: Draft) -> None:
    phrase.take("the")
    if phrase.take("every", "each"):
        _read_every(phrase, draft)
    else:
        read_days(phrase, draft)


def _read_every(phrase: Phrase, draft: Draft) -> None:
    draft.recurring = True
    for words, interval in _AFTER_EVERY:
        if phrase.take_all(*words):
            return _set_interval(phrase, draft, *interval)
    if phrase.peek().clock and phrase.peek().text in ("noon", "midnight"):
        _set_interval(phrase, draft, 1, "day")
        _read_clocks(phrase, draft, bare=False)
        return None
    if phrase.peek().word in DAYPARTS:
        _set_interval(phrase, draft, 1, "day")
        return _set_part(phrase, draft, phrase.take(*DAYPARTS))
    return _read_counted(phrase, draft)


def _read_counted(phrase: Phrase, draft: Draft) -> None:
    """'every 5 minutes', 'every other Friday', 'every 2nd Sunday', 'every 15th', 'every last Friday'."""
    count, after = 1, 0
    token, following = phrase.peek(), phrase.peek(1)
    ordinal = read_ordinal(token)
    if token.word == "other":
        count, after = 2, 1
    elif ordinal is not None and (following.word in UNITS or following.word in WEEKDAYS):
        count, after = ordinal, 1
    elif (number := read_number(token)) is not None and following.word in UNITS:
        count, after = number, 1
    word = phrase.peek(after).word
    if word in UNITS:
        phrase.skip(after + 1)
        if not count:
            phrase.skip(-2)
            raise phrase.unplaced("an interval is at least 1")
        return _read_compound(phrase, draft, count, UNITS[word])
    if token.word == "other" and (weekdays := weekdays_at(phrase, 1)):
        phrase.skip()
        if len(weekdays) > 2:
            raise phrase.unplaced("name the days, as in 'every Monday, Wednesday and Friday'")
        _set_interval(phrase, draft, 2, "week")
        return read_weekdays(phrase, draft, 1)
    if ordinal is not None and word in WEEKDAYS and not _of_one_month(phrase, 2):
        if ordinal == 1:
            raise phrase.unplaced(f"say 'every {word}' or 'on the 1st {word} of every month'")
        phrase.skip()
        return read_weekdays(phrase, draft, ordinal)
    if weekdays_at(phrase, 0):
        return read_weekdays(phrase, draft, 1)
    if word == "last" or ordinal is not None or date_comes(phrase):
        draft.of_every_month = True
        return read_days(phrase, draft)
    phrase.skip(after)
    if phrase.peek().word in MONTHS:
        raise phrase.unplaced("say which day, as in 'every 1 June' or 'every day in June'")
    raise phrase.unplaced(_AFTER)


def _of_one_month(phrase: Phrase, ahead: int) -> bool:
    """Whether 'of the month' comes, which makes 'every 2nd Sunday' one day of each month."""
    return any(all(phrase.peek(ahead + place).word == word for place, word in enumerate(words)) for words in _ONE_MONTH)


def _read_often(phrase: Phrase, draft: Draft) -> None:
    """'once an hour', 'twice a day at 8am and 8pm', 'three times a day: 8am, 2pm and 10pm'."""
    draft.recurring = True
    token = phrase.peek()
    times = {"once": 1, "twice": 2}.get(token.word) or read_number(token)
    phrase.skip(2 if token.word in ("once", "twice") else 3)
    unit = UNITS.get(phrase.peek().word)
    if times is None or unit is None or (times > 1 and unit != "day"):
        raise phrase.unplaced("say when, as in 'every Monday and Thursday at 9am' or 'every 30 minutes'")
    phrase.skip()
    _set_interval(phrase, draft, 1, unit)
    draft.times_a_day = times if times > 1 else None


def _read_compound(phrase: Phrase, draft: Draft, count: int, unit: str) -> None:
    """Further amounts after the first: 'every 1 hour and 30 minutes', 'every 1h30m', 'every hour and a half'."""
    seconds, smallest = count * SECONDS_IN.get(unit, 0), unit
    compound = False
    if unit in ("hour", "minute") and phrase.take_all("and", "a", "half"):
        return _set_interval(phrase, draft, seconds + SECONDS_IN[unit] // 2, "elapsed")
    while True:
        ahead = 1 if phrase.peek().word == "and" else 0
        number = read_number(phrase.peek(ahead))
        following = UNITS.get(phrase.peek(ahead + 1).word)
        if number is None or following is None:
            break
        phrase.skip(ahead)
        if not number or smallest not in SECONDS_IN or SECONDS_IN.get(following, 9e9) >= SECONDS_IN[smallest]:
            raise phrase.unplaced("say each unit once, the largest first, none larger than a week")
        phrase.skip(2)
        seconds, smallest, compound = seconds + number * SECONDS_IN[following], following, True
    return _set_interval(phrase, draft, *((seconds, "elapsed") if compound else (count, unit)))


def _set_interval(phrase: Phrase, draft: Draft, count: int, unit: str) -> None:
    if (draft.pace if unit in SUB_DAY else draft.interval) is not None:
        raise phrase.refusal("it has two intervals; keep one")
    if unit in SUB_DAY:
        draft.pace = (count, unit)
    else:
        draft.interval = (count, unit)


def _set_part(phrase: Phrase, draft: Draft, part: str) -> None:
    if draft.part:
        raise phrase.refusal("it names two parts of the day; make it two schedules")
    draft.part = part


def _set_marks(phrase: Phrase, draft: Draft, marks: list[int]) -> None:
    if draft.marks:
        raise phrase.refusal("it gives the minutes twice; keep one")
    draft.marks = tuple(sorted(set(marks)))


def _read_minutes_past(phrase: Phrase, draft: Draft) -> bool:
    """'15 minutes past every hour', 'at half past': minutes of every hour, where no hour comes after 'past'."""

    def offset(words: Phrase) -> int | None:
        found = read_offset(words, "all")
        following = words.peek().word in ("every", "each") and words.peek(1).word == "hour"
        return found if found is not None and (words.peek() is END or following) else None

    minutes = phrase.attempt(offset)
    if minutes is None:
        return False
    _set_marks(phrase, draft, [minutes % 60])
    return True


def _read_times(phrase: Phrase, draft: Draft) -> None:
    marks: list[int] = []
    while (mark := phrase.peek(1 if marks and phrase.peek().word == "and" else 0).mark) is not None:
        phrase.skip(2 if phrase.peek().word == "and" else 1)
        marks.append(mark)
    if marks:
        return _set_marks(phrase, draft, marks)
    if not (_read_minutes_past(phrase, draft) or _read_clocks(phrase, draft, bare=True)):
        raise phrase.unplaced("after 'at' comes a time of day, as in 'at 9am' or 'at 17:30'")
    return None


def _read_clocks(phrase: Phrase, draft: Draft, *, bare: bool) -> bool:
    spoken = read_clocks(phrase, bare=bare)
    if not spoken:
        return False
    if draft.spoken:
        raise phrase.refusal("it gives the time of day twice; join several times with 'and'")
    if len(spoken) > 24:
        raise phrase.refusal("more than 24 times of day are better said as an interval; say 'every 30 minutes'")
    draft.spoken = tuple(spoken)
    return True


def _read_window_or_weekdays(phrase: Phrase, draft: Draft) -> None:
    """'between 9am and 5pm', 'from 9am to 5pm'; but 'from Monday to Friday' are weekdays."""
    said_from = phrase.take("between", "from") == "from"
    if said_from and weekdays_at(phrase, 0) and weekdays_at(phrase, 2):
        return read_weekdays(phrase, draft, 1)
    if said_from and (date_comes(phrase) or phrase.peek().date or weekdays_at(phrase, 0)):
        raise phrase.unplaced("a first date is written as in 'starting 2026-06-01', or given as start=")
    if draft.window:
        raise phrase.refusal("it has two windows; keep one")
    first = _read_end(phrase)
    if not phrase.take("and", "to", "until", "-"):
        raise phrase.unplaced(_WINDOW)
    draft.window = _window(phrase, first, _read_end(phrase))
    return None


def _read_end(phrase: Phrase) -> Spoken:
    spoken = read_clock(phrase, bare=True, numbers="none")
    if spoken is None:
        raise phrase.unplaced(_WINDOW)
    if spoken.clock[2]:
        phrase.skip(-1)
        raise phrase.unplaced("a window is exact to the minute; leave the seconds out")
    return spoken


def _window(phrase: Phrase, first: Spoken, last: Spoken) -> tuple[int, int]:
    """First and last minute. Of hours without minutes the last counts in full: 'from 9am to 5pm' is to 17:59."""
    start, end = (spoken.clock[0] * 60 + spoken.clock[1] for spoken in (first, last))
    if end < start and (first.bare or last.bare):
        hour = end // 60
        cure = f"say {hour}pm or {hour + 12}:00" if 0 < hour < 12 else f"say {hour}:00"
        raise phrase.refusal(f"the window runs backwards; {cure}, or both times with minutes if it is over midnight")
    return start, end if last.minutes or start % 60 else end + 59


def _read_period(phrase: Phrase, draft: Draft) -> None:
    if phrase.take("every", "each"):
        _read_every(phrase, draft)
    elif phrase.peek().word == "the" and phrase.peek(1).word in ("month", "year"):
        draft.recurring = True
        _set_interval(phrase, draft, 1, phrase.peek(1).word)
        phrase.skip(2)
    elif phrase.peek().word in MONTHS:
        read_months(phrase, draft)
    elif not read_year_of(phrase, draft):
        raise phrase.unplaced("here comes a month or a year, as in 'in July' or 'of every month'")


def _read_start(phrase: Phrase, draft: Draft) -> None:
    phrase.take("on")
    if draft.start or draft.start_clock:
        raise phrase.refusal("it starts twice; keep one")
    if (numbers := phrase.peek().date) is not None:
        phrase.skip()
        draft.start = numbers
        return
    said_at = bool(phrase.take("at", "from"))
    spoken = read_clock(phrase, bare=said_at)
    if spoken is None:
        # A phrase means the same whenever it is read, and 'Monday' would not.
        raise phrase.unplaced("after 'starting' comes a date, as in 'starting 2026-06-01'; or give start=")
    draft.start_clock = spoken.clock
