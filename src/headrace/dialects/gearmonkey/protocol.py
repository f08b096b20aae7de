"""What the protocol's document fixes: names, words, times, and the text of its one script."""

from __future__ import annotations

from enum import IntFlag, StrEnum

from headrace.errors import ConfigurationError

TAKE_DUE = (
    "local item = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 1); if (#item > 0) then "
    "redis.call('ZREM', KEYS[1], item[1]); return { KEYS[1],  item[1] }; end"
)
"""The published script, byte for byte: takes one due job from the scheduled queue."""
TAKE_DUE_SHA = "5231827cd49b540660ef44969b38cc858f157824"
KEEP_JOB = 90_000
"""Seconds for which a finished job is kept: 25 hours."""
KEEP_LOCK = 10
"""Seconds for which the lock list of a finished job is kept."""
SIDE = "headrace:gm:"
"""What our keys beside the protocol's begin with. Glossary: lua/prelude.lua."""


class Priority(StrEnum):
    """The four priorities: due scheduled jobs come first, then high, normal, low."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    SCHEDULED = "scheduled"


class Option(IntFlag):
    """What changes how `run` goes about it."""

    NONE = 0
    BLOCKING = 1
    """Return only when the job has finished, successfully or not."""
    ROLLCALL = 2
    """Refuse to create the job unless a worker is registered for its function."""


OPT_BLOCKING = Option.BLOCKING
OPT_ROLLCALL = Option.ROLLCALL


class Status(StrEnum):
    """The status of a job, as it stands in its hash."""

    IDLE = "idle"
    BUSY = "busy"
    SUCCESS = "success"
    ERROR = "error"


def check_function(name: object) -> str:
    """A function's name: any text but none. Colons are allowed.

    >>> check_function("mail:send")
    'mail:send'
    """
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"A function is named by text that is not empty, not by {name!r}.")
    return name


def queue_key(function: str, priority: str) -> str:
    return f"queue:{function}:{priority}"


def job_key(function: str, number: int | str) -> str:
    return f"job:{function}:{number}"


def lock_key(function: str, number: int | str) -> str:
    return f"lock:{function}:{number}"


def channel(function: str) -> str:
    return f"channel:{function}"


def function_of(queue: str) -> str:
    """The function in a queue's key.

    >>> function_of("queue:mail:send:high")
    'mail:send'
    """
    return queue.removeprefix("queue:").rpartition(":")[0]


def level_of(priority: int) -> Priority:
    """The level that one of headrace's numeric priorities stands for.

    >>> level_of(5), level_of(0), level_of(-1)
    (<Priority.HIGH: 'high'>, <Priority.NORMAL: 'normal'>, <Priority.LOW: 'low'>)
    """
    return Priority.HIGH if priority > 0 else Priority.LOW if priority < 0 else Priority.NORMAL


def decimal(number: float) -> str:
    """A number as the protocol writes it.

    >>> decimal(10**17 + 1), decimal(2.0), decimal(0.25)
    ('100000000000000001', '2', '0.25')
    """
    return str(int(number)) if number % 1 == 0 else f"{number:.15g}"


def output_of(value: object) -> bytes:
    """What a working function returned, as the protocol's text."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    raise TypeError(f"The working function returned {type(value).__name__}; an output is text, bytes or None.")
