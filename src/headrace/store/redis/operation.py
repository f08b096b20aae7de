"""An operation, described once; `driver` runs it in a thread or on an event loop."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headrace.store.contract import Operation

T = TypeVar("T")

Reply = Any
"""What a script answers: bytes, integers, and lists of these."""

BATCH = 350
"""How many jobs to ask for at once. A server writes 64 KB of an answer, then serves others before it writes more."""

PUT_AT_MOST = 10_000
"""How many jobs of a batch are not refused."""


@dataclass(slots=True, eq=False)
class Script(Operation[T], Generic[T]):
    """One call of one script. `read` makes sense of the reply; it is told when the request had to be sent again."""

    name: str
    arguments: tuple[bytes, ...]
    read: Callable[[Reply, bool], T]
    repeatable: bool = field(default=True, kw_only=True)
    """Whether a second call gives the same answer. If not, a lost reply is reported as `MaybeApplied`."""
    keys: tuple[str, ...] = field(default=(), kw_only=True)
    """The names of what it is about, where these decide on its keys."""
    answers: int = field(default=1, kw_only=True)
    """How many the server gives: several commands may be sent at once, and the reply is a list then."""


@dataclass(slots=True, eq=False)
class Steps(Operation[T], Generic[T]):
    """Something that goes on in bounded steps: a generator of scripts that gets their answers."""

    begin: Callable[[], Generator[Script[Any], Any, T]]
    writes: bool = field(default=False, kw_only=True)
    """Whether it may be the first operation of a store that writes something."""
