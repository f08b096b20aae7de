"""One field of a cron text: what all three forms of cron have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.schedule.days import FIRST_YEAR, LAST_YEAR, Turn
from headrace.schedule.errors import ScheduleError
from headrace.schedule.vocabulary import MONTHS, WEEKDAYS

LONGEST_CRON = 500
_STAR = re.compile(r"\*(?:/(\d{1,9}))?", re.ASCII)
_RANGE = re.compile(r"(\w+)(?:-(\w+))?(?:/(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may hold."""

    name: str
    low: int
    high: int
    star_high: int
    names: Mapping[str, int] = field(default_factory=dict)


YEAR = Kind("year", FIRST_YEAR, 9999, LAST_YEAR)
MONTH = Kind("month", 1, 12, 12, MONTHS)
DAY_OF_MONTH = Kind("day of month", 1, 31, 31)
DAY_OF_WEEK = Kind("day of week", 0, 6, 6, WEEKDAYS)
HOUR = Kind("hour", 0, 23, 23)
MINUTE = Kind("minute", 0, 59, 59)
SECOND = Kind("second", 0, 59, 59)


@dataclass(slots=True)
class Field:
    """A field as read: plain values, ``v/n`` turns, and how it was written where that matters."""

    values: tuple[int, ...]
    turns: tuple[Turn, ...]
    free: bool
    """Written as exactly ``*`` or ``?``."""
    starred: bool
    """Begins with ``*``."""
    full: bool
    """Names every value."""


Special = Callable[[str], bool]
"""Takes an item such as ``L`` or ``5#2`` if it knows it; raises when it is nearly right."""


def read_field(text: str, kind: Kind, *, special: Special | None = None, turns: bool = False) -> Field:
    """Read one field. With ``turns``, ``v/n`` means every n-th occurrence of v, else it is refused."""
    if "?" in text:
        if text != "?" or not kind.name.startswith("day"):
            raise complain(text, kind, "'?' stands alone, and only for a day")
        text = "*"
    values: set[int] = set()
    found_turns: set[Turn] = set()
    for item in text.split(","):
        if not item:
            raise complain(text, kind, "there is nothing before or after a comma")
        if special and special(item):
            continue
        if star := _STAR.fullmatch(item):
            values.update(range(kind.low, kind.star_high + 1, read_step(star[1], item, kind)))
            continue
        match = _RANGE.fullmatch(item)
        if match is None:
            raise complain(item, kind)
        first, last, step = match.groups()
        low = read_value(first, item, kind)
        if last is not None:
            high = read_value(last, item, kind)
            if high < low:
                raise complain(item, kind, "the range runs backward; write it as two ranges, joined by a comma")
            values.update(range(low, high + 1, read_step(step, item, kind)))
        elif step is None:
            values.add(low)
        elif turns:
            found_turns.add((low, read_step(step, item, kind)))
        else:
            raise complain(item, kind, f"a step needs a range: write {low}-{kind.high}/{step}")
    values |= {value for value, n in found_turns if n == 1}
    return Field(
        values=tuple(sorted(values)),
        turns=tuple(sorted(turn for turn in found_turns if turn[0] not in values)),
        free=text == "*",
        starred=text.startswith("*"),
        full=len(values) == kind.high - kind.low + 1,
    )


def read_value(text: str, item: str, kind: Kind) -> int:
    """A number or a name within the field's limits."""
    if text.isascii() and text.isdigit() and len(text) <= 9:
        value = int(text)
    elif text.lower() in kind.names:
        value = kind.names[text.lower()]
    else:
        raise complain(item, kind)
    if not kind.low <= value <= kind.high:
        raise complain(item, kind, f"it goes from {kind.low} to {kind.high}")
    return value


def read_step(text: str | None, item: str, kind: Kind) -> int:
    """The number after a slash; 1 where there is none."""
    step = 1 if text is None else int(text)
    if step < 1:
        raise complain(item, kind, "a step is at least 1")
    return step


def complain(item: str, kind: Kind, why: str = "") -> ScheduleError:
    """The refusal of an item, naming the item and its field."""
    return ScheduleError(f"'{item}' could not be placed in the {kind.name} field{': ' if why else ''}{why}")


def split_fields(text: str) -> list[str]:
    """The fields of a cron text, which must not be absurdly long (that bounds the time to read it)."""
    if len(text) > LONGEST_CRON:
        raise ScheduleError(f"a cron text of {len(text)} characters is too long; {LONGEST_CRON} are enough")
    return text.split()
