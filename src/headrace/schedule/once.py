"""One-time phrases: '7pm tomorrow', 'in 5 minutes', 'next Monday at 9am', 'in 2 days at 9am'.

    once   := "now" | delay | moment
    delay  := [ "in" ] amounts [ "from now" ]
    moment := { day | clock | part }                    one of each at most, in any order
            | [ "in" ] amounts [ "from now" ] { clock | part }         whole days, weeks or months
            | amounts ( "from" | "on" | ) ( today | tomorrow | weekday ) { clock | part }

Days are in ``dates.py``, clocks and parts of the day in ``clocks.py``. A day alone begins at midnight; a clock alone
is the next time that a clock shows it; 'tonight' alone is 20:00. What has passed is refused.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from headrace.schedule.clocks import clock_in, read_clock, read_daypart
from headrace.schedule.dates import Day, read_base, read_day
from headrace.schedule.duration import Amount, read_amounts
from headrace.schedule.errors import ScheduleError
from headrace.schedule.words import END, Phrase, Spoken
from headrace.schedule.zone import to_instant, zone

_TONIGHT = (20, 0, 0)
_HINT = "a time is said as in '7pm tomorrow', 'Friday at 9:30' or 'in 5 minutes'"


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
    phrase.take("once")
    try:
        if phrase.peek().word == "now" and phrase.peek(1) is END:
            return now
        said_in = phrase.peek().word == "in" and phrase.peek(1).word != "the" and bool(phrase.take("in"))
        amount = phrase.attempt(_read_amounts)
        if amount is None and said_in:
            raise phrase.unplaced("after 'in' comes a length of time, as in 'in 5 minutes'")
        if amount is None:
            return _moment(phrase, None, now, tz)
        from_now = phrase.take_all("from", "now") or said_in
        if phrase.peek() is END:
            return _add(now, amount, tz)
        return _moment(phrase, _counted_day(phrase, amount, now.astimezone(tz).date(), from_now), now, tz)
    except OverflowError:
        raise phrase.refusal("it is beyond the year 9999") from None


def _read_amounts(phrase: Phrase) -> Amount | None:
    """Amounts, but not the minutes of '5 minutes past nine'."""
    amount = read_amounts(phrase)
    return None if phrase.peek().word in ("past", "to") else amount


def _counted_day(phrase: Phrase, amount: Amount, today: date, from_now: bool) -> Day:
    """The day that is an amount away: 'in 2 days at 9am', 'a week from tomorrow', 'a week on Monday'."""
    if amount.exact % timedelta(days=1):
        raise phrase.unplaced("a delay stands alone; with a day or a time of day, count in whole days")
    if from_now:
        return Day((_add_days(today, amount),))
    weeks = not amount.months and not amount.exact % timedelta(days=7)
    said = phrase.take("from") or (weeks and phrase.take("on"))
    base = read_base(phrase, today) if said or weeks else None
    if base is None:
        raise phrase.unplaced("say from when, as in '3 days from tomorrow', or 'in 3 days'")
    return Day((_add_days(base, amount),))


def _add_days(day: date, amount: Amount) -> date:
    months = day.year * 12 + day.month - 1 + amount.months
    year, month = months // 12, months % 12 + 1
    if year > 9999:
        raise OverflowError
    return date(year, month, min(day.day, monthrange(year, month)[1])) + amount.exact


def _add(now: datetime, amount: Amount, tz: ZoneInfo) -> datetime:
    """Months move the calendar and keep the clock, cut to the month's length; the rest is exact."""
    if amount.months:
        local = now.astimezone(tz)
        day = _add_days(local.date(), Amount(amount.months, timedelta(0)))
        now = to_instant(datetime.combine(day, local.time()), tz)
    return now + amount.exact


def _moment(phrase: Phrase, day: Day | None, now: datetime, tz: ZoneInfo) -> datetime:
    today, this_second = now.astimezone(tz).date(), now.replace(microsecond=0)
    day, spoken, part = _read_moment(phrase, day, today)
    if spoken is None and part and not (day and day.part == "night"):
        raise phrase.refusal(f"it does not say at what time; add one, as in 'tomorrow {part} at 8:30'")
    clock, later = _clock(phrase, spoken, part)
    dates = (today, today + timedelta(days=1), today + timedelta(days=2)) if day is None else day.dates
    for candidate in dates:
        instant = to_instant(datetime.combine(candidate + later, time(*clock)), tz)
        if instant > now or (day and day.fixed and instant >= this_second):
            return instant
    raise phrase.refusal("it has passed; give a time that is still to come")


def _clock(phrase: Phrase, spoken: Spoken | None, part: str) -> tuple[tuple[int, int, int], timedelta]:
    """The time of day, and how many days later it is than the day that was named: midnight ends a night."""
    if spoken is None:
        return (_TONIGHT if part else (0, 0, 0)), timedelta(0)
    if part == "night" and spoken.clock == (0, 0, 0):
        return spoken.clock, timedelta(days=1)
    try:
        return clock_in(part, spoken), timedelta(0)
    except ScheduleError as error:
        raise phrase.refusal(str(error)) from None


def _read_moment(phrase: Phrase, day: Day | None, today: date) -> tuple[Day | None, Spoken | None, str]:
    spoken: Spoken | None = None
    part = ""
    while phrase.peek() is not END:
        if day or spoken:
            phrase.take_comma()
        if found_part := read_daypart(phrase):
            if part or (day and day.part):
                raise _second(phrase, "a part of the day")
            part = found_part
            continue
        said_at = False
        while word := phrase.take("at", "on", "the", "of"):
            said_at = said_at or word == "at"
        found_day = None if said_at else phrase.attempt(lambda words: read_day(words, today))
        if found_day is not None:
            if day is not None:
                raise _second(phrase, "a day")
            day = found_day
        elif (found := read_clock(phrase, bare=said_at, numbers="all" if said_at else "words")) is not None:
            if spoken is not None:
                raise _second(phrase, "a time of day")
            spoken = found
        else:
            hint = "write it as an hour, 'at 9' or '9:00'" if phrase.peek().number is not None else _HINT
            raise phrase.unplaced(hint)
    return day, spoken, part or (day.part if day else "")


def _second(phrase: Phrase, what: str) -> ScheduleError:
    phrase.skip(-1)
    return phrase.unplaced(f"{what} was given before; keep one")
