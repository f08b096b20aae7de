"""One-time phrases: '7pm tomorrow', 'in 5 minutes', 'next Monday at 9am', 'noon on 24 December'."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from headrace.schedule.duration import Amount, read_amounts
from headrace.schedule.times import Clock
from headrace.schedule.vocabulary import MONTHS, WEEKDAYS
from headrace.schedule.words import END, Phrase, read_clock
from headrace.schedule.zone import to_instant, zone

_YEARS_TO_A_LEAP_DAY = 9
"""29 February can be eight years away (1896 to 1904)."""


@dataclass(frozen=True, slots=True)
class _Day:
    """A day as said: a fixed date, a weekday or a date of any year."""

    date: date | None = None
    weekday: int | None = None
    not_today: bool = False
    month_and_day: tuple[int, int] | None = None


def parse_once(text: str, *, now: datetime, tz: ZoneInfo) -> datetime:
    """The instant that a one-time phrase means when said at ``now``, in UTC.

    Words are read on the wall clock of ``tz``; delays are exact. A moment that has passed is refused.

    >>> parse_once("half past 3 tomorrow", now=datetime(2026, 5, 14, 10, tzinfo=UTC), tz=ZoneInfo("UTC"))
    datetime.datetime(2026, 5, 15, 3, 30, tzinfo=datetime.timezone.utc)
    """
    phrase = Phrase(text)
    if phrase.zone_name:
        tz = zone(phrase.zone_name)
    now = now.astimezone(UTC)
    try:
        return _now_or_delay(phrase, now, tz) or _moment(phrase, now, tz)
    except OverflowError:
        raise phrase.refusal("it is beyond the year 9999") from None


def _now_or_delay(phrase: Phrase, now: datetime, tz: ZoneInfo) -> datetime | None:
    if phrase.peek().word == "now" and phrase.peek(1) is END:
        return now
    said_in = phrase.take("in")
    amount = phrase.attempt(read_amounts)
    if amount is None:
        if said_in:
            raise phrase.unplaced("after 'in' comes a length of time, as in 'in 5 minutes'")
        return None
    phrase.take_all("from", "now")
    if phrase.peek() is not END:
        raise phrase.unplaced("a delay stands alone")
    return _add(now, amount, tz)


def _add(now: datetime, amount: Amount, tz: ZoneInfo) -> datetime:
    """Months move the calendar and keep the clock, cut to the month's length; the rest is exact."""
    if amount.months:
        local = now.astimezone(tz)
        months = local.year * 12 + local.month - 1 + amount.months
        year, month = months // 12, months % 12 + 1
        if year > 9999:
            raise OverflowError
        day = min(local.day, monthrange(year, month)[1])
        now = to_instant(local.replace(year=year, month=month, day=day, tzinfo=None, fold=0), tz)
    return now + amount.exact


def _moment(phrase: Phrase, now: datetime, tz: ZoneInfo) -> datetime:
    day, clock = _read_moment(phrase, now.astimezone(tz).date())
    this_second = now.replace(microsecond=0)
    at = time(*(clock or (0, 0, 0)))
    for candidate in _candidates(day, now.astimezone(tz).date()):
        instant = to_instant(datetime.combine(candidate, at), tz)
        if instant > now or (day and day.date and instant >= this_second):
            return instant
    if day and day.month_and_day:
        raise phrase.refusal("there is no such date")
    raise phrase.refusal("it has passed")


def _candidates(day: _Day | None, today: date) -> Iterator[date]:
    """The days that are meant, in order; the first whose moment is still to come counts."""
    if day is None:
        yield from (today + timedelta(days=ahead) for ahead in range(3))
    elif day.date is not None:
        yield day.date
    elif day.weekday is not None:
        ahead = (day.weekday - today.isoweekday()) % 7
        if not (day.not_today and ahead == 0):
            yield today + timedelta(days=ahead)
        yield today + timedelta(days=ahead + 7)
    elif day.month_and_day is not None:
        month, number = day.month_and_day
        for year in range(today.year, today.year + _YEARS_TO_A_LEAP_DAY):
            if number <= monthrange(year, month)[1]:
                yield date(year, month, number)


def _read_moment(phrase: Phrase, today: date) -> tuple[_Day | None, Clock | None]:
    day: _Day | None = None
    clock: Clock | None = None
    while phrase.peek() is not END:
        said_at = False
        if day or clock:
            phrase.take_comma()
        while word := phrase.take("at", "on", "the", "of"):
            said_at = said_at or word == "at"
        if (found_day := phrase.attempt(lambda words: _read_day(words, today))) is not None and not said_at:
            if day is not None:
                raise _second(phrase, "a day")
            day = found_day
        elif found_day is None and (found := read_clock(phrase, bare=said_at)) is not None:
            if clock is not None:
                raise _second(phrase, "a time of day")
            clock = found
        else:
            if found_day is not None:
                phrase.skip(-1)
            hint = "write it as an hour, 'at 9' or '9:00'" if phrase.peek().number is not None else ""
            raise phrase.unplaced(hint)
    return day, clock


def _second(phrase: Phrase, what: str) -> Exception:
    phrase.skip(-1)
    return phrase.unplaced(f"{what} was given before")


def _read_day(phrase: Phrase, today: date) -> _Day | None:
    if phrase.take("today"):
        return _Day(date=today)
    if phrase.take("tomorrow"):
        return _Day(date=today + timedelta(days=1))
    if phrase.take_all("day", "after", "tomorrow"):
        return _Day(date=today + timedelta(days=2))
    if (numbers := phrase.peek().date) is not None:
        phrase.skip()
        return _Day(date=_date(phrase, *numbers))
    which = phrase.take("this", "next")
    if phrase.peek().word in WEEKDAYS:
        weekday = WEEKDAYS[phrase.peek().word]
        phrase.skip()
        return _Day(weekday=weekday, not_today=which == "next")
    if which:
        raise phrase.unplaced(f"after '{which}' comes a weekday")
    found = read_month_and_day(phrase)
    if found is None:
        return None
    month, number = found
    year = read_year(phrase)
    if year is not None:
        return _Day(date=_date(phrase, year, month, number))
    if number > monthrange(2000, month)[1]:
        raise phrase.refusal("there is no such date")
    return _Day(month_and_day=(month, number))


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


def _day_then_month(phrase: Phrase) -> tuple[int, int] | None:
    token = phrase.peek()
    number = token.number if token.number is not None else token.ordinal
    phrase.skip()
    phrase.take("of")
    month = MONTHS.get(phrase.peek().word)
    if number is None or month is None or len(token.text) > 4:
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
    number = token.number if token.number is not None else token.ordinal
    if number is None or (len(token.text) == 4 and token.ordinal is None):
        return None
    phrase.skip()
    return month, _day_number(phrase, number)


def _day_number(phrase: Phrase, number: int) -> int:
    if not 1 <= number <= 31:
        raise phrase.refusal(f"there is no day {number}")
    return number


def _date(phrase: Phrase, year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise phrase.refusal("there is no such date") from None
