"""`client.events`: what happens to tracked jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .driver import QlessDriver
from .listening import Listener

log = logging.getLogger("headrace.qless")

NAMES = ("canceled", "completed", "failed", "popped", "stalled", "put", "track", "untrack")


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
        """Call nothing any more when this happens."""
        self._callbacks.pop(name, None)

    def listen(self) -> None:
        """Call functions as things happen, until `close` is called from another thread."""
        listener = self._subscribed()
        self._hear(listener)

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
