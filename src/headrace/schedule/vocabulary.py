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

_UP_TO_NINETEEN = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_UP_TO_NINETEEN += " seventeen eighteen nineteen"
DIGITS = {word: number for number, word in enumerate(_UP_TO_NINETEEN.split(), start=1)}
TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50}
NUMBERS = {"a": 1, "an": 1, **DIGITS, **TENS}
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
_ORDINALS += " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
ORDINALS = {word: number for number, word in enumerate(_ORDINALS.split(), start=1)} | {"thirtieth": 30}

SPELLINGS = {"sept": "sep", "thur": "thu", "thurs": "thu", "thru": "through", "till": "until", "o'clock": "oclock"}
"""Other ways to write a word of phrases. Cron has none of them."""
DAYPARTS = {"morning": (0, 11), "afternoon": (12, 18), "evening": (16, 23), "night": (18, 23)}
"""The hours that a part of the day may have."""
WORKDAYS = ("business", "working")
"""What may come before 'day' and make it a weekday."""


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
