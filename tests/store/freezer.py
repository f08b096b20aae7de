"""A proxy that lets some answers of a server pass, and then keeps a connection still: its client is frozen."""

from __future__ import annotations

import socket
import threading

from store.redis.proxy import TO_CLIENT, Proxy


class Freezer(Proxy):
    """Between a store and the socket of a server. Connections that are not frozen go on."""

    def __init__(self, path: str) -> None:
        self._left: int | None = None
        self.frozen = threading.Event()
        self._thaws = threading.Event()
        super().__init__(path)

    def freeze_after(self, answers: int) -> None:
        """Let so many more answers reach their clients. The connection of the next one stands still, both ways."""
        with self._lock:
            self._left = answers
        self.frozen.clear()
        self._thaws.clear()

    def thaw(self) -> None:
        with self._lock:
            self._left = None
        self._thaws.set()

    def close(self) -> None:
        self.thaw()
        super().close()

    def _pass(
        self, pair: tuple[socket.socket, socket.socket], direction: int, target: socket.socket, data: bytes
    ) -> bool:
        if direction == TO_CLIENT and self._is_last():
            self.frozen.set()
            self._thaws.wait()
        target.sendall(data)
        return True

    def _is_last(self) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            if self._left >= 0:
                return False
            self._left = None  # other connections go on
            return True
