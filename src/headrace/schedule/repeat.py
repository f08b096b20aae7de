"""Bedrock's repeat rules: a base time and SQLite date modifiers, ``SCHEDULED, +1 DAY, START OF DAY``.

Unlike a schedule, a repeat rule depends on the run before it: it starts from when that run was due, when it
started or when it finished. All of it is UTC, in whole seconds. A SCHEDULED rule always moves one step from
the time the job was due, also into the past: a job that missed three hours catches up run by run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from headrace.schedule.errors import ScheduleError, misplaced

Base = Literal["SCHEDULED", "STARTED", "FINISHED"]
BASES: tuple[Base, ...] = ("SCHEDULED", "STARTED", "FINISHED")
CANNED = {"HOURLY": "FINISHED, +1 HOUR", "DAILY": "FINISHED, +1 DAY", "WEEKLY": "FINISHED, +7 DAYS"}

_SHIFT = re.compile(r"([+-]\d{1,8}) (SECOND)S?|([+-]\d{1,3}) (MINUTE|HOUR|DAY|MONTH|YEAR)S?", re.ASCII)
_START = re.compile(r"START OF (HOUR|DAY|MONTH|YEAR)")
_WEEKDAY = re.compile(r"WEEKDAY ([0-6])")
_EXACT = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400}
_HINT = "write '+1 HOUR', '-30 MINUTES', 'START OF DAY' or 'WEEKDAY 1', with single spaces and the sign"


@dataclass(frozen=True, slots=True)
class Modifier:
    """One SQLite date modifier, in upper case.

    >>> Modifier("+1 MONTH").apply(datetime(2024, 1, 31, tzinfo=UTC))
    datetime.datetime(2024, 3, 2, 0, 0, tzinfo=datetime.timezone.utc)
    """

    text: str

    def apply(self, moment: datetime) -> datetime:
        """The moment moved; OverflowError when that leaves the calendar."""
        if shift := _SHIFT.fullmatch(self.text):
            amount, unit = int(shift[1] or shift[3]), shift[2] or shift[4]
            if unit in _EXACT:
                return moment + timedelta(seconds=amount * _EXACT[unit])
            return _move_months(moment, amount * (12 if unit == "YEAR" else 1))
        if weekday := _WEEKDAY.fullmatch(self.text):
            return moment + timedelta(days=(int(weekday[1]) - moment.isoweekday()) % 7)
        moment = moment.replace(minute=0, second=0, microsecond=0)
        if self.text == "START OF HOUR":
            return moment
        moment = moment.replace(hour=0)
        if self.text == "START OF DAY":
            return moment
        moment = moment.replace(day=1)
        return moment if self.text == "START OF MONTH" else moment.replace(month=1)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat rule; its text is canonical, so equal rules are equal values.

    >>> parse_repeat("hourly") == parse_repeat("FINISHED, +1 HOUR")
    True
    """

    base: Base
    modifiers: tuple[Modifier, ...]

    def next(
        self,
        *,
        scheduled: datetime | None = None,
        started: datetime | None = None,
        finished: datetime | None = None,
    ) -> datetime | None:
        """When to run again, given when the last run was due, started and finished; only the base is needed.

        None when the result is not a time that can be written (beyond the years 0 to 9999).

        >>> due = datetime(2026, 3, 1, 10, tzinfo=UTC)
        >>> parse_repeat("SCHEDULED, +1 DAY, START OF DAY").next(scheduled=due)
        datetime.datetime(2026, 3, 2, 0, 0, tzinfo=datetime.timezone.utc)
        """
        moment = {"SCHEDULED": scheduled, "STARTED": started, "FINISHED": finished}[self.base]
        if moment is None or moment.tzinfo is None:
            raise ScheduleError(f"'{self}' counts from the {self.base.lower()} time, which must be given with a zone")
        try:
            moment = moment.astimezone(UTC).replace(microsecond=0)
            for modifier in self.modifiers:
                moment = modifier.apply(moment)
        except (OverflowError, ValueError):
            return None
        return moment

    def __str__(self) -> str:
        return ", ".join([self.base, *(modifier.text for modifier in self.modifiers)])


def parse_repeat(text: str) -> Repeat:
    """Read a repeat rule or one of HOURLY, DAILY, WEEKLY, in any case.

    >>> str(parse_repeat("weekly"))
    'FINISHED, +7 DAYS'
    """
    rule = text.strip(" ").upper()
    parts = [part for piece in CANNED.get(rule, rule).split(",") if (part := piece.lstrip(" "))] or [""]
    if parts[0] not in BASES:
        raise misplaced(
            parts[0],
            text,
            "a repeat rule is HOURLY, DAILY or WEEKLY, or begins with SCHEDULED, STARTED or FINISHED",
        )
    if len(parts) < 2:
        raise ScheduleError(f"'{text}' ends too early: after the base comes a modifier, as in '{parts[0]}, +1 HOUR'")
    for part in parts[1:]:
        if not _is_modifier(part):
            raise misplaced(part, text, _HINT)
    return Repeat(parts[0], tuple(Modifier(part) for part in parts[1:]))


def parse_modifier(text: str) -> Modifier:
    """Read a single modifier as Bedrock's retryAfter has it: no base, no list, no START OF HOUR.

    >>> parse_modifier("+5 minutes").apply(datetime(2026, 3, 1, 10, tzinfo=UTC))
    datetime.datetime(2026, 3, 1, 10, 5, tzinfo=datetime.timezone.utc)
    """
    upper = text.upper()
    if not _is_modifier(upper) or upper == "START OF HOUR":
        raise ScheduleError(f"'{text}' is not one date modifier; write '+5 MINUTES', 'START OF DAY' or 'WEEKDAY 1'")
    return Modifier(upper)


def _is_modifier(text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in (_SHIFT, _START, _WEEKDAY))


def _move_months(moment: datetime, months: int) -> datetime:
    """As SQLite does: a day that the month lacks runs over into the next (31 January + 1 month = 2 March)."""
    total = moment.year * 12 + moment.month - 1 + months
    first = moment.replace(year=total // 12, month=total % 12 + 1, day=1)
    return first + timedelta(days=moment.day - 1)
