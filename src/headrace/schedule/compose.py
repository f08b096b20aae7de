"""Recurring phrases: from the words that were said to a schedule, refusing what would surprise."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import cast
from zoneinfo import ZoneInfo

from headrace.schedule.clocks import clock_in
from headrace.schedule.days import ALL_MONTHS, DayOfMonth, DayOfWeek, Days, Stride, StrideUnit
from headrace.schedule.draft import Draft, fits
from headrace.schedule.errors import ScheduleError
from headrace.schedule.paces import times_of
from headrace.schedule.schedules import Calendar, Elapsed, Schedule
from headrace.schedule.words import Phrase
from headrace.schedule.zone import to_instant

_LONGEST = 3_000_000_000


def compose(draft: Draft, phrase: Phrase, tz: ZoneInfo) -> Schedule:
    """The schedule that a draft says."""
    try:
        _settle_clocks(draft)
        _settle_weekdays(draft)
        _check(draft)
        start = None if draft.start is None else date(*draft.start)
        _round_up_units(draft)
        if _is_elapsed(draft, start):
            return _elapsed(draft, start, tz)
        schedule = Calendar(_days(draft, start), times_of(draft), tz)
    except ValueError as error:
        why = str(error) if isinstance(error, ScheduleError) else "there is no such date; give one of the calendar"
        raise phrase.refusal(why) from None
    if not schedule.ever_runs:
        raise phrase.refusal("such a date never comes; give one that does")
    return schedule


def _settle_clocks(draft: Draft) -> None:
    """From times of day as they were said to those of the 24 hours."""
    if draft.part and not draft.spoken:
        raise ScheduleError(f"it does not say at what time; add one, as in 'every {draft.part} at 8:30'")
    if draft.times_a_day is not None and len(draft.spoken) != draft.times_a_day:
        raise ScheduleError("it does not say at which times; add them, as in 'twice a day at 8am and 8pm'")
    # The small hours of 'every night' are clear; those of 'Friday night' may be Friday's or Saturday's.
    clocks = {clock_in(draft.part, spoken, after_midnight=not draft.by_day) for spoken in draft.spoken}
    draft.clocks = tuple(sorted(clocks))


def _settle_weekdays(draft: Draft) -> None:
    """'every day except Sunday' is six weekdays."""
    if not draft.without:
        return
    if draft.weekday_turns or draft.by_date or draft.by_nth or draft.interval not in (None, (1, "day")):
        raise ScheduleError("'except' goes with every day or with weekdays, as in 'every day except Sunday'")
    if draft.interval is None and not draft.weekdays and draft.pace is None:
        raise ScheduleError("'except' needs the days that it takes from, as in 'every day except Sunday'")
    draft.weekdays = tuple(day for day in draft.weekdays or range(7) if day not in draft.without)
    draft.interval = None
    if not draft.weekdays:
        raise ScheduleError("no day is left; leave fewer out")


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
        if draft.start_clock:
            raise ScheduleError("it starts at a time without a date; write one, as in 'starting 2026-06-01'")
        return
    if draft.clocks and (draft.interval or not draft.start):
        raise ScheduleError("a time of day does not go with an interval shorter than a day; leave one out")
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
        if draft.start_clock:
            draft.clocks = (draft.start_clock,)
        if draft.by_day:
            draft.interval = None
    if draft.interval == (12, "month"):
        draft.interval = (1, "year")
        if not draft.months:
            draft.of_month = draft.of_month if draft.by_day else DayOfMonth(values=(1,))
            draft.months = (1,)


def _is_elapsed(draft: Draft, start: date | None) -> bool:
    if draft.pace is None:
        return False
    # 'every 5 minutes on every other Friday starting ...': it is the weeks that count from there.
    strict_days = draft.interval is not None and not fits(*draft.interval)
    return (start is not None and not strict_days) or (draft.window is None and not fits(*draft.pace))


def _elapsed(draft: Draft, start: date | None, tz: ZoneInfo) -> Elapsed:
    if draft.by_day or draft.interval or draft.months or draft.year or draft.window or draft.marks:
        raise ScheduleError(
            "an interval counted in real time runs around the clock; give it a window instead of days, "
            "as in 'every 90 minutes between 0:00 and 23:59 on weekdays'"
            if start is None
            else "with 'starting', an interval shorter than a day runs around the clock; leave out the rest"
        )
    if draft.start_clock:
        raise ScheduleError("it starts at a time without a date; write both, as in 'starting 2026-06-01 at 2:00'")
    if len(draft.clocks) > 1:
        raise ScheduleError("it can start at one time only; keep one")
    at = time(*draft.clocks[0]) if draft.clocks else time()
    anchor = None if start is None else to_instant(datetime.combine(start, at), tz).astimezone(UTC)
    if draft.pace_seconds > _LONGEST:
        raise ScheduleError("the interval is longer than anyone will wait; give a shorter one")
    return Elapsed(draft.pace_seconds, tz, anchor)


def _days(draft: Draft, start: date | None) -> Days:
    years = None if draft.year is None else (draft.year,)
    base = Days(
        years, draft.months or ALL_MONTHS, of_month=draft.of_month if draft.by_date else None, of_week=_of_week(draft)
    )
    if draft.interval is None:
        if not draft.by_day and draft.pace is None:
            raise ScheduleError("it does not say on which days; begin with 'every day' or a weekday")
        if draft.pace is None and not (draft.by_weekday or draft.months or draft.of_every_month):
            raise ScheduleError("it does not say of which month; end the days with 'of every month'")
        return base if start is None else replace(base, stride=Stride("day", 1, start))
    count, unit = draft.interval
    if count > 9999:
        raise ScheduleError("the interval is longer than anyone will wait; give a shorter one")
    base = {"day": _every_days, "week": _every_weeks, "month": _every_months, "year": _every_years}[unit](draft, base)
    if unit == "week" and count > 1 and base.of_week is None:  # no weekday was said: it comes from the anchor
        count, unit = count * 7, "day"
    if start is not None or not fits(count, unit):
        timed = start is not None or unit != "day" or bool(draft.clocks or draft.pace)
        return replace(base, stride=Stride(cast(StrideUnit, unit), count, start, timed))
    return replace(base, months=tuple(range(1, 13, count))) if unit == "month" else base


def _every_days(draft: Draft, base: Days) -> Days:
    if draft.by_day:
        raise ScheduleError("'every day' or every so many days can't be narrowed to some days; leave one out")
    return base


def _every_weeks(draft: Draft, base: Days) -> Days:
    if draft.by_date or draft.by_nth or draft.weekday_turns:
        raise ScheduleError("an interval of weeks goes with plain weekdays, as in 'every 2 weeks on Friday'")
    if not draft.weekdays and draft.pace:
        raise ScheduleError("it does not say on which weekday; add one, as in 'on Friday'")
    assert draft.interval is not None
    if draft.weekdays or draft.interval[0] > 1:
        return base if len(draft.weekdays) < 7 else replace(base, of_week=DayOfWeek(values=draft.weekdays))
    return replace(base, of_week=DayOfWeek(values=(0,)))


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
    return base if draft.by_day else replace(base, of_month=DayOfMonth(values=(1,)))


def _every_years(draft: Draft, base: Days) -> Days:
    if draft.by_weekday:
        raise ScheduleError("it does not say which such weekday of the year; say 'on the 1st Friday of June'")
    if bool(draft.months) != draft.by_day:
        raise ScheduleError("a yearly date needs a day and a month, as in 'every year on 1 June'")
    return base if draft.months else replace(base, months=(1,), of_month=DayOfMonth(values=(1,)))


def _of_week(draft: Draft) -> DayOfWeek | None:
    if not (draft.by_weekday or draft.by_nth) or len(draft.weekdays) == 7:
        return None
    return DayOfWeek(
        values=draft.weekdays,
        turns=tuple(turn for turn in draft.weekday_turns if turn[0] not in draft.weekdays),
        nth=tuple(sorted(set(draft.nth))),
        last=tuple(sorted(set(draft.last_weekdays))),
    )
