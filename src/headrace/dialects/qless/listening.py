"""Messages for a thread that does nothing else, or for a loop that waits for other things, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from headrace.dialects.subscription import Message, Subscription
from headrace.errors import HeadraceError
from headrace.store.redis.troubles import BROKEN
from headrace.store.redis.wakeup import PING_SECONDS
from headrace.store.wakeup import Pokes, readable

from .driver import QlessDriver

RECONNECT_SECONDS = 0.5


class Listener(Subscription):
    """A subscription that survives lost connections. One thread listens; any thread may `close`."""

    def __init__(self, driver: QlessDriver, channels: Sequence[str]) -> None:
        super().__init__(driver, channels)
        self._pokes = Pokes()
        self._closed = False

    def messages(self) -> Iterator[Message]:
        """Each message that was published before `close`, as it comes."""
        try:
            while not self._closed:
                yield from self.waiting()
                if not self._closed:
                    seconds = PING_SECONDS if self.descriptors else RECONNECT_SECONDS
                    readable([self._pokes.reader, *self.descriptors], seconds)
            with suppress(*BROKEN):
                yield from self.last()
        finally:
            self.hang_up()

    def waiting(self) -> list[Message]:
        """The messages that have arrived. Never blocks for long; connects again if need be."""
        try:
            if not self.descriptors:
                self.subscribe()
            return self.arrived()
        except (*BROKEN, HeadraceError):
            self.hang_up()
            return []

    def close(self) -> None:
        """Stop listening, from any thread. The listening thread hangs up."""
        self._closed = True
        self._pokes.poke()
