"""A dialect on a Redis server: the Redis store's connections, with the dialect's own scripts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, TypeVar

from headrace.dialects.base import DialectStore
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script, Steps
from headrace.store.redis.scripts import Scripts
from headrace.store.redis.shared import OnRedis
from headrace.values.clock import Clock, SystemClock

T = TypeVar("T")
Stepwise = Generator[Script[Any], Any, T]
"""An operation in several steps: yields scripts and gets their replies. `Steps` runs it."""


def test_clock(clock: Clock | None) -> Clock | None:
    """The clock of a test. None: the server's own clock counts."""
    return None if isinstance(clock, SystemClock) else clock


class RedisDialect(OnRedis, DialectStore):
    """A dialect whose operations are scripts."""

    leases_in_jobs = True

    def known(self, answer: Callable[[], T]) -> Steps[T]:
        def work() -> Stepwise[T]:
            return answer()
            yield  # nothing is sent: a generator all the same

        return Steps(work)

    def work(self, begin: Callable[[], Stepwise[T]]) -> Steps[T]:
        return Steps(begin)


class DialectDriver(Driver):
    """Sends a dialect's scripts: `SCRIPTS` is where they are, `READS` names those that write nothing."""

    SCRIPTS: ClassVar[Scripts]
    READS: ClassVar[frozenset[str]]

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        verb, text = (b"EVAL", self.SCRIPTS.source) if whole else (b"EVALSHA", self.SCRIPTS.digest)
        keys = self._script_keys(script)
        clock = b"" if self._clock is None else self._clock_text(self._clock)
        return pack(verb, text(script.name), b"%d" % len(keys), *keys, clock, *script.arguments)

    def _script_keys(self, script: Script[Any]) -> Sequence[bytes]:
        return [key.encode() for key in self.keys.known]

    def _clock_text(self, clock: Clock) -> bytes:
        """A test's time, as the scripts read it."""
        return b"%d" % clock.now()

    def _only_reads(self, script: Script[Any]) -> bool:
        return script.name in self.READS
