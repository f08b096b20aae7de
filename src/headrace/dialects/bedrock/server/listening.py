"""Listens for clients. asyncio's own way floods the log when there are no file descriptors left."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable

log = logging.getLogger("headrace.bedrock")

BACKLOG = 4096
ACCEPTED_AT_ONCE = 8
"""Few, so that clients for whom there is no room have gone before others come."""
REST = 1.0
"""Seconds before the next try when the system has nothing left for another client."""
TOLD_EVERY = 60.0


class Listener:
    """The sockets on which clients come, each of which gets a protocol of its own."""

    def __init__(self, make: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None) -> None:
        self._make = make
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._greetings: set[asyncio.Task[None]] = set()
        self._told = -TOLD_EVERY

    async def start(self, host: str | None, port: int) -> int:
        """Listen; returns the port."""
        self._loop = asyncio.get_running_loop()
        bound = await self._loop.create_server(self._make, host, port, start_serving=False)
        try:
            self._sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in bound.sockets]
        finally:
            bound.close()
        for each in self._sockets:
            each.setblocking(False)
            each.listen(BACKLOG)
            self._loop.add_reader(each, self._accept, each)
        chosen: int = self._sockets[0].getsockname()[1]
        return chosen

    def close(self) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for greeting in self._greetings:
            greeting.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(listening, error)
                return
            client.setblocking(False)
            greeting = self._loop.create_task(self._greet(client))
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    async def _greet(self, client: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, client, ssl=self._tls)
        except (OSError, ssl.SSLError, asyncio.CancelledError):  # it speaks no TLS, or has gone
            client.close()

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Accept nobody for a moment: the socket stays readable all the while."""
        if time.monotonic() - self._told >= TOLD_EVERY:
            self._told = time.monotonic()
            log.error(
                "clients can't be accepted: %s. Raise the limit (ulimit -n), or lower --max-connections.",
                error.strerror or error,
            )
        self._loop.remove_reader(listening)
        self._loop.call_later(REST, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)
