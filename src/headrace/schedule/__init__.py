"""When things run: instants, durations, recurring schedules and repeat rules.

>>> from datetime import UTC, datetime
>>> parse("every weekday at 9:30", tz="Europe/Zurich").next(datetime(2026, 5, 16, tzinfo=UTC))
datetime.datetime(2026, 5, 18, 7, 30, tzinfo=datetime.timezone.utc)

Everything here is pure: the time is always an argument. Naive times and words are read on the wall clock of
a zone, and what happens when that clock jumps is decided in one place, ``zone.py``.
"""

from headrace.schedule.anchors import anchored
from headrace.schedule.cron7 import parse_cron7
from headrace.schedule.duration import parse_duration
from headrace.schedule.errors import ScheduleError
from headrace.schedule.explain import Explanation, Run, explain
from headrace.schedule.instant import parse_instant
from headrace.schedule.parsing import parse, restore
from headrace.schedule.phrase import says_recurring
from headrace.schedule.repeat import Modifier, Repeat, parse_modifier, parse_repeat
from headrace.schedule.schedules import Calendar, Elapsed, Schedule
from headrace.schedule.workkit import cron7_of_phrase

__all__ = [
    "Calendar",
    "Elapsed",
    "Explanation",
    "Modifier",
    "Repeat",
    "Run",
    "Schedule",
    "ScheduleError",
    "anchored",
    "cron7_of_phrase",
    "explain",
    "parse",
    "parse_cron7",
    "parse_duration",
    "parse_instant",
    "parse_modifier",
    "parse_repeat",
    "restore",
    "says_recurring",
]
