"""The words that cron fields and phrases share, and how numbers are said."""

from __future__ import annotations

from collections.abc import Iterable

WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTH_NAMES = (
    "January February March April May June July August September October November December".split()
)  # fmt: skip

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

NUMBERS = {"a": 1, "an": 1, "fifteen": 15, "twenty": 20, "thirty": 30}
NUMBERS |= {
    word: number
    for number, word in enumerate(
        "one two three four five six seven eight nine ten eleven twelve".split(), start=1
    )
}
ORDINALS = {
    word: number
    for number, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(), start=1
    )
}


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
