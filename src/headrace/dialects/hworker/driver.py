"""Our scripts on the connections of the Redis store: the same reconnecting, repeating and plain words about trouble."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from headrace.dialects.hworker.keys import Keys
from headrace.dialects.on_redis import DialectDriver
from headrace.store.redis.addresses import Place
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.scripts import Scripts
from headrace.values.clock import Clock

T = TypeVar("T")


class Request(Script[T]):
    """One call of one script, about the queues with these names. Scripts know them by number, from 1."""

    __slots__ = ("names",)

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        arguments: Sequence[bytes],
        read: Callable[[Reply, bool], T],
        *,
        repeatable: bool = True,
    ) -> None:
        super().__init__(name, tuple(arguments), read, repeatable=repeatable)
        self.names = names


class HworkerDriver(DialectDriver):
    """Runs requests. Each names its own keys; a test's clock goes along in microseconds."""

    SCRIPTS = Scripts("headrace.dialects.hworker")
    READS = frozenset({"counts", "entries", "now"})

    def __init__(self, place: Place, keys: Keys, clock: Clock | None = None) -> None:
        super().__init__(place, cast("Any", keys), clock)
        self.names = keys

    def with_keys(self, keys: Keys) -> HworkerDriver:
        """The same connections for a queue with other keys."""
        other = copy.copy(self)
        other.names = keys
        return other

    def _script_keys(self, script: Script[Any]) -> Sequence[bytes]:
        assert isinstance(script, Request)
        return [key.encode() for name in script.names for key in self.names.of(name)]

    def _clock_text(self, clock: Clock) -> bytes:
        return b"%d" % (clock.now() * 1000)


def now() -> Request[int]:
    """The server's time in milliseconds."""
    return Request("now", (), (), lambda reply, _: int(reply) // 1000)
