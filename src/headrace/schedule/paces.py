"""The times of day of a recurring phrase: fixed ones, intervals around the clock, and intervals within a window."""

from __future__ import annotations

from headrace.schedule.draft import Draft, fits
from headrace.schedule.errors import ScheduleError
from headrace.schedule.times import ALL_HOURS, ALL_MINUTES, Times, grid

_DAY = 1440


def times_of(draft: Draft) -> Times:
    """The times of day that a draft says."""
    if draft.pace is None:
        return grid(draft.clocks or ((0, 0, 0),))
    if draft.window is not None:
        return _in_seconds(draft) if draft.pace_seconds < 60 else _in_minutes(draft)
    count, unit = draft.pace
    if draft.start_clock:
        return _from_clock(draft)
    if unit == "hour":
        return Times(ALL_HOURS[::count], draft.marks or (0,), running=True)
    if unit == "minute":
        return Times(ALL_HOURS, ALL_MINUTES[::count], running=True)
    return Times(ALL_HOURS, ALL_MINUTES, ALL_MINUTES[::count], running=True)


def _from_clock(draft: Draft) -> Times:
    """'every 6 hours starting at 2am': the same times each day."""
    assert draft.pace is not None
    assert draft.start_clock is not None
    count, unit = draft.pace
    if unit != "hour" or count == 1 or draft.marks:
        raise ScheduleError("it starts at a time without a date; write both, as in 'starting 2026-06-01 at 2:00'")
    hour, minute, second = draft.start_clock
    return grid(tuple(((hour + ahead) % 24, minute, second) for ahead in range(0, 24, count)))


def _in_seconds(draft: Draft) -> Times:
    """An interval of seconds within a window: on the marks of the minute."""
    assert draft.window is not None
    first, last = draft.window
    if not fits(draft.pace_seconds, "second"):
        raise ScheduleError("in a window an interval of seconds must divide a minute; say for example 10 or 15 seconds")
    if last % 60 != 59:
        raise ScheduleError("an interval of seconds needs a window that ends with a full hour, as in 'from 9am to 5pm'")
    steps = ALL_MINUTES[:: draft.pace_seconds]
    if first % 60:
        return Times(ALL_HOURS, ALL_MINUTES, steps, window=draft.window, running=True)
    return Times(_hours(first, last), ALL_MINUTES, steps, running=True)


def _in_minutes(draft: Draft) -> Times:
    """An interval of minutes or hours within a window: counted from its start, each day anew."""
    assert draft.window is not None
    if draft.pace_seconds % 60:
        raise ScheduleError("in a window an interval above a minute must be of whole minutes; say 1 or 2 minutes")
    first, last = draft.window
    step, span = draft.pace_seconds // 60, (last - first) % _DAY
    if draft.marks:
        starts = range(first - first % 60, first + span + 1, step)
        ahead = [start + mark - first for start in starts for mark in draft.marks]
        minutes = [(first + each) % _DAY for each in ahead if 0 <= each <= span]
    else:
        minutes = [(first + each) % _DAY for each in range(0, span + 1, step)]
    if not minutes:
        raise ScheduleError("none of its times of day lies in the window; give a longer one")
    if step >= 60 or draft.marks:
        return grid(tuple((minute // 60, minute % 60, 0) for minute in minutes))
    if len(minutes) == 1:
        raise ScheduleError("the window is shorter than the interval; give a longer one, or a time of day")
    if first % 60 == 0 and fits(step, "minute") and minutes[-1] % 60 + step == 60:
        return Times(_hours(first, minutes[-1]), ALL_MINUTES[::step], running=True)
    clocks = tuple(sorted(minutes))
    return Times(hours=(), minutes=(), clocks=clocks, window=(first, minutes[-1]), running=True)


def _hours(first: int, last: int) -> tuple[int, ...]:
    """The hours from one minute of the day to another, which may be over midnight."""
    span = (last // 60 - first // 60) % 24 + 1
    return tuple(sorted((first // 60 + step) % 24 for step in range(span)))
