"""Runs our scripts on a schedule's server: the Redis store's driver, with other scripts and two keys."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from redis import exceptions as wire

from headrace.errors import StoreCorrupt
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script

from . import scripts

_READS = frozenset({"counts", "get", "look", "orphans", "page", "renew", "strangers"})
"""Of these nobody needs to be told that they may have been done: they are done again. (A renewal knows its own.)"""


class ScheduleDriver(Driver):
    """Connections to a schedule's server. Every script gets a clock (a test's, or none) and the two keys."""

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        verb, text = (b"EVAL", scripts.source(script.name)) if whole else (b"EVALSHA", scripts.digest(script.name))
        clock = b"" if self._clock is None else b"%d" % self._clock.now()
        return pack(verb, text, b"2", *(key.encode() for key in self.keys.known), clock, *script.arguments)

    def _only_reads(self, script: Script[Any]) -> bool:
        return script.name in _READS

    def _wrong_type(self) -> StoreCorrupt:
        found = None
        with suppress(wire.RedisError):
            found = next(filter(None, map(self._misfit, self.keys.known)), None)
        where = found or f"One of the keys {' and '.join(self.keys.known)} has a type that is not a schedule's"
        return StoreCorrupt(f"{where}. Nothing was written. Use another schedule name.")
