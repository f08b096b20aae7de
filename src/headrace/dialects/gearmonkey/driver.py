"""The connection to the server: the Redis store's own driver, with this dialect's scripts and plain commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.dialects.gearmonkey.protocol import TAKE_DUE, TAKE_DUE_SHA
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


LOOK, SEND = "a plain command that reads", "a plain command"
"""Names of scripts that are none: they are sent as they are."""


def command(
    *words: str | bytes, read: Callable[[Reply], T], reads: bool = False, repeatable: bool = False
) -> Script[T]:
    """A plain command of Redis. `reads`: it changes nothing, and may be sent again."""
    encoded = (word.encode(errors="surrogateescape") if isinstance(word, str) else word for word in words)
    return Script(LOOK if reads else SEND, (pack(*encoded),), lambda reply, _: read(reply), repeatable=repeatable)


def both(first: Script[T], second: Script[U]) -> Script[tuple[T, U]]:
    """Two plain commands, sent at once; the server turns to the second, which reads, when it has answered the first."""
    return Script(
        SEND,
        first.arguments + second.arguments,
        lambda replies, _: (first.read(replies[0], False), second.read(replies[1], False)),
        repeatable=first.repeatable,
        answers=2,
    )


class GearMonkeyDriver(DialectDriver):
    """Connections to the server where the peers are."""

    SCRIPTS = Scripts("headrace.dialects.gearmonkey")
    READS = frozenset({"get", "lines", "listen", "scan", "sessions", "watch", LOOK})

    def __init__(self, place: Place, clock: Clock | None = None) -> None:
        if place.kind == "cluster":
            raise Unsupported(
                "GearMonkey has no place on a cluster: the keys of one function live in different slots, and its "
                "script and BRPOP need them in one."
            )
        super().__init__(place, Keys("gearmonkey"), clock)

    def load_take_due(self) -> None:
        """Load the published script. "NOTE: Always check if the sha1 hash matches SCRIPT LOAD's output value." """
        load: Script[bytes] = command("SCRIPT", "LOAD", TAKE_DUE, read=lambda reply: reply, repeatable=True)
        answer = self.run(load).decode()
        if answer != TAKE_DUE_SHA:
            raise StoreCorrupt(f"The server calls the published script {answer}, not {TAKE_DUE_SHA}.")

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        return b"".join(script.arguments) if script.name in (LOOK, SEND) else super()._command(script, whole=whole)

    def _script_keys(self, script: Script[Any]) -> Sequence[bytes]:
        return ()

    def _clock_text(self, clock: Clock) -> bytes:
        return requests.clock(clock.now(), clock.steady())

    def _wrong_type(self) -> StoreCorrupt:
        return StoreCorrupt(
            f"{self.where}: one of the keys uid:*, count:*, job:*, queue:* or lock:* is used for something that is not "
            "GearMonkey. The protocol has no prefix: give it a database of its own (…/1)."
        )
