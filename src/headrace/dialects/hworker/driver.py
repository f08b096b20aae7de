"""The keys of hworker queues, and our scripts on the connections of the Redis store."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from headrace.dialects.on_redis import DialectDriver
from headrace.store.redis.keys import Keys as RedisKeys
from headrace.store.redis.operation import Script
from headrace.store.redis.scripts import Scripts
from headrace.values.clock import Clock

KINDS = {"jobs": "list", "progress": "hash", "broken": "hash", "failed": "list"}
"""What there is for each queue, in the order in which every script gets it, and of which type it is."""


class Keys(RedisKeys):
    """Where queues keep what they have.

    >>> Keys().of("mail")[0]
    'hworker-jobs-mail'
    >>> Keys(failed_key="hworker-failed-queue").of("mail")[3]
    'hworker-failed-queue'
    """

    def __init__(self, failed_key: str | None = None) -> None:
        self.prefix = "hworker-"
        self.known = ()  # none are the same for all requests: each says which queues it is about
        self._failed_key = failed_key

    def of(self, name: str) -> tuple[str, str, str, str]:
        """The four keys of a queue: jobs, progress, broken, failed."""
        failed = self._failed_key or f"{self.prefix}failed-{name}"
        return f"{self.prefix}jobs-{name}", f"{self.prefix}progress-{name}", f"{self.prefix}broken-{name}", failed

    def wake(self, session: str) -> str:
        """A channel that nobody listens to: `headrace doctor` tries whether this user may publish."""
        return f"{self.prefix}wake-{session}"

    def expected_type(self, key: str) -> str | None:
        if key == self._failed_key:
            return KINDS["failed"]
        return KINDS.get(key.removeprefix(self.prefix).partition("-")[0])


class HworkerDriver(DialectDriver):
    """Runs scripts, which know the queues that they are about by number, from 1. A test's clock is in microseconds."""

    SCRIPTS = Scripts("headrace.dialects.hworker")
    READS = frozenset({"counts", "entries"})
    keys: Keys

    def with_keys(self, keys: Keys) -> HworkerDriver:
        """The same connections for a queue with other keys."""
        other = copy.copy(self)
        other.keys = keys
        return other

    def _script_keys(self, script: Script[Any]) -> Sequence[bytes]:
        return [key.encode() for name in script.keys for key in self.keys.of(name)]

    def _clock_text(self, clock: Clock) -> bytes:
        return b"%d" % (clock.now() * 1000)
