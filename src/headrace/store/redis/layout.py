"""What Python and Lua both know of records and limits, declared once. Scripts get it in place of names (`LUA`).

The parts of a record are packed without padding, big-endian. `I6` is a number of six bytes, as Lua's `struct` has it;
Python reads it as two and four.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import calcsize

from headrace.records import Charge, Kind, State, Verdict
from headrace.store import limits, settings
from headrace.store.ages import LEVELS
from headrace.store.facets import PARKED
from headrace.store.throughput import SLOT, SLOTS
from headrace.values.names import HIGHEST_WEIGHT

STATES = (State.SCHEDULED, State.READY, State.RUNNING, State.BLOCKED, State.DONE, State.FAILED, State.CANCELLED)

HEAD = {
    "state": "B", "flags": "H", "token": "I", "attempts": "I", "crashes": "H", "due": "I6", "created": "I6",
    "arrival": "I6", "priority": "i", "max_crashes": "H", "length": "I",
}  # fmt: skip
"""What every record begins with. `length`: that of `put`."""
RUN_PART = {"session": "I", "request": "I6", "started": "I6", "finished": "I6"}
"""What follows if flags has RUN."""

CANCELLING, SPARE, HISTORY, UNIQUE, OPTIONS, RUN, STORY, LARGE_BODY = 1, 2, 4, 8, 16, 32, 64, 128
DATA, RESULT, ERROR, GROUP, PROGRESS, DEFERRED = 256, 512, 1024, 2048, 4096, 8192
MORE = 16384
RESULT_DROPPED = 8
"""Where a story says which of its values are elsewhere: the result is nowhere any more."""
UPDATED = 16
"""There, too: the job runs, and its data was updated from outside since it was handed out."""

INLINE = 2_000
"""Values up to this many bytes are carried along in the record."""
LATEST = 2**48 - 1
"""Times are kept in six bytes."""
PUT_AT_ONCE = 1_000
"""How many plain jobs to put with one script, or others that weigh as much."""
PARENTS_AT_ONCE = 80
"""With how many jobs that it comes after one step links a job."""
IDS_AT_ONCE = 100
"""How many jobs to act on with one script."""
LONG_LIST = 10_000
"""More queues than that are not kept as a list."""
SET_IN_LUA = (
    "jobs-history", "jobs-history-count", "failed-history", "max-job-history", "max-worker-age", "stats-history",
    "histogram-history", "results-history", "history-memory",
)  # fmt: skip
"""The settings that scripts go by."""


def python_format(part: dict[str, str]) -> str:
    """For Python's `struct`.

    >>> python_format(RUN_PART)
    '>IHIHIHI'
    """
    return ">" + "".join(part.values()).replace("I6", "HI")


def lua_format(part: dict[str, str]) -> str:
    """For Lua's.

    >>> lua_format(RUN_PART)
    '>II6I6I6'
    """
    return ">" + "".join(part.values())


def place(field: str) -> int:
    """Where a field of the head begins, as Lua counts bytes: from 1.

    >>> place("due")
    14
    """
    names = list(HEAD)
    before = {name: HEAD[name] for name in names[: names.index(field)]}
    return calcsize(python_format(before)) + 1


def _literal(value: int | str) -> str:
    """As Lua writes it. `{}` in a sentence is what `string.format` fills in."""
    if isinstance(value, int):
        return str(int(value))
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("{}", "%s")
    return f"('{escaped}')"


FORMAT = 3
"""Of a namespace. One of another number is refused."""

_VALUES: dict[str, int | str] = {
    "FORMAT": str(FORMAT),
    **{state.name: number for number, state in enumerate(STATES)},
    "READY_DIGIT": ord(str(STATES.index(State.READY))),
    **{f"K_{kind.name}": kind for kind in Kind},
    **{f"C_{charge.name}": charge for charge in Charge},
    **{f"V_{verdict.name}": verdict for verdict in Verdict},
    "HEAD_FORMAT": lua_format(HEAD), "HEAD_SIZE": calcsize(python_format(HEAD)),
    "RUN_FORMAT": lua_format(RUN_PART), "RUN_SIZE": calcsize(python_format(RUN_PART)),
    "STORY_FORMAT": ">BHc0Hc0Ic0Ic0Ic0ddI6",
    "DUE_AT": place("due"), "CREATED_AT": place("created"), "ARRIVAL_AT": place("arrival"),
    "LENGTH_AT": place("length"),
    "CANCELLING": CANCELLING, "SPARE": SPARE, "HISTORY": HISTORY, "HAS_KEY": UNIQUE, "HAS_OPTIONS": OPTIONS,
    "RUN": RUN, "STORY": STORY, "LARGE_BODY": LARGE_BODY, "HAS_DATA": DATA, "HAS_RESULT": RESULT, "HAS_ERROR": ERROR,
    "HAS_GROUP": GROUP, "HAS_PROGRESS": PROGRESS, "HAS_DEFERRED": DEFERRED, "MORE": MORE,
    "RESULT_DROPPED": RESULT_DROPPED, "UPDATED": UPDATED, "INLINE": INLINE, "LATEST": LATEST, "PARKED": PARKED,
    "ACTS_KEPT": limits.ACTS_KEPT, "ACTS_KEPT_FOR": limits.ACTS_KEPT_FOR, "ACTS_IN_A_STEP": limits.ACTS_IN_A_STEP,
    "PUT_AT_ONCE": PUT_AT_ONCE,
    "IDS_AT_ONCE": IDS_AT_ONCE, "LONG_LIST": LONG_LIST, "RESULTS_KEPT": settings.RESULTS_KEPT,
    "EDGES_IN_A_STEP": limits.EDGES_IN_A_STEP, "FOLLOWERS_IN_A_STEP": limits.FOLLOWERS_IN_A_STEP,
    "PARENTS_AT_ONCE": PARENTS_AT_ONCE, "MOST_PARENTS": limits.MOST_PARENTS,
    "DEPENDANTS_LOOKED_AT": limits.DEPENDANTS_LOOKED_AT,
    "HIGHEST_RATE": limits.HIGHEST_RATE, "SHORTEST_START": limits.SHORTEST_START,
    "HIGHEST_WEIGHT": HIGHEST_WEIGHT, "LANES_AHEAD": limits.LANES_AHEAD,
    "MOST_STRAYS": limits.MOST_STRAYS, "SHOWN": limits.SHOWN, "SLOT": SLOT, "SLOTS": SLOTS, "LEVELS": LEVELS,
    "PASSED_IN_A_STEP": limits.PASSED_IN_A_STEP, "EXPIRED": limits.EXPIRED, "NOT_STARTED": limits.NOT_STARTED,
    "UPDATES_TOLD": limits.UPDATES_TOLD, "MOST_BLOCKS": limits.MOST_BLOCKS, "TOO_MANY_BLOCKS": limits.TOO_MANY_BLOCKS,
    "CAUSE_SIZE": limits.CAUSE, "WAITS_FOR_ITSELF": limits.WAITS_FOR_ITSELF,
    "TOO_DEEP_TO_WAIT": limits.TOO_DEEP_TO_WAIT, "FAILED_PARENT": limits.FAILED_PARENT,
    "CANCELLED_PARENT": limits.CANCELLED_PARENT, "REMOVED_PARENT": limits.REMOVED_PARENT,
    "WOULD_BE_A_CYCLE": limits.WOULD_BE_A_CYCLE, "TOO_DEEP_TO_DEPEND": limits.TOO_DEEP_TO_DEPEND,
}  # fmt: skip


def _table(entries: Iterable[str]) -> str:
    return "{ " + ", ".join(entries) + " }"


LUA = {
    **{name: _literal(value) for name, value in _VALUES.items()},
    "SETTING_NAMES": _table(f"'{name}'" for name in SET_IN_LUA),
    "SETTING_DEFAULTS": _table(
        f"['{name}'] = {default}" for name in SET_IN_LUA if (default := settings.DEFINITIONS[name].default) is not None
    ),
}
"""By name, what stands for it in a script."""
