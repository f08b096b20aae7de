"""Our scripts on the connections of the Redis store: the same reconnecting, repeating and plain words about trouble."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from headrace.dialects.hworker.keys import Keys
from headrace.store.redis.addresses import Place
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.scripts import Scripts
from headrace.values.clock import Clock

T = TypeVar("T")

SCRIPTS = ("counts", "destroy", "entries", "exchange", "give_back", "now", "queue", "remove", "renew")
_READS = frozenset({"counts", "entries", "now"})

HWORKER = Scripts("headrace.dialects.hworker")
source, digest = HWORKER.source, HWORKER.digest


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


class HworkerDriver(Driver):
    """Runs requests. Each names its own keys; a test's clock goes along in microseconds."""

    def __init__(self, place: Place, keys: Keys, clock: Clock | None = None) -> None:
        super().__init__(place, cast("Any", keys), clock)
        self.names = keys

    def with_keys(self, keys: Keys) -> HworkerDriver:
        """The same connections for a queue with other keys."""
        other = copy.copy(self)
        other.names = keys
        return other

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        assert isinstance(script, Request)
        keys = [key.encode() for name in script.names for key in self.names.of(name)]
        clock = b"" if self._clock is None else b"%d" % (self._clock.now() * 1000)
        verb, text = (b"EVAL", source(script.name)) if whole else (b"EVALSHA", digest(script.name))
        return pack(verb, text, b"%d" % len(keys), *keys, clock, *script.arguments)

    def _only_reads(self, script: Script[Any]) -> bool:
        return script.name in _READS


def now() -> Request[int]:
    """The server's time in milliseconds."""
    return Request("now", (), (), lambda reply, _: int(reply) // 1000)
