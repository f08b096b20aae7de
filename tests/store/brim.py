"""A proxy whose sockets take little: a client that sends or is sent more than that at once stands still."""

from __future__ import annotations

import socket
import threading
from weakref import WeakKeyDictionary

from store.redis.proxy import Proxy


class Brim(Proxy):
    """Between a store and the socket of a server. What passes in one direction before an answer comes is counted.

    `before`: a client that has sent enough stands still in front of these bytes, and nowhere else.
    """

    def __init__(self, path: str, most: int, before: bytes = b"") -> None:
        self._most, self._before = most, before
        self._passed: WeakKeyDictionary[socket.socket, int] = WeakKeyDictionary()
        """By the socket that it goes to: how many bytes since the other side has said something."""
        self._armed = False
        self.full = threading.Event()
        """A client stands still."""
        self._thaws = threading.Event()
        super().__init__(path)

    def arm(self) -> None:
        """From now on a connection stands still, both ways, when it has passed as much as it takes."""
        self._armed = True
        self._passed.clear()
        self.full.clear()
        self._thaws.clear()

    def thaw(self) -> None:
        self._armed = False
        self._thaws.set()

    def close(self) -> None:
        self.thaw()
        super().close()

    def _pass(
        self, pair: tuple[socket.socket, socket.socket], direction: int, target: socket.socket, data: bytes
    ) -> bool:
        self._passed.pop(pair[1] if target is pair[0] else pair[0], None)
        passed = self._passed.get(target, 0)
        self._passed[target] = passed + len(data)
        room = max(0, self._most - passed)
        place = data.find(self._before, room)
        if self._armed and len(data) > room and place >= 0:
            room = place
            target.sendall(data[:room])
            data = data[room:]
            self.full.set()
            self._thaws.wait()
        target.sendall(data)
        return True
