"""A proxy between the store and the server that cuts a connection in front of a chosen message of the protocol."""

from __future__ import annotations

import socket
import threading
from weakref import WeakKeyDictionary, WeakSet

import pytest
from psycopg.conninfo import conninfo_to_dict

from store.redis.proxy import TO_CLIENT, Proxy


class Wire(Proxy):
    """Passes on whole messages, in both directions and on all connections, and counts them."""

    def __init__(self, url: str) -> None:
        """`url`: of a store on a server with a socket on this machine."""
        self._place, _, self._schema = url.rpartition("&schema=")
        known = conninfo_to_dict(self._place)
        if not str(known.get("host", "")).startswith("/"):
            pytest.skip("the proxy connects to servers through their sockets")
        self._database = known["dbname"]
        self.messages: list[bytes] = []
        """Those that have come since `cut_before`."""
        self._last: int | None = None
        self._deaf: WeakSet[socket.socket] = WeakSet()
        self._room: int | None = None
        self.stalls = threading.Event()
        """A client has stopped to read."""
        self._parts: WeakKeyDictionary[socket.socket, bytes] = WeakKeyDictionary()
        super().__init__(f"{known['host']}/.s.PGSQL.{known.get('port', 5432)}")

    @property
    def database(self) -> str:
        """The same database, through the proxy."""
        options = "sslmode=disable&gssencmode=disable"  # their negotiation is not made of messages
        return f"postgresql://postgres@127.0.0.1:{self.port}/{self._database}?{options}"

    @property
    def url(self) -> str:
        """The same store, through the proxy. Nothing is prepared, so that an exchange has always as many messages."""
        return f"{self.database}&schema={self._schema}&prepare=no"

    def cut_before(self, number: int | None) -> None:
        """Let so many messages pass, and close the connection on which the next one comes; None: let all pass."""
        with self._lock:
            self.cuts, self.messages, self._last = 0, [], number

    def stall(self, after: int) -> None:
        """Let so many more bytes pass to clients, and none from then on until `restore`: they stand still."""
        self.stalls.clear()
        self._flows.clear()
        self._room = after

    def deafen(self, port: int) -> None:
        """From now on nothing of what the server sends to this port of a client arrives: it was cut silently."""
        with self._lock:
            (pair,) = (pair for pair in self.pairs if pair[0].getpeername()[1] == port)
            self._deaf.add(pair[0])

    def deafen_all(self) -> None:
        """The same for all connections that are there now."""
        with self._lock:
            self._deaf.update(pair[0] for pair in self.pairs)

    def _pass(
        self, pair: tuple[socket.socket, socket.socket], direction: int, target: socket.socket, data: bytes
    ) -> bool:
        if direction == TO_CLIENT and pair[0] in self._deaf:
            return True
        if self._room is None:
            self._flows.wait()
        elif direction == TO_CLIENT:
            self._room -= len(data)
            if self._room < 0:
                self.stalls.set()
                self._flows.wait()
        data, end, cut = self._parts.pop(target, b"") + data, 0, False
        with self._lock:
            while not cut and (size := _size(data[end : end + 5])) and end + size <= len(data):
                cut = len(self.messages) == self._last
                self.messages.append(data[end : end + size])
                end += 0 if cut else size
            self.cuts += cut
        if end:
            target.sendall(data[:end])
        self._parts[target] = data[end:]
        return not cut


def _size(data: bytes) -> int:
    """The size of the message that begins so; 0 if not enough of it has come to tell."""
    letter = 0 if data[:1] == b"\0" else 1  # the first message of a connection has none
    length = data[letter : letter + 4]
    return letter + int.from_bytes(length) if len(length) == 4 else 0
