"""The connection to the server: the Redis store's own driver, with this dialect's scripts and plain commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.dialects.on_redis import DialectDriver
from headrace.errors import StoreCorrupt, Unsupported
from headrace.store.redis import requests
from headrace.store.redis.addresses import Place
from headrace.store.redis.connections import pack
from headrace.store.redis.keys import Keys
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.scripts import Scripts
from headrace.values.clock import Clock

T = TypeVar("T")
U = TypeVar("U")


class Command(Script[T]):
    """A plain command of Redis. `reads`: it changes nothing, and may be sent again."""

    __slots__ = ("packed", "reads")

    def __init__(
        self,
        *words: str | bytes,
        read: Callable[[Reply], T],
        reads: bool = False,
        repeatable: bool = False,
    ) -> None:
        super().__init__("", (), lambda reply, _: read(reply), repeatable=repeatable)
        encoded = (word.encode(errors="surrogateescape") if isinstance(word, str) else word for word in words)
        self.packed = pack(*encoded)
        self.reads = reads

    def then(self, second: Command[U]) -> Command[tuple[T, U]]:
        """Both, sent at once; the server turns to the second when it has answered the first."""
        both: Command[tuple[T, U]] = Command(
            read=lambda replies: (self.read(replies[0], False), second.read(replies[1], False)),
            repeatable=self.repeatable and (second.repeatable or second.reads),
        )
        both.packed, both.answers = self.packed + second.packed, 2
        return both


class GearMonkeyDriver(DialectDriver):
    """Connections to the server where the peers are."""

    SCRIPTS = Scripts("headrace.dialects.gearmonkey")
    READS = frozenset({"get", "lines", "listen", "scan", "sessions", "watch"})

    def __init__(self, place: Place, clock: Clock | None = None) -> None:
        if place.kind == "cluster":
            raise Unsupported(
                "GearMonkey has no place on a cluster: the keys of one function live in different slots, and its "
                "script and BRPOP need them in one."
            )
        super().__init__(place, Keys("gearmonkey"), clock)

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        return script.packed if isinstance(script, Command) else super()._command(script, whole=whole)

    def _script_keys(self, script: Script[Any]) -> Sequence[bytes]:
        return ()

    def _clock_text(self, clock: Clock) -> bytes:
        return requests.clock(clock.now(), clock.steady())

    def _only_reads(self, script: Script[Any]) -> bool:
        return script.reads if isinstance(script, Command) else super()._only_reads(script)

    def _wrong_type(self) -> StoreCorrupt:
        return StoreCorrupt(
            f"{self.where}: one of the keys uid:*, count:*, job:*, queue:* or lock:* is used for something that is not "
            "GearMonkey. The protocol has no prefix: give it a database of its own (…/1)."
        )
