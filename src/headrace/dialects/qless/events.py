"""What is published: messages for a thread or a loop, and `client.events`, about tracked jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from headrace.dialects.subscription import Message, Subscription
from headrace.errors import HeadraceError
from headrace.store.redis.troubles import BROKEN
from headrace.store.redis.wakeup import PING_SECONDS
from headrace.store.wakeup import Pokes, readable

from .driver import QlessDriver

log = logging.getLogger("headrace.qless")

NAMES = ("canceled", "completed", "failed", "popped", "stalled", "put", "track", "untrack")

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


class Events:
    """Calls functions with the jids of tracked jobs to which something happens.

    `on("completed", function)`, and then `listen()`, or `with client.events.thread():`.
    """

    def __init__(self, driver: QlessDriver) -> None:
        self._driver = driver
        self._callbacks: dict[str, Callable[[str], object]] = {}
        self._listener: Listener | None = None

    def on(self, name: str, function: Callable[[str], object]) -> None:
        """Call a function with the jid when this happens; `NAMES` lists what can happen."""
        if name not in NAMES:
            raise NotImplementedError(f"There is no event {name!r}. There are {', '.join(NAMES)}.")
        self._callbacks[name] = function

    def off(self, name: str) -> None:
        self._callbacks.pop(name, None)

    def listen(self) -> None:
        """Call functions as things happen, until `close` is called from another thread."""
        self._hear(self._subscribed())

    def close(self) -> None:
        """End `listen`, once the functions have been called with all that has happened."""
        if self._listener is not None:
            self._listener.close()

    @contextmanager
    def thread(self) -> Iterator[threading.Thread]:
        """Listen in the background for the length of a block.

        The block ends when the functions have been called with all that has happened within it.
        """
        listener = self._subscribed()
        thread = threading.Thread(target=self._hear, args=(listener,), name="qless-events", daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            listener.close()
            thread.join()

    def _subscribed(self) -> Listener:
        self._listener = Listener(self._driver, [f"ql:{name}" for name in NAMES])
        self._listener.subscribe()
        return self._listener

    def _hear(self, listener: Listener) -> None:
        for channel, jid in listener.messages():
            function = self._callbacks.get(channel.removeprefix("ql:"))
            if function is not None:
                try:
                    function(jid)
                except Exception:
                    log.exception("the function for %s raised", channel)
