"""The Lua modules in lua/, put together: one script for all clients, or a library for scripts of one's own."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

COMMANDS = ("put", "pop", "complete", "heartbeat", "fail", "retry", "get")
"""Commands that have modules of their own, because they are sent all the time."""

_NAMES = (
    "Put", "Pop", "Completion", "Samples", "Batch", "Holder", "Job", "Values", "After", "Cancel", "Change", "Config",
    "Dependencies", "Events", "Failures", "Locks", "Move", "OldHistory", "Queue", "Recurring", "Statistics", "Tags",
    "Tracking", "Worker",
)  # fmt: skip
CLASSES = {name: re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in _NAMES}
"""Classes, and the modules that they are in. Each is found as `Qless.<class>`."""

STORE = {name: f"store/{name.lower()}" for name in ("Sessions", "Exchange", "Clients", "Edit", "Schedules")}
"""Classes of headrace's own store: a use of the library, like anybody's."""


@cache
def script() -> str:
    """The unified script, as clients in every language call it: `EVALSHA sha 0 command now argument…`.

    >>> "Unknown command" in script()
    True
    """
    commands = {name: f"commands/{name}" for name in COMMANDS}
    return _assembled(commands | CLASSES | {"Manage": "commands/manage"}) + _module("dispatch")


@cache
def library() -> str:
    """The classes without the commands: put it before a script of your own and use `Qless.Queue`, `Qless.Job`, …

    >>> "Unknown command" in library()
    False
    """
    return _assembled(CLASSES)


@cache
def store_script() -> str:
    """The script with which headrace's own worker settles and takes in one step."""
    return _assembled(CLASSES | STORE) + _module("store/dispatch")


def _assembled(classes: dict[str, str]) -> str:
    """The base, and one function that makes each class when it is asked for: a script is run anew for every call."""
    branches = "else".join(f"if name == '{name}' then\n{_made(name, module)}" for name, module in classes.items())
    return f"{_module('base')}setmetatable(Qless, {{__index = function(_, name)\n{branches}end\nend}})\n"


def _made(name: str, module: str) -> str:
    """What makes a class, whose table has room for all its functions, or a command (`function Qless.put`)."""
    text = _module(module)
    if name in COMMANDS:
        return f"{text}return Qless.{name}\n"
    room = ", ".join(f"{function} = nil" for function in re.findall(rf"^function {name}\.(\w+)", text, re.MULTILINE))
    return f"local {name} = {{{room}}}\nQless.{name} = {name}\n{text}return {name}\n"


def _module(name: str) -> str:
    """A module without comments (which are on lines of their own, always) and without empty lines."""
    text = resources.files("headrace.dialects.qless").joinpath("lua", *f"{name}.lua".split("/")).read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("--"))
