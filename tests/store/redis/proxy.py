"""A proxy between store and server that cuts connections at a chosen byte, swallows what passes, or keeps it back."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

TO_SERVER, TO_CLIENT = 0, 1


class Proxy:
    """Listens on a loopback port. `cut` and `swallow` are for whatever passes next, on whatever connection."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.passed = [0, 0]
        """How many bytes went to the server and to the client since `reset`."""
        self._limit: tuple[int, int] | None = None
        self._swallowing: set[int] = set()
        self._lock = threading.Lock()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.cuts = 0
        self._closed = False
        self._flows = threading.Event()
        self._flows.set()
        self._refuses = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def reset(self) -> None:
        with self._lock:
            self.passed = [0, 0]
            self._limit = None
            self._swallowing = set()

    def cut(self, direction: int, after: int) -> None:
        """Let `after` more bytes pass in a direction, then close the connection they came on, both ways."""
        self.reset()
        self._limit = (direction, after)
        if after == 0:
            self.hang_up()

    def swallow(self, direction: int) -> None:
        """From now on nothing that comes on the present connections arrives: they are half open."""
        with self._lock:
            self._swallowing = {id(pair[0]) for pair in self.pairs}
            self._direction = direction

    def hold(self) -> None:
        """Until `restore` nothing arrives, either way: a network that stands still."""
        self._flows.clear()

    def refuse(self) -> None:
        """Until `restore` nobody is connected: a server that is down."""
        self._refuses = True
        self.hang_up()

    def restore(self) -> None:
        """The outage is over. What was kept back arrives."""
        self._refuses = False
        self._flows.set()

    def hang_up(self) -> None:
        """Close all connections."""
        with self._lock:
            self._limit = None
            self.cuts += 1
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self._end(pair)

    def close(self) -> None:
        self._closed = True
        self._flows.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.hang_up()

    @staticmethod
    def _end(pair: tuple[socket.socket, socket.socket]) -> None:
        for side in pair:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._path)
            except OSError:
                client.close()
                server.close()
                continue
            pair = (client, server)
            with self._lock:
                self.pairs.append(pair)
            threading.Thread(target=self._serve, args=(pair,), daemon=True).start()

    def _serve(self, pair: tuple[socket.socket, socket.socket]) -> None:
        client, server = pair
        with selectors.DefaultSelector() as selector, contextlib.suppress(OSError, ValueError):
            selector.register(client, selectors.EVENT_READ, (TO_SERVER, server))
            selector.register(server, selectors.EVENT_READ, (TO_CLIENT, client))
            while True:
                for key, _ in selector.select():
                    direction, target = key.data
                    data = key.fileobj.recv(65536)
                    if not data or not self._pass(pair, direction, target, data):
                        raise OSError
        self._end(pair)
        client.close()
        server.close()
        with self._lock, contextlib.suppress(ValueError):
            self.pairs.remove(pair)

    def _pass(
        self, pair: tuple[socket.socket, socket.socket], direction: int, target: socket.socket, data: bytes
    ) -> bool:
        self._flows.wait()
        with self._lock:
            if id(pair[0]) in self._swallowing and direction == self._direction:
                return True
            self.passed[direction] += len(data)
            last = False
            if self._limit and self._limit[0] == direction and self.passed[direction] >= self._limit[1]:
                data = data[: len(data) - (self.passed[direction] - self._limit[1])]
                self._limit, last = None, True
                self.cuts += 1
        target.sendall(data)
        return not last
