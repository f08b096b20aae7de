"""GLOBs on names: one set of rules, whatever store they are looked up in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

_SPECIAL = re.compile(r"[*?\[]")


def is_glob(name: str) -> bool:
    """Whether a name stands for others.

    >>> is_glob("mail"), is_glob("mail-*")
    (False, True)
    """
    return _SPECIAL.search(name) is not None


def fits(pattern: str, name: str) -> bool:
    """Whether a name is meant by a pattern, or by itself.

    >>> fits("mail-*", "mail-out"), fits("mail", "mail"), fits("mail", "mail-out")
    (True, True, False)
    """
    return matcher(pattern)(name) if is_glob(pattern) else pattern == name


def any_fits(patterns: Iterable[str], name: str) -> bool:
    """Whether a name is meant by one of these."""
    return any(fits(pattern, name) for pattern in patterns)


def literal_part(pattern: str) -> str:
    """What all names that fit begin with.

    >>> literal_part("mail-[ab]*")
    'mail-'
    """
    return _SPECIAL.split(pattern, maxsplit=1)[0]


@lru_cache(maxsize=1_000)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether names fit: `*` any text, `?` any character, `[a-z]` one of these, `[^a-z]` none of these.

    The rules are those of SQLite: there is no escape but a class of one, and a class that is not closed fits nothing.
    But no pattern that begins with one of these means a name that begins with `~` (see `headrace.traffic`).

    >>> fits = matcher("shop.[a-m]*:send_?ail")
    >>> fits("shop.mail:send_mail"), fits("shop.tasks:send_mail")
    (True, False)
    >>> matcher("*")("~mail"), matcher("~*")("~mail")
    (False, True)
    """
    compiled = re.compile(as_regex(pattern), re.DOTALL)
    return lambda name: compiled.fullmatch(name) is not None


def as_regex(pattern: str) -> str:
    """The regular expression of a GLOB, as Python and PostgreSQL understand it.

    >>> as_regex("mail-[^a-c]?*")
    'mail\\\\-[^a-c]..*'
    """
    parts, at = ["(?!~)"] if _SPECIAL.match(pattern) else [], 0  # queues of test traffic are named, or not meant
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            parts.append(".*")
        elif character == "?":
            parts.append(".")
        elif character == "[":
            text, at = _class(pattern, at)
            parts.append(text)
        else:
            parts.append(re.escape(character))
    return "".join(parts)


_NOTHING = "(?!x)x"


def _class(pattern: str, at: int) -> tuple[str, int]:
    """The class that begins after a bracket, as a regular expression, and where the pattern goes on."""
    inverted = pattern[at : at + 1] == "^"
    at += inverted
    end = pattern.find("]", at + 1)  # one that comes first is itself a member
    if end < 0:
        return _NOTHING, len(pattern)
    members, ranges = pattern[at:end], []
    i = 0
    while i < len(members):
        low = high = members[i]
        begins_range = i > 0 or low != "]"  # a bracket that comes first is a member, and no more
        if begins_range and i + 2 < len(members) and members[i + 1] == "-":
            high = members[i + 2]
            i += 2
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        i += 1
    if not ranges:
        return ("." if inverted else _NOTHING), end + 1
    return f"[{'^' if inverted else ''}{''.join(ranges)}]", end + 1
