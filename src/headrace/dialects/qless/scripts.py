"""The Lua modules in lua/, put together: one script for all clients, or a library for scripts of one's own."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

CLASSES = {
    "Config": "config",
    "History": "history",
    "Statistics": "statistics",
    "Tags": "tags",
    "Job": "job",
    "Dependencies": "dependencies",
    "Failures": "failures",
    "Put": "put",
    "Completion": "completion",
    "Queue": "queue",
    "Pop": "pop",
    "Recurring": "recurring",
    "Worker": "worker",
    "Tracking": "tracking",
}
"""Classes, and the modules that they are in. Each is found as `Qless.<class>`."""

COMMANDS = {"Work": "work", "Manage": "manage"}
"""The two halves of the table of commands: those that are sent all the time, and the others."""


@cache
def script() -> str:
    """The unified script, as clients in every language call it: `EVALSHA sha 0 command now argument…`.

    >>> "Unknown command" in script()
    True
    """
    return _assembled(CLASSES | COMMANDS) + _module("dispatch")


@cache
def library() -> str:
    """The classes without the commands: put it before a script of your own and use `Qless.Queue`, `Qless.Job`, …

    >>> "Unknown command" in library()
    False
    """
    return _assembled(CLASSES)


@cache
def digest() -> str:
    """What EVALSHA calls the script."""
    return hashlib.sha1(script().encode(), usedforsecurity=False).hexdigest()


def _assembled(classes: dict[str, str]) -> str:
    """The base, and one function that makes each class when it is asked for: a script is run anew for every call."""
    branches = "else".join(f"if name == '{name}' then\n{_module(module)}" for name, module in classes.items())
    return f"{_module('base')}setmetatable(Qless, {{__index = function(_, name)\n{branches}end\nend}})\n"


def _module(name: str) -> str:
    """A module without comments (which are on lines of their own, always) and without empty lines."""
    text = resources.files("headrace.dialects.qless").joinpath("lua", f"{name}.lua").read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("--"))
