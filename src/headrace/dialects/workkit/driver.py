"""Runs our scripts on a schedule's server: the Redis store's driver, with other scripts and two keys."""

from __future__ import annotations

from contextlib import suppress

from redis import exceptions as wire

from headrace.dialects.on_redis import DialectDriver
from headrace.errors import StoreCorrupt
from headrace.store.redis.scripts import Scripts


class ScheduleDriver(DialectDriver):
    """Connections to a schedule's server. Every script gets a clock (a test's, or none) and the two keys."""

    SCRIPTS = Scripts("headrace.dialects.workkit")
    # A renewal is no read, but its repeat is recognised: it may be sent again.
    READS = frozenset({"counts", "get", "look", "orphans", "page", "recurring", "renew", "strangers"})

    def _wrong_type(self) -> StoreCorrupt:
        found = None
        with suppress(wire.RedisError):
            found = next(filter(None, map(self._misfit, self.keys.known)), None)
        where = found or f"One of the keys {' and '.join(self.keys.known)} has a type that is not a schedule's"
        return StoreCorrupt(f"{where}. Nothing was written. Use another schedule name.")
