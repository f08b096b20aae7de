"""A small HTTP server for metrics and probes: one thread, and bounds on all that a client can make it do.

A request has a few kilobytes and a few seconds. One client that is slow, or says nothing, costs one connection; when
there are too many, the oldest goes. What takes time (a store that is asked) is done in a thread of its own, once for
all that ask at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from headrace.errors import ConfigurationError

log = logging.getLogger("headrace.metrics")

DEFAULT_HOST = "127.0.0.1"
REQUEST_BYTES = 8_192
REQUEST_SECONDS = 5.0
"""For the whole request to come in."""
ANSWER_SECONDS = 15.0
"""For an answer to be found, and then again for it to be read."""
CONNECTIONS = 32

T = TypeVar("T")


class Answer(NamedTuple):
    """What a client gets."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def said(status: int, words: str) -> Answer:
    """An answer in words."""
    return Answer(status, f"{words}\n".encode())


_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

Route = Callable[[str], Answer]
"""Finds the answer; is told which formats the client accepts. It may take its time: it has a thread of its own."""


class Shared(Generic[T]):
    """A result that takes time to get, kept for a while: `share` times as long as it took, and `seconds` at least.

    So however many ask, and however long it takes, no more than a part of the time is spent on it.
    """

    def __init__(self, get: Callable[[], T], seconds: float, share: float = 0.0) -> None:
        self._get, self._seconds, self._share = get, seconds, share
        self._lock = threading.Lock()
        self._until = 0.0
        self._result: T

    def __call__(self) -> T:
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._result = self._get()
                now = time.monotonic()
                self._until = now + max(self._seconds, self._share * (now - began))
            return self._result


def bind(address: str) -> socket.socket:
    """A socket that listens at HOST:PORT; a port alone means this machine only."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or DEFAULT_HOST
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ConfigurationError(f"{address!r} is not an address. Write HOST:PORT, as in {DEFAULT_HOST}:9464.")
    try:
        family, _, _, _, place = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family, backlog=CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"Nothing can listen at {address}: {error}. Choose another port, or 0 for any that is free."
        ) from error


class MetricsServer:
    """Serves some paths until it is closed. `where` is its address as a URL."""

    def __init__(self, listener: socket.socket, routes: Mapping[str, Route]) -> None:
        self._listener = listener
        self._routes = routes
        self._loop = asyncio.new_event_loop()
        self._open: dict[asyncio.StreamWriter, None] = {}
        """Connections, the oldest first."""
        self._busy: dict[tuple[str, str], asyncio.Future[Answer]] = {}
        """Answers that are being found: who asks meanwhile gets the same."""
        host, port = listener.getsockname()[:2]
        self.where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._thread = threading.Thread(target=self._serve, name="headrace-metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop serving. Connections that are open are cut."""
        with suppress(RuntimeError):  # it has stopped
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(2.0)
        self._listener.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._converse, sock=self._listener, limit=REQUEST_BYTES)
        )
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer."""
        if len(self._open) >= CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            answer, with_body = await self._hear(reader)
            writer.write(_encoded(answer, with_body))
            await asyncio.wait_for(writer.drain(), ANSWER_SECONDS)
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), ANSWER_SECONDS)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()  # it has gone, or does not read
        finally:
            self._open.pop(writer, None)

    async def _hear(self, reader: asyncio.StreamReader) -> tuple[Answer, bool]:
        """The answer to what comes in, and whether its body is wanted."""
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_SECONDS)
        except asyncio.LimitOverrunError:
            return said(431, "The request is too long."), True
        except TimeoutError:
            return said(408, "The request did not come in time."), True
        first, *lines = head.decode("latin-1").split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return said(400, "This is not a request that is understood here."), True
        method, target, _ = parts
        if method not in ("GET", "HEAD"):
            return said(405, "GET and HEAD are what there is."), True
        path = target.partition("?")[0]
        if path not in self._routes:
            return said(404, f"There are {', '.join(self._routes)}."), method == "GET"
        fields = (line.partition(":") for line in lines)
        accept = next((value.strip() for name, _, value in fields if name.strip().lower() == "accept"), "")
        return await self._find(path, accept), method == "GET"

    async def _find(self, path: str, accept: str) -> Answer:
        found = self._busy.get((path, accept))
        if found is None:
            if len(self._busy) >= CONNECTIONS:  # each has a thread
                return said(503, "Too many requests are being answered.")
            found = self._busy[path, accept] = self._loop.create_future()
            threading.Thread(
                target=self._work, args=(path, accept, found), name="headrace-metrics-answer", daemon=True
            ).start()
        try:
            return await asyncio.wait_for(asyncio.shield(found), ANSWER_SECONDS)
        except TimeoutError:
            return said(503, "No answer was found in time.")

    def _work(self, path: str, accept: str, found: asyncio.Future[Answer]) -> None:
        try:
            answer = self._routes[path](accept)
        except Exception:
            log.exception("%s could not be answered", path)
            answer = said(500, "No answer could be found: the log says why.")

        def tell() -> None:
            del self._busy[path, accept]
            found.set_result(answer)

        with suppress(RuntimeError):  # the server was closed meanwhile
            self._loop.call_soon_threadsafe(tell)


def _encoded(answer: Answer, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (answer.body if with_body else b"")
