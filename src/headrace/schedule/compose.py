"""Recurring phrases: from the words that were said to a schedule, refusing what would surprise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Literal, cast
from zoneinfo import ZoneInfo

from headrace.schedule.days import ALL_MONTHS, DayOfMonth, DayOfWeek, Days, Stride
from headrace.schedule.days import EPOCH as EPOCH_DAY
from headrace.schedule.errors import ScheduleError
from headrace.schedule.schedules import EPOCH, Calendar, Elapsed, Schedule
from headrace.schedule.times import ALL_HOURS, ALL_MINUTES, Clock, Times
from headrace.schedule.vocabulary import SECONDS_IN
from headrace.schedule.words import Phrase
from headrace.schedule.zone import to_instant

SUB_DAY = ("second", "minute", "hour", "elapsed")
LIMITS = {"second": 60, "minute": 60, "hour": 24, "day": 31, "week": 2, "month": 12, "year": 2}
"""From here on an interval does not fit its field, and is counted from a fixed start instead."""

StrideUnit = Literal["day", "week", "month", "year"]


@dataclass(slots=True)
class Draft:
    """What a phrase said, part by part."""

    recurring: bool = False
    pace: tuple[int, str] | None = None
    """An interval shorter than a day; with the unit "elapsed" the count is in seconds."""
    interval: tuple[int, str] | None = None
    """An interval of days or longer."""
    weekdays: tuple[int, ...] = ()
    weekday_turns: tuple[tuple[int, int], ...] = ()
    dates: tuple[int, ...] = ()
    last_day: bool = False
    last_workday: bool = False
    nth: tuple[tuple[int, int], ...] = ()
    last_weekdays: tuple[int, ...] = ()
    months: tuple[int, ...] = ()
    year: int | None = None
    clocks: tuple[Clock, ...] = ()
    marks: tuple[int, ...] = ()
    window: tuple[int, int] | None = None
    start: tuple[int, int, int] | None = None

    @property
    def by_date(self) -> bool:
        return bool(self.dates or self.last_day or self.last_workday)

    @property
    def by_weekday(self) -> bool:
        return bool(self.weekdays or self.weekday_turns)

    @property
    def by_nth(self) -> bool:
        return bool(self.nth or self.last_weekdays)


def compose(draft: Draft, phrase: Phrase, tz: ZoneInfo) -> Schedule:
    """The schedule that a draft says."""
    try:
        _check(draft)
        start = None if draft.start is None else date(*draft.start)
        _round_up_units(draft)
        if _is_elapsed(draft, start):
            return _elapsed(draft, start, tz)
        schedule = Calendar(_days(draft, start), _times(draft), tz)
    except ValueError as error:
        why = str(error) if isinstance(error, ScheduleError) else "there is no such date"
        raise phrase.refusal(why) from None
    if not schedule.times.usable_days:
        raise phrase.refusal("none of its times of day lies in the window")
    if not schedule.ever_runs:
        raise phrase.refusal("such a date never comes")
    return schedule


def grid(clocks: tuple[Clock, ...]) -> Times:
    """Fixed times of the day, as hours x minutes where they are that."""
    seconds = {second for _, _, second in clocks}
    if len(seconds) > 1:
        raise ScheduleError("several times of day must share their seconds")
    minutes_of_day = tuple(sorted({hour * 60 + minute for hour, minute, _ in clocks}))
    hours = tuple(sorted({minute // 60 for minute in minutes_of_day}))
    minutes = tuple(sorted({minute % 60 for minute in minutes_of_day}))
    if len(hours) * len(minutes) != len(minutes_of_day):
        return Times(hours=(), minutes=(), seconds=tuple(seconds), clocks=minutes_of_day)
    full = len(hours) == 24 or len(minutes) == 60
    return Times(hours=hours, minutes=minutes, seconds=tuple(seconds), running=full)


def _check(draft: Draft) -> None:
    if draft.by_date and (draft.by_weekday or draft.by_nth):
        raise ScheduleError("a day of the month and a weekday together could mean both or either; keep one")
    if draft.by_weekday and draft.by_nth:
        raise ScheduleError("it mixes every such weekday with one of the month; make it two schedules")
    if draft.pace is None:
        if draft.window:
            raise ScheduleError("a window needs an interval shorter than a day, as in 'every 5 minutes between ...'")
        if draft.marks:
            raise ScheduleError("':MM' is the minute of an hourly job, as in 'every hour at :40'")
        return
    if draft.clocks and not draft.start:
        raise ScheduleError("a time of day does not go with an interval shorter than a day")
    if draft.marks and draft.pace[1] != "hour":
        raise ScheduleError("':MM' is the minute of an hourly job, as in 'every hour at :40'")


def _round_up_units(draft: Draft) -> None:
    """60 seconds are a minute, 60 minutes an hour, 24 hours a day, 12 months a year."""
    if draft.start is not None:
        return
    if draft.pace == (60, "second"):
        draft.pace = (1, "minute")
    elif draft.pace == (60, "minute"):
        draft.pace = (1, "hour")
    elif draft.pace == (24, "hour") and not draft.window and draft.interval in (None, (1, "day")):
        draft.pace = None
        draft.interval = draft.interval or (1, "day")
        draft.clocks = tuple((0, mark, 0) for mark in draft.marks)
        if draft.by_date or draft.by_weekday or draft.by_nth:
            draft.interval = None
    if draft.interval == (12, "month"):
        draft.interval = (1, "year")
        if not draft.months:
            draft.months, draft.dates = (1,), draft.dates or (() if _by_day(draft) else (1,))


def _by_day(draft: Draft) -> bool:
    return draft.by_date or draft.by_nth or draft.by_weekday


def _pace_seconds(draft: Draft) -> int:
    assert draft.pace is not None
    count, unit = draft.pace
    return count if unit == "elapsed" else count * SECONDS_IN[unit]


def _is_elapsed(draft: Draft, start: date | None) -> bool:
    if draft.pace is None:
        return False
    count, unit = draft.pace
    return start is not None or (draft.window is None and (unit == "elapsed" or count >= LIMITS[unit]))


def _elapsed(draft: Draft, start: date | None, tz: ZoneInfo) -> Elapsed:
    if _by_day(draft) or draft.interval or draft.months or draft.year or draft.window or draft.marks:
        raise ScheduleError(
            "an interval counted in real time runs around the clock; give it a window instead of days, "
            "as in 'every 90 minutes between 0:00 and 23:59 on weekdays'"
            if start is None
            else "with 'starting', an interval shorter than a day runs around the clock; leave out the rest"
        )
    if len(draft.clocks) > 1:
        raise ScheduleError("it can start at one time only")
    at = time(*draft.clocks[0]) if draft.clocks else time()
    anchor = EPOCH if start is None else to_instant(datetime.combine(start, at), tz).astimezone(UTC)
    if _pace_seconds(draft) > 3_000_000_000:
        raise ScheduleError("the interval is longer than anyone will wait")
    return Elapsed(_pace_seconds(draft), tz, anchor)


def _days(draft: Draft, start: date | None) -> Days:
    years = None if draft.year is None else (draft.year,)
    base = Days(years, draft.months or ALL_MONTHS, of_month=_of_month(draft), of_week=_of_week(draft))
    if draft.interval is None:
        if start is not None:
            raise ScheduleError("'starting' goes with an interval, as in 'every 2 weeks starting 2026-06-01'")
        if not _by_day(draft) and draft.pace is None:
            raise ScheduleError("it does not say on which days; begin with 'every day' or a weekday")
        if draft.pace is None and not draft.by_weekday and not draft.months:
            raise ScheduleError("it does not say of which month; end the days with 'of every month'")
        return base
    count, unit = draft.interval
    if count > 9999:
        raise ScheduleError("the interval is longer than anyone will wait")
    base = {"day": _every_days, "week": _every_weeks, "month": _every_months, "year": _every_years}[unit](draft, base)
    if start is not None or count >= LIMITS[unit]:
        return replace(base, stride=Stride(cast(StrideUnit, unit), count, start or EPOCH_DAY))
    if unit == "day" and count > 1:
        return replace(base, of_month=DayOfMonth(values=tuple(range(1, 32, count))))
    if unit == "month":
        return replace(base, months=tuple(range(1, 13, count)))
    return base


def _every_days(draft: Draft, base: Days) -> Days:
    if _by_day(draft):
        raise ScheduleError("'every day' or every so many days can't be narrowed to some days; leave one out")
    return base


def _every_weeks(draft: Draft, base: Days) -> Days:
    if draft.by_date or draft.by_nth or draft.weekday_turns:
        raise ScheduleError("an interval of weeks goes with plain weekdays, as in 'every 2 weeks on Friday'")
    if not draft.weekdays and draft.pace:
        raise ScheduleError("it does not say on which weekday")
    return replace(base, of_week=DayOfWeek(values=draft.weekdays or (0,)))


def _every_months(draft: Draft, base: Days) -> Days:
    if draft.weekday_turns:
        raise ScheduleError(
            "'every 2nd Sunday' and 'month' could mean one or two a month; "
            "say 'on the 2nd Sunday of every month' for one, 'every 2nd Sunday' for the 2nd and 4th"
        )
    if draft.weekdays:
        raise ScheduleError("it does not say which such weekday of the month; say 'on the 1st Friday of every month'")
    if draft.months:
        raise ScheduleError("it names months and an interval of months; keep one")
    return base if _by_day(draft) else replace(base, of_month=DayOfMonth(values=(1,)))


def _every_years(draft: Draft, base: Days) -> Days:
    if draft.by_weekday:
        raise ScheduleError("it does not say which such weekday of the year; say 'on the 1st Friday of June'")
    if bool(draft.months) != _by_day(draft):
        raise ScheduleError("a yearly date needs a day and a month, as in 'every year on 1 June'")
    return base if draft.months else replace(base, months=(1,), of_month=DayOfMonth(values=(1,)))


def _of_month(draft: Draft) -> DayOfMonth | None:
    if not draft.by_date:
        return None
    return DayOfMonth(values=draft.dates, last=draft.last_day, last_workday=draft.last_workday)


def _of_week(draft: Draft) -> DayOfWeek | None:
    if not (draft.by_weekday or draft.by_nth) or len(draft.weekdays) == 7:
        return None
    return DayOfWeek(
        values=draft.weekdays,
        turns=tuple(turn for turn in draft.weekday_turns if turn[0] not in draft.weekdays),
        nth=tuple(sorted(set(draft.nth))),
        last=tuple(sorted(set(draft.last_weekdays))),
    )


def _times(draft: Draft) -> Times:
    if draft.pace is None:
        return grid(draft.clocks or ((0, 0, 0),))
    count, unit = draft.pace
    if unit == "elapsed" or count >= LIMITS[unit] or (unit == "hour" and draft.window and not draft.marks):
        if _pace_seconds(draft) % 60:
            raise ScheduleError("in a window an interval above a minute must be of whole minutes")
        count, unit = _pace_seconds(draft) // 60, "minute"
        if count >= LIMITS[unit]:
            return _counted_from_window(draft)
    hours, window = _window_hours(draft.window)
    if unit == "hour":
        if window:
            raise ScheduleError("with ':MM' a window must be on whole hours")
        hours = tuple(sorted(hours[::count]))
        full = len(hours) == 24 or len(draft.marks) == 60
        return Times(hours, draft.marks or (0,), running=full or draft.window is None)
    steps = tuple(range(0, 60, count))
    if unit == "minute":
        return Times(tuple(sorted(hours)), steps, window=window, running=True)
    return Times(tuple(sorted(hours)), ALL_MINUTES, steps, window=window, running=True)


def _window_hours(window: tuple[int, int] | None) -> tuple[tuple[int, ...], tuple[int, int] | None]:
    """The hours of a window in its own order, and the window itself where hours alone don't say it.

    Between whole hours the last one counts in full, as WorkKit has it: "between 9 and 17" is 9:00 to 17:59.
    """
    if window is None:
        return ALL_HOURS, None
    first, last = window
    if first % 60 or last % 60 not in (0, 59):
        return ALL_HOURS, window
    span = (last // 60 - first // 60) % 24 + 1
    return tuple((first // 60 + step) % 24 for step in range(span)), None


def _counted_from_window(draft: Draft) -> Times:
    """An hour or longer, within a window: fixed times, counted from its start, each day anew."""
    assert draft.window is not None
    first, last = draft.window
    if first % 60 == 0 and last % 60 == 0:
        last += 59
    minutes = range(first, first + (last - first) % 1440 + 1, _pace_seconds(draft) // 60)
    return grid(tuple((minute // 60 % 24, minute % 60, 0) for minute in minutes))
