"""At which times of the day a schedule runs: the clock half of every calendar pattern."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from headrace.schedule.days import Turn
from headrace.schedule.errors import ScheduleError

ALL_HOURS = tuple(range(24))
ALL_MINUTES = tuple(range(60))

Clock = tuple[int, int, int]
"""Hour, minute, second."""


@dataclass(frozen=True, slots=True)
class Times:
    """A set of times of the day: hours x minutes x seconds, cut by a window, or a list of clocks."""

    hours: tuple[int, ...] = (0,)
    minutes: tuple[int, ...] = (0,)
    seconds: tuple[int, ...] = (0,)
    hour_turns: tuple[Turn, ...] = ()
    minute_turns: tuple[Turn, ...] = ()
    second_turns: tuple[Turn, ...] = ()
    clocks: tuple[int, ...] = ()
    """Minutes of the day, where no grid of hours and minutes says it (9:00 and 17:30)."""
    window: tuple[int, int] | None = None
    """First and last minute of the day, both included; the first is the later one over midnight."""
    running: bool = False
    """How it behaves when the wall clock jumps: see ``zone.py``."""

    # Worked out once, so that finding the next time is three look-ups and can't come up empty half-way:
    # hours without minutes and minutes without seconds are left out.
    _hours: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _minutes: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _seconds: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    usable_days: frozenset[int] = field(init=False, repr=False, compare=False)
    """Days of the month that have any time at all; less than all only with ``v/n`` hours."""

    def __post_init__(self) -> None:
        seconds = tuple(_merge(self.seconds, self.second_turns, minute + 1) for minute in ALL_MINUTES)
        minutes = tuple(self._minutes_of(hour, seconds) for hour in ALL_HOURS)
        wanted = tuple(sorted({minute // 60 for minute in self.clocks})) or self.hours
        hours = tuple(
            tuple(hour for hour in _merge(wanted, self.hour_turns, day) if minutes[hour]) for day in range(1, 32)
        )
        object.__setattr__(self, "_seconds", seconds)
        object.__setattr__(self, "_minutes", minutes)
        object.__setattr__(self, "_hours", hours)
        object.__setattr__(self, "usable_days", frozenset(day for day in range(1, 32) if hours[day - 1]))

    def at_or_after(self, clock: Clock, day: int) -> Clock | None:
        """The first time from ``clock`` on, on that day of the month."""
        hour, minute, second = clock
        hours = self._hours[day - 1]
        if hour in hours:
            minutes = self._minutes[hour]
            if minute in minutes and (later := _from(self._seconds[minute], second)) is not None:
                return hour, minute, later
            if (later := _from(minutes, minute + 1)) is not None:
                return hour, later, self._seconds[later][0]
        if (later := _from(hours, hour + 1)) is None:
            return None
        first_minute = self._minutes[later][0]
        return later, first_minute, self._seconds[first_minute][0]

    def _minutes_of(self, hour: int, seconds: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
        if self.clocks:
            minutes = tuple(clock % 60 for clock in self.clocks if clock // 60 == hour)
        else:
            minutes = _merge(self.minutes, self.minute_turns, hour + 1)
        return tuple(minute for minute in minutes if seconds[minute] and self._in_window(hour * 60 + minute))

    def _in_window(self, minute: int) -> bool:
        if self.window is None:
            return True
        first, last = self.window
        return first <= minute <= last if first <= last else minute >= first or minute <= last


def grid(clocks: tuple[Clock, ...]) -> Times:
    """Fixed times of the day, as hours x minutes where they are that."""
    seconds = {second for _, _, second in clocks}
    if len(seconds) > 1:
        raise ScheduleError("several times of day must share their seconds; make it two schedules")
    minutes_of_day = tuple(sorted({hour * 60 + minute for hour, minute, _ in clocks}))
    hours = tuple(sorted({minute // 60 for minute in minutes_of_day}))
    minutes = tuple(sorted({minute % 60 for minute in minutes_of_day}))
    if len(hours) * len(minutes) != len(minutes_of_day):
        return Times(hours=(), minutes=(), seconds=tuple(seconds), clocks=minutes_of_day)
    full = len(hours) == 24 or len(minutes) == 60
    return Times(hours=hours, minutes=minutes, seconds=tuple(seconds), running=full)


def _merge(values: tuple[int, ...], turns: tuple[Turn, ...], occurrence: int) -> tuple[int, ...]:
    """Plain values and those ``v/n`` whose occurrence it is."""
    if not turns:
        return values
    return tuple(sorted({*values, *(value for value, n in turns if occurrence % n == 0)}))


def _from(values: tuple[int, ...], least: int) -> int | None:
    position = bisect_left(values, least)
    return values[position] if position < len(values) else None
