"""Lua files, put together: `--@include a b` stands for the text of a.lua and b.lua, unless they are there already.

    python -m headrace.store.redis.scripts exchange

prints a whole script, for programs in other languages.

Constants, that is lines like `local AT_ONCE, MOST = 100, 200`, are replaced by their numbers: a function has room for
no more than 200 local names. So are the names that layout.py has: what Python knows as well is declared there.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources

from headrace.store.redis.layout import LUA

READS = frozenset(
    {
        "audit", "blocks", "circumstances", "controls", "counts", "dependants", "durations", "failing", "few", "get",
        "history", "lane", "lane_rules", "lanes", "lately", "most", "oldest", "parents", "peek", "schedules_get",
        "sessions", "settings_get", "walk",
    }
)  # fmt: skip
"""Those that write nothing."""
ASKS = frozenset({"events", "rights", "wait", "watch"})
"""Those that write nothing that lasts: that somebody listens, for a minute or so, or what they take back at once."""

_INCLUDE = re.compile(r"^--@include (.*)$", re.MULTILINE)
_CONSTANTS = re.compile(r"^local ([A-Z_]+(?:, [A-Z_]+)*) = (\d+(?:, \d+)*)\n", re.MULTILINE)
_CONSTANT = re.compile(r"(?<![\w.'])[A-Z]\w*\b(?!')")  # in quotes it is a word, not a name
_COMMENT = re.compile(r"^ *-- .*\n|^ *--\n", re.MULTILINE)


class Scripts:
    """The scripts of one package: the files in its folder `lua`, or in `lua/scripts` beside those that they include."""

    def __init__(self, package: str, constants: Mapping[str, str] = {}) -> None:
        self._constants = constants
        self._folder = resources.files(package) / "lua"
        self._code = cache(lambda name: _COMMENT.sub("", self._library(name)))
        self.source = cache(self._source)
        self.digest = cache(self._digest)

    def text(self, name: str) -> str:
        """The file of a script as it is."""
        script = self._folder.joinpath("scripts", f"{name}.lua")
        return script.read_text("utf-8") if script.is_file() else self._library(name)

    def _library(self, name: str) -> str:
        return self._folder.joinpath(f"{name}.lua").read_text("utf-8")

    def _source(self, name: str) -> bytes:
        """A whole script as the server gets it: with what it includes, and without its comments."""
        included: set[str] = set()

        def expand(text: str) -> str:
            return _INCLUDE.sub(lambda match: "\n".join(map(library, match[1].split())), text)

        def library(name: str) -> str:
            if name in included:
                return ""
            included.add(name)
            return expand(self._code(name))

        return _with_constants(expand(_COMMENT.sub("", self.text(name))), self._constants).encode()

    def _digest(self, name: str) -> bytes:
        """What EVALSHA calls a script."""
        return hashlib.sha1(self.source(name), usedforsecurity=False).hexdigest().encode()


def _with_constants(text: str, known: Mapping[str, str]) -> str:
    values = dict(known)
    for names, numbers in _CONSTANTS.findall(text):
        values |= zip(names.split(", "), numbers.split(", "), strict=True)
    return _CONSTANT.sub(lambda match: values.get(match[0], match[0]), _CONSTANTS.sub("", text))


NATIVE = Scripts("headrace.store.redis", LUA)
source, digest = NATIVE.source, NATIVE.digest

if __name__ == "__main__":
    sys.stdout.write(source(sys.argv[1]).decode())
