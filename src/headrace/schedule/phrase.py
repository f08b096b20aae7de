"""Recurring phrases: reading the words. What they add up to is worked out in ``compose.py``.

    every    := { part }
    part     := "every" [ "other" | number | ordinal ] ( unit | weekdays ) | "every" amounts | "every" date
              | hourly | daily | weekly | fortnightly | monthly | yearly | annually
              | [ "on" [ "the" ] ] ( weekdays | dates | date )
              | [ "at" ] clock { "and" clock } | "at" :MM { "and" :MM }
              | "between" clock "and" clock | "from" clock ( "to" | "until" ) clock
              | ( "in" | "of" ) ( months [ year ] | year | "the month" | "every month" )
              | "starting" YYYY-MM-DD
    weekdays := weekday { "and" weekday } | weekday "to" weekday | "weekday(s)" | "weekend(s)"
    dates    := ordinal { "and" ordinal } [ weekday ] | "last" ( "day" | "weekday" | weekday )
    date     := D month [ year ] | month D [ year ]

Case does not matter, a comma counts as "and", and a zone may end the phrase. A bare hour is on the 24-hour
clock and needs a word before it ("at 9", "between 9 and 17"). Every phrase must say that it recurs.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo

from headrace.schedule.compose import SUB_DAY, Draft, compose
from headrace.schedule.once import read_month_and_day, read_year
from headrace.schedule.schedules import Schedule
from headrace.schedule.vocabulary import MONTHS, ORDINALS, SECONDS_IN, UNITS, WEEKDAYS
from headrace.schedule.words import END, Phrase, Token, read_clock, read_clocks, read_number
from headrace.schedule.zone import zone

_ADVERBS = {
    "hourly": (1, "hour"),
    "daily": (1, "day"),
    "weekly": (1, "week"),
    "fortnightly": (2, "week"),
    "monthly": (1, "month"),
    "yearly": (1, "year"),
    "annually": (1, "year"),
}
_DOUBLE_MEANING = {
    "biweekly": "'every 2 weeks' or two weekdays",
    "bimonthly": "'every 2 months' or two days of every month",
    "biannually": "'every 2 years' or two dates",
}
_WEEKDAY_SETS: dict[str, tuple[int, ...]] = dict.fromkeys(("weekday", "weekdays"), tuple(range(1, 6)))
_WEEKDAY_SETS |= dict.fromkeys(("weekend", "weekends"), (0, 6))
_WEEKDAY_SETS |= {word: (number,) for word, number in WEEKDAYS.items()}
_WEEKDAY_SETS |= {word + "s": (number,) for word, number in WEEKDAYS.items()}
_PLURALS = {word for word in _WEEKDAY_SETS if word.endswith("s")}
_RECURRING = {"every", "each", *_ADVERBS, *_DOUBLE_MEANING, *_PLURALS}


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
    """Whether a phrase speaks of many times rather than one."""
    phrase = Phrase(text)
    while (token := phrase.peek()) is not END:
        if token.word in _RECURRING or phrase.take_all("of", "the", "month") or phrase.take_all("of", "the", "year"):
            return True
        phrase.skip()
    return False


def _read_part(phrase: Phrase, draft: Draft) -> None:
    if phrase.take("every", "each"):
        _read_every(phrase, draft)
    elif phrase.peek().word in _DOUBLE_MEANING:
        raise phrase.unplaced(f"it has two meanings; say {_DOUBLE_MEANING[phrase.peek().word]}")
    elif adverb := phrase.take(*_ADVERBS):
        draft.recurring = True
        _set_interval(phrase, draft, *_ADVERBS[adverb])
    elif phrase.take("at"):
        _read_times(phrase, draft)
    elif phrase.take("between", "from"):
        _read_window(phrase, draft)
    elif phrase.take("in", "of", "during"):
        _read_period(phrase, draft)
    elif phrase.take("starting"):
        _read_start(phrase, draft)
    elif phrase.take_comma():
        pass
    elif phrase.peek().word == "and" and phrase.peek(1).word in ("every", "each", "on"):
        phrase.skip()
    elif phrase.take("on"):
        _read_days(phrase, draft)
    elif clocks := read_clocks(phrase, bare=False):
        _set_clocks(phrase, draft, clocks)
    else:
        _read_days(phrase, draft)


def _read_every(phrase: Phrase, draft: Draft) -> None:
    draft.recurring = True
    if phrase.take_all("half", "an", "hour") or phrase.take_all("half", "hour"):
        return _set_interval(phrase, draft, 30, "minute")
    if phrase.take("fortnight"):
        return _set_interval(phrase, draft, 2, "week")
    count, after = 1, 0
    token, following = phrase.peek(), phrase.peek(1)
    ordinal = _ordinal(token)
    if token.word == "other":
        count, after = 2, 1
    elif ordinal is not None and (following.word in UNITS or following.word in WEEKDAYS):
        count, after = ordinal, 1
    elif (number := read_number(token)) is not None and following.word in UNITS:
        count, after = number, 1
    word = phrase.peek(after).word
    if ordinal == 1 and word in WEEKDAYS:
        raise phrase.unplaced(f"say 'every {word}' or 'on the 1st {word} of every month'")
    if word in UNITS:
        phrase.skip(after + 1)
        if not count:
            phrase.skip(-2)
            raise phrase.unplaced("an interval is at least 1")
        return _read_compound(phrase, draft, count, UNITS[word])
    if word in _WEEKDAY_SETS:
        phrase.skip(after)
        return _read_weekdays(phrase, draft, count)
    if word == "last" or ordinal is not None or _date_comes(phrase):
        return _read_days(phrase, draft)
    phrase.skip(after)
    if phrase.peek().word in MONTHS:
        raise phrase.unplaced("say which day, as in 'every 1 June' or 'every day in June'")
    raise phrase.unplaced(
        "after 'every' comes a unit, a weekday or a date, as in 'every 5 minutes' or 'every Monday at 9am'"
    )


def _date_comes(phrase: Phrase) -> bool:
    """Whether a date such as '24 December' comes next; takes nothing."""
    found: list[tuple[int, int]] = []

    def look(words: Phrase) -> None:
        if (date := read_month_and_day(words)) is not None:
            found.append(date)

    phrase.attempt(look)
    return bool(found)


def _read_compound(phrase: Phrase, draft: Draft, count: int, unit: str) -> None:
    """Further amounts after the first: 'every 1 hour and 30 minutes', 'every 1h30m'."""
    seconds, smallest = count * SECONDS_IN.get(unit, 0), unit
    compound = False
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
    if compound:
        _set_interval(phrase, draft, seconds, "elapsed")
    else:
        _set_interval(phrase, draft, count, unit)


def _set_interval(phrase: Phrase, draft: Draft, count: int, unit: str) -> None:
    if unit in SUB_DAY:
        if draft.pace:
            raise phrase.refusal("it has two intervals; keep one")
        draft.pace = (count, unit)
    else:
        if draft.interval:
            raise phrase.refusal("it has two intervals; keep one")
        draft.interval = (count, unit)


def _read_times(phrase: Phrase, draft: Draft) -> None:
    marks: list[int] = []
    while (mark := phrase.peek(1 if marks and phrase.peek().word == "and" else 0).mark) is not None:
        phrase.skip(2 if phrase.peek().word == "and" else 1)
        marks.append(mark)
    if marks:
        if draft.marks:
            raise phrase.refusal("it gives the minutes twice")
        draft.marks = tuple(sorted(set(marks)))
        return
    clocks = read_clocks(phrase, bare=True)
    if not clocks:
        raise phrase.unplaced("after 'at' comes a time of day, as in 'at 9am' or 'at 17:30'")
    _set_clocks(phrase, draft, clocks)


def _set_clocks(phrase: Phrase, draft: Draft, clocks: list[tuple[int, int, int]]) -> None:
    if draft.clocks:
        raise phrase.refusal("it gives the time of day twice; join several times with 'and'")
    if len(clocks) > 24:
        raise phrase.refusal("more than 24 times of day are better said as an interval")
    draft.clocks = tuple(sorted(set(clocks)))


def _read_window(phrase: Phrase, draft: Draft) -> None:
    if draft.window:
        raise phrase.refusal("it has two windows; keep one")
    ends: list[int] = []
    for joint in (("and", "to", "until", "till", "-"), ()):
        clock = read_clock(phrase, bare=True)
        if clock is None:
            raise phrase.unplaced("a window goes from one time of day to another, as in 'between 9am and 5pm'")
        if clock[2]:
            phrase.skip(-1)
            raise phrase.unplaced("a window is exact to the minute")
        ends.append(clock[0] * 60 + clock[1])
        if joint and not phrase.take(*joint):
            raise phrase.unplaced("a window goes from one time of day to another, as in 'between 9am and 5pm'")
    draft.window = (ends[0], ends[1])


def _read_period(phrase: Phrase, draft: Draft) -> None:
    if phrase.take("every", "each"):
        _read_every(phrase, draft)
    elif phrase.peek().word == "the" and phrase.peek(1).word in ("month", "year"):
        draft.recurring = True
        _set_interval(phrase, draft, 1, phrase.peek(1).word)
        phrase.skip(2)
    elif phrase.peek().word in MONTHS:
        _read_months(phrase, draft)
    elif not _read_year(phrase, draft):
        raise phrase.unplaced("here comes a month or a year, as in 'in July' or 'of every month'")


def _read_months(phrase: Phrase, draft: Draft) -> None:
    if draft.months:
        raise phrase.unplaced("months were given before")
    months: set[int] = set()
    while (
        month := MONTHS.get(phrase.peek(ahead := int(bool(months) and phrase.peek().word == "and")).word)
    ) is not None:
        phrase.skip(ahead + 1)
        months.add(month)
        if phrase.peek().word in ("to", "through", "-") and phrase.peek(1).word in MONTHS:
            last = MONTHS[phrase.peek(1).word]
            phrase.skip(2)
            months.update((month + step - 1) % 12 + 1 for step in range((last - month) % 12 + 1))
    draft.months = tuple(sorted(months))
    _read_year(phrase, draft)


def _read_year(phrase: Phrase, draft: Draft) -> bool:
    year = read_year(phrase)
    if year is None:
        return False
    if draft.year is not None or year < 1970:
        phrase.skip(-1)
        raise phrase.unplaced("one year is enough" if draft.year else "years begin with 1970")
    draft.year = year
    return True


def _read_start(phrase: Phrase, draft: Draft) -> None:
    phrase.take("on")
    date = phrase.peek().date
    if date is None or draft.start:
        raise phrase.unplaced("after 'starting' comes one date, as in 'starting 2026-06-01'")
    phrase.skip()
    draft.start = date


def _read_days(phrase: Phrase, draft: Draft) -> None:
    """Weekdays, days of the month or a date."""
    phrase.take("the")
    token = phrase.peek()
    if phrase.take("every", "each"):
        _read_every(phrase, draft)
    elif token.word in _WEEKDAY_SETS:
        _read_weekdays(phrase, draft, 1)
    elif (date := read_month_and_day(phrase)) is not None:
        if draft.months or draft.dates:
            phrase.skip(-1)
            raise phrase.unplaced("a date was given before")
        draft.months, draft.dates = (date[0],), (date[1],)
        _read_year(phrase, draft)
    elif token.word == "last" or _ordinal(token) is not None:
        _read_dates(phrase, draft)
        if phrase.peek().word in MONTHS:
            _read_months(phrase, draft)
    else:
        raise phrase.unplaced("" if draft.recurring else "a schedule begins with 'every'")


def _read_weekdays(phrase: Phrase, draft: Draft, count: int) -> None:
    found: list[int] = []
    while (word := phrase.peek(ahead := int(bool(found) and phrase.peek().word == "and")).word) in _WEEKDAY_SETS:
        weekdays = _WEEKDAY_SETS[word]
        if count > 1 and (found or len(weekdays) > 1):
            phrase.skip(ahead)
            raise phrase.unplaced("say 'every 2nd' or 'every' again for each weekday")
        phrase.skip(ahead + 1)
        draft.recurring = draft.recurring or word in _PLURALS
        last = _WEEKDAY_SETS.get(phrase.peek(1).word, ())
        if phrase.peek().word in ("to", "through", "-") and len(weekdays) == len(last) == 1:
            phrase.skip(2)
            weekdays = tuple((weekdays[0] + step) % 7 for step in range((last[0] - weekdays[0]) % 7 + 1))
        found.extend(weekdays)
    if count == 1:
        draft.weekdays = tuple(sorted({*draft.weekdays, *found}))
    elif count > 5:
        phrase.skip(-2)
        raise phrase.unplaced("a month has at most five of a weekday")
    else:
        draft.weekday_turns = tuple(sorted({*draft.weekday_turns, (found[0], count)}))


def _read_dates(phrase: Phrase, draft: Draft) -> None:
    """'1st and 15th', '1st and 3rd Monday', 'last day', 'last Friday', joined by 'and'."""
    if draft.dates or draft.nth or draft.last_day:
        raise phrase.unplaced("days of the month were given before")
    pending: list[int] = []
    dates: list[int] = []
    while True:
        token = phrase.peek()
        if (number := _ordinal(token)) is not None:
            if not 1 <= number <= 31:
                raise phrase.unplaced("a month has at most 31 days")
            phrase.skip()
            pending.append(number)
        elif phrase.take("last"):
            _read_last(phrase, draft)
        else:
            raise phrase.unplaced("here comes a day of the month, as in '15th'")
        weekday = WEEKDAYS.get(phrase.peek().word)
        if weekday is not None and pending:
            if max(pending) > 5:
                raise phrase.unplaced("a month has at most five of a weekday")
            phrase.skip()
            draft.nth += tuple((weekday, number) for number in pending)
            pending.clear()
        ahead = 2 if phrase.peek().word == "and" and phrase.peek(1).word == "the" else 1
        following = phrase.peek(ahead)
        if phrase.peek().word != "and" or (_ordinal(following) is None and following.word != "last"):
            break
        phrase.skip(ahead)
    dates.extend(pending)
    phrase.take("day", "days")
    draft.dates = tuple(sorted(set(dates)))


def _read_last(phrase: Phrase, draft: Draft) -> None:
    if phrase.take("day"):
        draft.last_day = True
    elif phrase.take("weekday"):
        draft.last_workday = True
    elif phrase.peek().word in WEEKDAYS:
        draft.last_weekdays += (WEEKDAYS[phrase.peek().word],)
        phrase.skip()
    else:
        raise phrase.unplaced("after 'last' comes 'day', 'weekday' or the name of a weekday")


def _ordinal(token: Token) -> int | None:
    return token.ordinal if token.ordinal is not None else ORDINALS.get(token.word)
