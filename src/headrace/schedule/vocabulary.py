"""The words that cron fields and phrases share, and how numbers are said."""

from __future__ import annotations

from collections.abc import Iterable

WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

WEEKDAYS: dict[str, int] = {}
MONTHS: dict[str, int] = {}
for _number, _name in enumerate(WEEKDAY_NAMES):
    WEEKDAYS[_name.lower()] = WEEKDAYS[_name[:3].lower()] = _number
for _number, _name in enumerate(MONTH_NAMES, start=1):
    MONTHS[_name.lower()] = MONTHS[_name[:3].lower()] = _number

UNITS = {
    spelling: unit
    for unit, spellings in {
        "second": "second seconds sec secs s",
        "minute": "minute minutes min mins m",
        "hour": "hour hours hr hrs h",
        "day": "day days d",
        "week": "week weeks w",
        "month": "month months",
        "year": "year years",
    }.items()
    for spelling in spellings.split()
}
SECONDS_IN = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}

NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
NUMBERS |= {"eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
NUMBERS |= {"fifteen": 15, "twenty": 20, "thirty": 30}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7}
ORDINALS |= {"eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12}


def ordinal(number: int) -> str:
    """The number with its ending.

    >>> [ordinal(number) for number in (1, 2, 3, 11, 22)]
    ['1st', '2nd', '3rd', '11th', '22nd']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def listing(items: Iterable[str]) -> str:
    """Items as a sentence has them.

    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    *rest, last = items
    return f"{', '.join(rest)} and {last}" if rest else last
