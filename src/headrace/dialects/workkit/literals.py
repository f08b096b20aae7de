"""Clojure's function literals that call one named function: `(fn [x] (ns/f x "constant"))`, `#(ns/f %)`.

A literal is read as that call and never evaluated. It passes on constants (text, numbers, true, false, nil and vectors
of these) and its parameters. A literal that says more is not read, and its job is left for other listeners.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_FN = re.compile(r"\s*\(\s*fn\*?[\s,]*\[([^\]]*)\](.*)\)\s*", re.DOTALL)
_SHORT = re.compile(r"\s*#(\(.*\))\s*", re.DOTALL)
_WORD = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*"|[()\[\]]|[^\s,()\[\]{}"\'`;~^@\\#]+#?)[\s,]*', re.DOTALL)
_SYMBOL = re.compile(r"[^\W\d][^()\[\]\"]*")


def called(literal: str, args: Sequence[bytes]) -> tuple[str, list[bytes]] | None:
    """The function that a literal calls with these arguments, and what it gets, each as JSON. None: not read.

    >>> called('(fn [x] (your-app.user/activate x "tracy@domain.com" 30))', [b"1"])
    ('your-app.user/activate', [b'1', b'"tracy@domain.com"', b'30'])
    >>> called("#(your-app.user/activate %)", [b"1"])
    ('your-app.user/activate', [b'1'])
    >>> called("(fn [] (f (g)))", []), called("(fn [x] (f x))", [])
    (None, None)
    """
    if whole := _FN.fullmatch(literal):
        words = _words(whole[2])
        names = whole[1].replace(",", " ").split()
    elif short := _SHORT.fullmatch(literal):
        words = ["%1" if word == "%" else word for word in _words(short[1])]
        names = [f"%{number}" for number in range(1, max(map(_place, words), default=0) + 1)]
    else:
        return None
    fits = len(words) > 2 and words[0] == "(" and words[-1] == ")" and len(names) == len(args)
    if not fits or "&" in names or not _SYMBOL.fullmatch(words[1]):
        return None
    passed = _values(words[2:-1], dict(zip(names, args, strict=True)))
    return None if passed is None else (words[1], passed)


def _words(body: str) -> list[str]:
    """None at all if there is something that is not read."""
    found = []
    position = 0
    while position < len(body):
        word = _WORD.match(body, position)
        if word is None:
            return []
        found.append(word[1])
        position = word.end()
    return found


def _place(word: str) -> int:
    return int(word[1:]) if re.fullmatch(r"%[1-9]\d?", word) else 0


def _values(words: Sequence[str], given: Mapping[str, bytes]) -> list[bytes] | None:
    values: list[bytes] = []
    around: list[list[bytes]] = []
    for word in words:
        if word == "[":
            around.append(values)
            values = []
            continue
        if word == "]" and around:
            value: bytes | None = b"[%s]" % b",".join(values)
            values = around.pop()
        else:
            value = given.get(word, _constant(word))
        if value is None:
            return None
        values.append(value)
    return None if around else values


def _constant(word: str) -> bytes | None:
    if word in ("nil", "null"):  # the second one is a name there
        return b"null" if word == "nil" else None
    try:
        return json.dumps(json.loads(word, strict=False), allow_nan=False).encode()
    except ValueError:  # a name, or an escape or a number that means something else in Clojure
        return None
