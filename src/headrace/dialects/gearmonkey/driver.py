"""The connection to the server: the Redis store's own driver, with this dialect's scripts and plain commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headrace.errors import StoreCorrupt, Unsupported
from headrace.store.redis import requests
from headrace.store.redis.addresses import Place
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.keys import Keys
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.scripts import Scripts
from headrace.values.clock import Clock

T = TypeVar("T")

READS = frozenset({"get", "lines", "listen", "scan", "sessions", "watch"})

GEARMONKEY = Scripts("headrace.dialects.gearmonkey")
source, digest = GEARMONKEY.source, GEARMONKEY.digest


class Command(Script[T]):
    """One plain command of Redis. `reads`: it changes nothing, and may be sent again."""

    __slots__ = ("reads",)

    def __init__(
        self,
        *words: str | bytes,
        read: Callable[[Reply], T],
        reads: bool = False,
        repeatable: bool = False,
    ) -> None:
        encoded = tuple(word.encode(errors="surrogateescape") if isinstance(word, str) else word for word in words)
        super().__init__("", encoded, lambda reply, _: read(reply), repeatable=repeatable)
        self.reads = reads


class Both(Script[tuple[Reply, T]], Generic[T]):
    """Two plain commands that are sent at once; the server turns to the second when it has answered the first."""

    __slots__ = ("pair",)

    answers = 2

    def __init__(self, first: Command[Any], second: Command[T]) -> None:
        def read(reply: Reply, unsure: bool) -> tuple[Any, T]:
            return first.read(reply[0], unsure), second.read(reply[1], unsure)

        super().__init__("", (), read, repeatable=first.repeatable and (second.repeatable or second.reads))
        self.pair = (first, second)


class GearMonkeyDriver(Driver):
    """Connections to the server where the peers are."""

    def __init__(self, place: Place, clock: Clock | None = None) -> None:
        if place.kind == "cluster":
            raise Unsupported(
                "GearMonkey has no place on a cluster: the keys of one function live in different slots, and its "
                "script and BRPOP need them in one."
            )
        super().__init__(place, Keys("gearmonkey"), clock)

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        if isinstance(script, Command):
            return pack(*script.arguments)
        if isinstance(script, Both):
            return b"".join(pack(*command.arguments) for command in script.pair)
        clock = b"" if self._clock is None else requests.clock(self._clock.now(), self._clock.steady())
        verb, text = (b"EVAL", source(script.name)) if whole else (b"EVALSHA", digest(script.name))
        return pack(verb, text, b"0", clock, *script.arguments)

    def _only_reads(self, script: Script[Any]) -> bool:
        return script.reads if isinstance(script, Command) else script.name in READS

    def _wrong_type(self) -> StoreCorrupt:
        return StoreCorrupt(
            f"{self.where}: one of the keys uid:*, count:*, job:*, queue:* or lock:* is used for something that is not "
            "GearMonkey. The protocol has no prefix: give it a database of its own (…/1)."
        )
