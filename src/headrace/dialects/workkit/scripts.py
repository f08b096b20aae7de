"""The Lua files, put together: `--@include a b` stands for the text of a.lua and b.lua."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources

_INCLUDE = re.compile(r"^--@include (.*)$", re.MULTILINE)
_COMMENT = re.compile(r"^ *-- .*\n|^ *--\n", re.MULTILINE)


def _read(name: str) -> str:
    return resources.files("headrace.dialects.workkit").joinpath("lua", f"{name}.lua").read_text("utf-8")


@cache
def source(name: str) -> bytes:
    """A whole script as the server gets it: with what it includes, and without its comments."""
    text = _INCLUDE.sub(lambda match: "\n".join(map(_read, match[1].split())), _read(name))
    return _COMMENT.sub("", text).encode()


@cache
def digest(name: str) -> bytes:
    """What EVALSHA calls a script."""
    return hashlib.sha1(source(name), usedforsecurity=False).hexdigest().encode()
