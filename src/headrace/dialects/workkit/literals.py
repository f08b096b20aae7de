"""Clojure's ways to write a function: by name (`#'ns/f`) or as a literal (`(fn [x] (ns/f x "constant"))`, `#(ns/f %)`).

A literal that calls one named function is read as that call and never evaluated. It passes on constants (text, numbers,
true, false, nil and vectors of these) and its parameters. A literal that says more is not read, and its job is left for
other listeners.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

_FN = re.compile(r"\s*\(\s*fn\*?[\s,]*\[([^\]]*)\](.*)\)\s*", re.DOTALL)
_SHORT = re.compile(r"\s*#(\(.*\))\s*", re.DOTALL)
_WORD = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*"|[()\[\]]|[^\s,()\[\]{}"\'`;~^@\\#]+#?)[\s,]*', re.DOTALL)
_SYMBOL = re.compile(r"[^\W\d][^()\[\]\"]*")
_PART = r"(?![+-]?\d)[\w*+!?<>=.&%$|-][\w*+!?<>=.&%$|:'#-]*"
_NAME = re.compile(rf"(?:#')?(?:{_PART}/)?(?:{_PART}|/)")
_TOKEN = re.compile(r"""[\s,]+|;[^\n]*|#?"(?:[^"\\]|\\.)*"|\\(?:\w+|.)|#\(|[()\[\]{}]|[^\s,;"\\()\[\]{}]+""", re.DOTALL)
_CLOSING = {"(": ")", "#(": ")", "[": "]", "{": "}"}


def is_literal(text: str) -> bool:
    """Whether a text is meant as a function literal.

    >>> is_literal("(fn [x] (println x))"), is_literal("#(println %)"), is_literal("#'clojure.core/println")
    (True, True, False)
    """
    return text.lstrip().startswith(("(", "#("))


def why_not_callable(text: str, arguments: int) -> str | None:
    """Why no listener could call what a text says with so many arguments; None if one could.

    >>> why_not_callable("#'your-app.cache/clear", 0), why_not_callable("(fn [x] (f x) (g x))", 1)
    (None, None)
    >>> why_not_callable("no such thing", 0)
    'it is not the name of a function'
    >>> why_not_callable("(fn [x] (f x)", 1), why_not_callable("(println 1)", 0)
    ('its brackets or quotes do not match', 'it is not a function literal')
    >>> why_not_callable("#(f %2)", 1)
    'it takes 2 arguments, and 1 was given'
    """
    if not is_literal(text):
        named = _NAME.fullmatch(text) and text not in ("nil", "true", "false")
        return None if named else "it is not the name of a function"
    tokens = _tokens(text)
    if tokens is None:
        return "its brackets or quotes do not match"
    try:
        wanted = _parameters(tokens)
    except ValueError:
        return "it is not a function literal"
    if wanted in (None, arguments):
        return None
    return (
        f"it takes {wanted} argument{'s' * (wanted != 1)}, and {arguments} {'was' if arguments == 1 else 'were'} given"
    )


def _parameters(literal: Sequence[str]) -> int | None:
    """How many arguments a literal takes; None if its parameters say more than their names."""
    if literal[0] == "#(":
        return None if "%&" in literal else max(_place("%1" if word == "%" else word) for word in literal)
    rest = literal[2:-1]
    if rest and rest[0] not in _CLOSING:  # a function may have a name for itself
        rest = rest[1:]
    if literal[1] not in ("fn", "fn*") or (rest[:1] != ["["] and rest[:2] != ["(", "["]):
        raise ValueError(literal[1])
    names = rest[1 : rest.index("]")] if rest[0] == "[" else "&"
    return None if any(name in _CLOSING or name[0] in "&^" for name in names) else len(names)


def _tokens(text: str) -> list[str] | None:
    """The words and brackets of one form in brackets. None: they do not make one."""
    found: list[str] = []
    waiting: list[str] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        position = token.end()
        word = token[0]
        if word[0] == ";" or not word.strip(", \t\r\n\f"):
            continue
        if found and not waiting:  # something comes after the form
            return None
        found.append(word)
        if word in _CLOSING:
            waiting.append(_CLOSING[word])
        elif word in _CLOSING.values() and (not waiting or waiting.pop() != word):
            return None
    return None if waiting or not found else found


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
