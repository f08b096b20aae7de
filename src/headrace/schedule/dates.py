"""One day in words: 'tomorrow', 'next Tuesday', 'Friday 20 Nov 2026', 'the last day of this month'.

    day     := today | tomorrow | [ "the" ] "day after tomorrow" | tonight | YYYY-MM-DD | date | weekday date
             | [ this ] [ coming ] weekday | "next" weekday | weekday "week"
             | weekday [ "of" ] "next week" | "next week" [ "on" ] weekday
             | place [ "of" ( "this month" | "next month" | month [ year ] ) ]
    date    := D month [ year ] | month D [ year ]
    place   := ordinal | ( ordinal | "last" ) weekday | "last day"

A week begins on Monday. A weekday or a date without a year is the next one whose moment is still to come.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from headrace.schedule.vocabulary import DAYPARTS, MONTHS, WEEKDAY_NAMES, WEEKDAYS
from headrace.schedule.words import Phrase, read_ordinal

_YEARS_TO_A_LEAP_DAY = 9
"""29 February can be eight years away (1896 to 1904)."""
_NAMED = (
    (("today",), 0),
    (("tomorrow",), 1),
    (("day", "after", "tomorrow"), 2),
    (("the", "day", "after", "tomorrow"), 2),
)
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Day:
    """A day as said: the dates that it may be, in order. The first whose moment is still to come counts."""

    dates: tuple[date, ...]
    part: str = ""
    """The part of the day that came with it: 'tonight', 'this morning'."""

    @property
    def fixed(self) -> bool:
        return len(self.dates) == 1


def read_day(phrase: Phrase, today: date) -> Day | None:
    """The day that comes next in a phrase said on ``today``, or None.

    >>> read_day(Phrase("the first Monday of December 2026"), date(2026, 11, 18)).dates
    (datetime.date(2026, 12, 7),)
    """
    for words, ahead in _NAMED:
        if phrase.take_all(*words):
            return Day((today + timedelta(days=ahead),))
    if phrase.take("tonight"):
        return Day((today,), "night")
    if (numbers := phrase.peek().date) is not None:
        phrase.skip()
        return Day((_date(phrase, *numbers),))
    return (
        _next_week(phrase, today)
        or _this_or_next(phrase, today)
        or _weekday(phrase, today)
        or _month_and_day(phrase, today)
        or _place(phrase, today)
    )


def read_base(phrase: Phrase, today: date) -> date | None:
    """The day that an amount counts from: 'two weeks from today', 'a week on Monday'."""
    for words, ahead in _NAMED:
        if phrase.take_all(*words):
            return today + timedelta(days=ahead)
    if phrase.peek().word not in WEEKDAYS:
        return None
    return _coming(phrase, today)


def read_month_and_day(phrase: Phrase) -> tuple[int, int] | None:
    """'24 December', '24th of December', 'December 24th': month and day."""
    return phrase.attempt(_day_then_month) or phrase.attempt(_month_then_day)


def read_year(phrase: Phrase) -> int | None:
    """A year of four digits, perhaps after a comma."""
    ahead = 1 if phrase.peek().word == "and" else 0
    token = phrase.peek(ahead)
    if token.number is None or len(token.text) != 4:
        return None
    phrase.skip(ahead + 1)
    return token.number


def _coming(phrase: Phrase, today: date) -> date:
    """The coming weekday, where its distance matters: on that very weekday it would be today or in a week."""
    weekday = WEEKDAYS[phrase.peek().word]
    if weekday == today.isoweekday() % 7:
        raise phrase.unplaced(f"today is a {WEEKDAY_NAMES[weekday]}; count from today, as in 'a week today'")
    return _weekday_dates(phrase, today)[0]


def _next_week(phrase: Phrase, today: date) -> Day | None:
    """'next week on Tuesday'."""
    if not phrase.take_all("next", "week"):
        return None
    phrase.take("on")
    if phrase.peek().word not in WEEKDAYS:
        raise phrase.unplaced("say on which day, as in 'next week on Tuesday'")
    return Day((_of_next_week(WEEKDAYS[phrase.take(*WEEKDAYS)], today),))


def _of_next_week(weekday: int, today: date) -> date:
    monday = today - timedelta(days=today.weekday())
    return monday + _WEEK + timedelta(days=(weekday - 1) % 7)


def _this_or_next(phrase: Phrase, today: date) -> Day | None:
    """'this Friday', 'this coming Monday', 'next Tuesday', 'this evening'."""
    which = phrase.take("this", "next", "coming")
    if not which:
        return None
    if which == "this" and phrase.peek().word in DAYPARTS:
        return Day((today,), phrase.take(*DAYPARTS))
    if which == "this":
        phrase.take("coming")
    if phrase.peek().word not in WEEKDAYS:
        raise phrase.unplaced(f"after '{which}' comes a weekday, as in '{which} Friday'")
    dates = _weekday_dates(phrase, today)
    return Day(dates[1:] if which == "next" and dates[0] == today else dates)


def _weekday_dates(phrase: Phrase, today: date) -> tuple[date, ...]:
    weekday = WEEKDAYS[phrase.take(*WEEKDAYS)]
    first = today + timedelta(days=(weekday - today.isoweekday()) % 7)
    return first, first + _WEEK


def _weekday(phrase: Phrase, today: date) -> Day | None:
    """'Friday', 'Friday week', 'Friday of next week', 'Friday 20 Nov 2026'."""
    word = phrase.peek().word
    if word not in WEEKDAYS:
        return None
    if phrase.peek(1).word == "week":
        day = _coming(phrase, today)
        phrase.skip()
        return Day((day + _WEEK,))
    dates = _weekday_dates(phrase, today)
    if phrase.take_all("next", "week") or phrase.take_all("of", "next", "week"):
        return Day((_of_next_week(WEEKDAYS[word], today),))
    found = phrase.attempt(lambda words: _dated(words, today))
    if found is None:
        return Day(dates)
    day = next((each for each in found.dates if each >= today), found.dates[-1])
    if day.isoweekday() % 7 != WEEKDAYS[word]:
        is_a = WEEKDAY_NAMES[day.isoweekday() % 7]
        raise phrase.refusal(f"{day.isoformat()} is a {is_a}; correct the date, or leave the weekday out")
    return Day((day,)) if found.fixed else found


def _dated(phrase: Phrase, today: date) -> Day | None:
    phrase.take_comma()
    phrase.take("the")
    return _month_and_day(phrase, today)


def _month_and_day(phrase: Phrase, today: date) -> Day | None:
    found = read_month_and_day(phrase)
    if found is None:
        return None
    month, number = found
    year = read_year(phrase)
    if year is not None:
        return Day((_date(phrase, year, month, number),))
    if number > monthrange(2000, month)[1]:
        raise phrase.refusal(_NO_SUCH_DATE)
    years = range(today.year, min(today.year + _YEARS_TO_A_LEAP_DAY, 10_000))
    return Day(tuple(date(year, month, number) for year in years if number <= monthrange(year, month)[1]))


def _place(phrase: Phrase, today: date) -> Day | None:
    """'the 25th', 'the 5th of next month', 'the first Monday of December', 'the last day of this month'."""
    phrase.take("the")
    number = read_ordinal(phrase.peek())
    if number is None and phrase.peek().word != "last":
        return None
    phrase.skip()
    weekday = WEEKDAYS.get(phrase.peek().word)
    if weekday is not None or (number is None and phrase.peek().word == "day"):
        phrase.skip()
    elif number is None:
        raise phrase.unplaced("after 'last' comes 'day' or a weekday, as in 'the last day of this month'")
    if number is not None and not 1 <= number <= (31 if weekday is None else 5):
        raise phrase.refusal("there is no such day in any month; give one that there is")
    months = _months(phrase, today, needed=weekday is not None or number is None)
    dates = tuple(day for month in months if (day := _in_month(*month, number, weekday)) is not None)
    if not dates:
        raise phrase.refusal(_NO_SUCH_DATE)
    return Day(dates)


def _months(phrase: Phrase, today: date, *, needed: bool) -> Iterator[tuple[int, int]]:
    """The months, with their years, that come after 'of'."""
    ahead = int(phrase.peek().word == "of")
    which, named = phrase.peek(ahead).word, MONTHS.get(phrase.peek(ahead).word)
    index = today.year * 12 + today.month - 1
    if which in ("this", "next") and phrase.peek(ahead + 1).word == "month":
        phrase.skip(ahead + 2)
        indexes = [index + (which == "next")]
    elif named is not None:
        phrase.skip(ahead + 1)
        year = read_year(phrase)
        indexes = [each * 12 + named - 1 for each in ((today.year, today.year + 1) if year is None else (year,))]
    elif needed or ahead:
        raise phrase.unplaced("say of which month, as in 'of this month' or 'of December'")
    else:
        indexes = [index + ahead for ahead in range(12)]
    return ((index // 12, index % 12 + 1) for index in indexes)


def _in_month(year: int, month: int, number: int | None, weekday: int | None) -> date | None:
    """The n-th day or weekday of a month, or the last one; None where the month has none."""
    first, length = date(year, month, 1).isoweekday() % 7, monthrange(year, month)[1]
    days = range(1, length + 1) if weekday is None else range((weekday - first) % 7 + 1, length + 1, 7)
    if number is None:
        return date(year, month, days[-1])
    return date(year, month, days[number - 1]) if number <= len(days) else None


def _day_then_month(phrase: Phrase) -> tuple[int, int] | None:
    token = phrase.peek()
    number = token.number if token.number is not None else read_ordinal(token)
    phrase.skip()
    phrase.take("of")
    month = MONTHS.get(phrase.peek().word)
    if number is None or month is None or (token.number is not None and number > 99):
        return None
    phrase.skip()
    return month, _day_number(phrase, number)


def _month_then_day(phrase: Phrase) -> tuple[int, int] | None:
    month = MONTHS.get(phrase.peek().word)
    if month is None:
        return None
    phrase.skip()
    phrase.take("the")
    token = phrase.peek()
    number = token.number if token.number is not None else read_ordinal(token)
    if number is None or (len(token.text) == 4 and token.number is not None):
        return None
    phrase.skip()
    return month, _day_number(phrase, number)


def _day_number(phrase: Phrase, number: int) -> int:
    if not 1 <= number <= 31:
        raise phrase.refusal(f"there is no day {number}; a month has 31 at most")
    return number


_NO_SUCH_DATE = "there is no such date; give one that is in the calendar"


def _date(phrase: Phrase, year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise phrase.refusal(_NO_SUCH_DATE) from None
