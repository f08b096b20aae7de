"""Saying a schedule in canonical English, as the phrase that parses back to it."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from headrace.schedule.days import ALL_MONTHS, DayOfMonth, DayOfWeek, Days
from headrace.schedule.draft import PERIODS, fits
from headrace.schedule.errors import ScheduleError
from headrace.schedule.phrase import parse_phrase
from headrace.schedule.phrase_days import gloss
from headrace.schedule.schedules import EPOCH, Calendar, Elapsed, Schedule
from headrace.schedule.times import ALL_HOURS, ALL_MINUTES, Times
from headrace.schedule.vocabulary import MONTH_NAMES, SECONDS_IN, WEEKDAY_NAMES, listing, ordinal

_MOST_MARKS = 12
"""More minutes of the hour than this are easier to read as cron."""


def echo(schedule: Schedule) -> str:
    """English where the grammar has it (checked by reading it back), else the shortest cron; then the zone."""
    ending = zone_ending(schedule.tz)
    if isinstance(schedule, Elapsed):
        return _elapsed(schedule) + ending
    assert isinstance(schedule, Calendar)
    for pace in (_pace(schedule.times), None):
        phrase = _calendar(schedule, pace)
        if phrase is not None and _reads_back(phrase + ending, schedule):
            return phrase + ending
    cron = schedule.cron5 or schedule.cron6 or schedule.cron7
    if cron is None:
        raise ScheduleError(f"there are no words for {schedule!r}")
    return cron + ending


def zone_ending(tz: ZoneInfo) -> str:
    """How a zone ends a phrase."""
    return " UTC" if tz.key == "UTC" else f" in {tz.key}"


def _reads_back(phrase: str, schedule: Calendar) -> bool:
    try:
        return parse_phrase(phrase, schedule.tz) == schedule
    except ScheduleError:
        return False


def _elapsed(schedule: Elapsed) -> str:
    """The largest unit that says it; without a start, one that does not fit its field, or it would mean the field."""
    units = [unit for unit in ("hour", "minute", "second") if schedule.seconds % SECONDS_IN[unit] == 0]
    counts = [(schedule.seconds // SECONDS_IN[unit], unit) for unit in units]
    if schedule.start is None:
        for count, unit in counts:
            if count != PERIODS[unit] and not fits(count, unit):
                return _count(count, unit)
    local = (schedule.start or EPOCH).astimezone(schedule.tz)
    at = _clock(local.hour, local.minute, local.second)
    return f"{_count(*counts[0])} starting {local.date().isoformat()} at {at}"


def _calendar(calendar: Calendar, pace: str | None) -> str | None:
    """Its days with an interval, or with the times that it runs at."""
    days, times = calendar.days, calendar.times
    if days.both or days.month_turns or (days.years is not None and len(days.years) != 1):
        return None
    if times.hour_turns or times.minute_turns or times.second_turns:
        return None
    stride = days.stride
    on_days = _days(days, bare=pace is None)
    at = None if pace or (times.running and stride is None) else _fixed(times)
    if stride is not None and not stride.timed:
        at = ""
    if on_days is None or pace is at is None:
        return None
    text = " ".join(filter(None, [pace, on_days, at]))
    return f"{text} starting {stride.start.isoformat()}" if stride and stride.start else text


def _pace(times: Times) -> str | None:
    """'every 5 minutes between 09:00 and 17:59', or None when it is not an interval."""
    if times.clocks:
        return _stepped(times)
    hours, minutes, seconds = times.hours, times.minutes, times.seconds
    if times.running and minutes == ALL_MINUTES and (step := _step(seconds, 60)):
        return _count(step, "second") + _between(times)
    if seconds != (0,):
        return None
    if times.running and (step := _step(minutes, 60)):
        return _count(step, "minute") + _between(times)
    if times.running and (step := _step(hours, 24)) and not times.window and len(minutes) <= _MOST_MARKS:
        marks = "" if minutes == (0,) else " at " + listing(f":{minute:02}" for minute in minutes)
        return _count(step, "hour") + marks
    if not times.running and len(minutes) == 1 and len(hours) > 2:
        step = hours[1] - hours[0]
        if hours == tuple(range(hours[0], hours[-1] + 1, step)):
            first, last = _clock(hours[0], minutes[0]), _clock(hours[-1], minutes[0])
            return f"{_count(step, 'hour')} between {first} and {last}"
    return None


def _stepped(times: Times) -> str | None:
    """'every 20 minutes between 09:10 and 11:00': minutes that are counted from the start of a window."""
    if times.window is None:
        return None
    first, last = times.window
    step = (last - first) % 1440 // (len(times.clocks) - 1)
    return _count(step, "minute") + _between(times)


def _between(times: Times) -> str:
    if times.window:
        first, last = times.window
    elif times.hours == ALL_HOURS:
        return ""
    else:
        # Hours over midnight (0, 1, 23) begin after the hole in them.
        start = next((hour for hour in times.hours if (hour - 1) % 24 not in times.hours), 0)
        first, last = start * 60, (start + len(times.hours) - 1) % 24 * 60 + 59
    return f" between {_clock(*divmod(first, 60))} and {_clock(*divmod(last, 60))}"


def _fixed(times: Times) -> str | None:
    if len(times.seconds) != 1 or times.window:
        return None
    minutes = times.clocks or [hour * 60 + minute for hour in times.hours for minute in times.minutes]
    if len(minutes) > 24:
        return None
    return "at " + listing(_clock(*divmod(minute, 60), times.seconds[0]) for minute in minutes)


def _days(days: Days, *, bare: bool) -> str | None:
    """The days; ``bare`` when no interval comes before them, so that they must begin the phrase."""
    year = f" {days.years[0]}" if days.years else ""
    months = listing(MONTH_NAMES[month - 1] for month in days.months) if days.months else ""
    every_month = days.months == ALL_MONTHS
    within = f" in {months}{year}" if not every_month else f" in{year}" if year else ""
    # Every day from a date on: only the date is said, at the end.
    stride = None if days.stride and (days.stride.unit, days.stride.count) == ("day", 1) else days.stride
    if days.of_week and (days.of_week.values or days.of_week.turns):
        if days.of_month or days.of_week.nth or days.of_week.last:
            return None
        if stride:
            return _count(stride.count, stride.unit) + " on " + _weekday_list(days.of_week.values) + within
        return _weekdays(days.of_week, bare) + within
    items = _dates(days)
    if items is None:
        return None
    if not items:
        if stride:
            return _count(stride.count, stride.unit) + within
        return f"every day{within}" if bare else within.strip()
    on_dates = "on " + listing(items)
    step = _step(days.months, 12, low=1)
    if stride:
        of_months = f" of {months}{year}" if stride.unit == "year" else within
        return f"{_count(stride.count, stride.unit)} {on_dates}{of_months}"
    if every_month:
        return f"{on_dates} of every month{within}"
    if step and not year:
        return f"{_count(step, 'month')} {on_dates}"
    return f"{'every year ' if bare else ''}{on_dates} of {months}{year}"


def _dates(days: Days) -> list[str] | None:
    """Days of the month, each with its article; None where the grammar has no words for them."""
    items: list[str] = []
    if (part := days.of_month) is not None:
        others = part.nearest_workdays not in ((), (1,))
        if part.turns or part.to_last or others or days.of_week or part == DayOfMonth():
            return None
        items += ["the first weekday"] * bool(part.nearest_workdays)
        items += [f"the {ordinal(day)}" for day in part.values]
        items += ["the last day"] * part.last + ["the last weekday"] * part.last_workday
    elif (week := days.of_week) is not None:
        if week == DayOfWeek():
            return None
        items += [f"the {ordinal(k)} {WEEKDAY_NAMES[weekday]}" for weekday, k in week.nth]
        items += [f"the last {WEEKDAY_NAMES[weekday]}" for weekday in week.last]
    return items


def _weekdays(part: DayOfWeek, bare: bool) -> str:
    plain = part.values
    if not part.turns:
        if plain in ((1, 2, 3, 4, 5), (0, 6)):
            word = "weekend" if 0 in plain else "weekday"
            return f"every {word}" if bare else f"on {word}s"
        return ("every " if bare else "on ") + _weekday_list(plain)
    items = [f"every {ordinal(n)} {WEEKDAY_NAMES[weekday]} {gloss(n)}" for weekday, n in part.turns]
    if plain:
        items.append(f"every {_weekday_list(plain)}")
    return ("" if bare else "on ") + " and ".join(items)


def _weekday_list(weekdays: tuple[int, ...]) -> str:
    # The week is said from Monday on, as people do.
    ordered = sorted(weekdays, key=lambda weekday: (weekday - 1) % 7)
    names = [WEEKDAY_NAMES[weekday] for weekday in ordered]
    span = (ordered[-1] - ordered[0]) % 7 + 1
    return f"{names[0]} to {names[-1]}" if len(names) > 2 and span == len(names) else listing(names)


def _step(values: tuple[int, ...], size: int, low: int = 0) -> int | None:
    """The n for which the values are ``*/n``; 1 for all of them."""
    step = values[1] - values[0] if len(values) > 1 else size
    return step if step < size and values == tuple(range(low, low + size, step)) else None


def _count(count: int, unit: str) -> str:
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"
