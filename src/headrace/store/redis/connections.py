"""Connections to the server that has our jobs: opened, checked, kept for the next request, let go.

A connection is kept only when its last answer was read to the end. What is kept is trusted for a second; after that
it is looked at before it is used, as the server may have closed it.
"""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401  (else the first connect imports it, which a signal handler may interrupt)
import os
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from redis import exceptions as wire
from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.asyncio.connection import UnixDomainSocketConnection as AsyncUnixDomainSocketConnection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from headrace.store.redis.addresses import Address, Place
from headrace.store.redis.discovery import Finder, Search
from headrace.store.redis.operation import Reply
from headrace.store.redis.troubles import BROKEN, Replica, redirection

with suppress(PackageNotFoundError):
    version("redis")  # which imports a lot: else redis-py does so, as it asks at the first connect

SECONDS = 5.0
"""How long to wait for a connection or an answer. Scripts take milliseconds; the largest put, a part of a second."""
IDLE_CHECK = 1.0
"""For how many seconds a kept connection is trusted."""
KEPT = 16
"""How many are kept, per process and per event loop."""


def pack(*arguments: bytes) -> bytes:
    """A command as the server reads it."""
    return b"*%d\r\n%s" % (len(arguments), strings(arguments))


def strings(arguments: tuple[bytes, ...]) -> bytes:
    """The arguments of a command as the server reads them."""
    return b"".join([b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments])


class Opener:
    """Opens connections: knows the options, and finds the server."""

    def __init__(self, place: Place, key: str | None) -> None:
        """`key` is one of ours: on a cluster the node that has it is the server."""
        self.place = place
        self._greeting = (_ROLE,) if key is None or place.kind != "cluster" else (_ROLE, pack(b"EXISTS", key.encode()))
        self.finder = Finder(place, self._sentinel)
        self.known = False
        """Whether the server was ever reached. If not, the URL may be wrong, and waiting for it would help nobody."""
        common = {"protocol": 2, "socket_timeout": SECONDS, "socket_connect_timeout": SECONDS}
        if "path" not in place.options:
            common["socket_keepalive"] = True
        if place.tls and place.options.get("ssl_cert_reqs") != "none":
            common["ssl_check_hostname"] = True  # redis-py 5 does not unless it is told to
        self._class, self._async_class = _CLASSES["unix" if "path" in place.options else "tls" if place.tls else "tcp"]
        self._options: dict[str, Any] = {**common, "retry": Retry(NoBackoff(), 0), **place.options}
        self._async_options: dict[str, Any] = {**common, "retry": AsyncRetry(NoBackoff(), 0), **place.options}

    def open(self, asking: Address | None = None) -> Any:
        """A connection to the server that has our keys, or for once to a node that we were sent to."""
        if asking is not None:
            return self._open(asking, _ASKING)
        search = Search(self.finder)
        while True:
            address = search.next()
            try:
                connection = self._open(address, *self._greeting)
            except (*BROKEN, Replica, wire.ResponseError) as error:
                search.stumble(error)
            else:
                search.found(address)
                return connection

    def _open(self, address: Address | None, *greeting: bytes) -> Any:
        connection = self._class(**_at(address, self._options))
        try:
            connection.connect()
            connection.send_packed_command(greeting, check_health=False)
            for _ in greeting:
                with _unless_it_matters():
                    _check(connection.read_response())
        except BaseException as error:
            connection.disconnect()
            self._learn(error)
            raise
        self.known = True
        return connection

    async def aopen(self, asking: Address | None = None) -> Any:
        """The same on an event loop."""
        if asking is not None:
            return await self._aopen(asking, _ASKING)
        # Sentinels take their time.
        search = await asyncio.to_thread(Search, self.finder) if self.place.service else Search(self.finder)
        while True:
            address = search.next()
            try:
                connection = await self._aopen(address, *self._greeting)
            except (*BROKEN, Replica, wire.ResponseError) as error:
                search.stumble(error)
            else:
                search.found(address)
                return connection

    async def _aopen(self, address: Address | None, *greeting: bytes) -> Any:
        connection = self._async_class(**_at(address, self._async_options))
        try:
            await connection.connect()
            await connection.send_packed_command(greeting, check_health=False)
            for _ in greeting:
                with _unless_it_matters():
                    _check(await connection.read_response())
        except BaseException as error:
            await connection.disconnect(nowait=True)
            self._learn(error)
            raise
        self.known = True
        return connection

    def _learn(self, error: BaseException) -> None:
        """A server that answers that it is busy, or not ready yet, was reached."""
        self.known = self.known or isinstance(error, (wire.ResponseError, wire.BusyLoadingError))

    def _sentinel(self, address: Address) -> Any:
        """A connection to a Sentinel: the same way as to the server, with a login of its own."""
        about_servers = ("db", "username", "password", "client_name")
        options = {name: value for name, value in self._options.items() if name not in about_servers}
        return self._class(**_at(address, {**options, **self.place.sentinel_login}))


class _HangsUp:
    """Goes at once, as connections of threads do.

    A transport that is merely closed sends first what it still has, and through TLS waits for an answer to its
    farewell: a server that is slow would keep it, and a loop that ends would leave it behind.
    """

    _writer: asyncio.StreamWriter | None

    async def disconnect(self, *arguments: Any, **options: Any) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(*arguments, **options)  # type: ignore[misc]


class _AsyncTcp(_HangsUp, AsyncConnection): ...


class _AsyncTls(_HangsUp, AsyncSSLConnection): ...


class _AsyncUnix(_HangsUp, AsyncUnixDomainSocketConnection): ...


_CLASSES: dict[str, tuple[Any, Any]] = {
    "tcp": (Connection, _AsyncTcp),
    "tls": (SSLConnection, _AsyncTls),
    "unix": (UnixDomainSocketConnection, _AsyncUnix),
}
_ROLE, _ASKING = pack(b"ROLE"), pack(b"ASKING")


def _at(address: Address | None, options: dict[str, Any]) -> dict[str, Any]:
    return options if address is None else {**options, "host": address[0], "port": address[1]}


def _check(answer: Reply) -> None:
    """Refuse a server that follows another one: what it has may be old, and it takes no writes."""
    if isinstance(answer, list) and answer[0] != b"master":
        raise Replica


@contextmanager
def _unless_it_matters() -> Iterator[None]:
    """One who may not ask takes the server as it is, and so does one whose key is just now being moved away."""
    try:
        yield
    except wire.NoPermissionError:
        pass
    except wire.ResponseError as error:
        redirected = redirection(error)
        if redirected is None or redirected[0] != "ASK":
            raise


class Shelf:
    """The idle connections of a process."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._process = os.getpid()
        self._idle: list[tuple[float, Any]] = []

    def take(self) -> Any:
        if self._process != os.getpid():  # forked: the parent goes on using its connections
            self._process, self._idle = os.getpid(), []
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                since, connection = self._idle.pop()
                if time.monotonic() - since < IDLE_CHECK or not _has_news(connection):
                    return connection
                connection.disconnect()
        return self._opener.open()

    def give_back(self, connection: Any) -> None:
        if len(self._idle) < KEPT:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.disconnect()

    def clear(self) -> None:
        """Where one connection broke, the others did too."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop()[1].disconnect()


class LoopShelf:
    """The idle connections of an event loop, which are closed when it ends."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._idle: list[tuple[float, Any]] = []
        self._closed = False
        self._caretaker: AsyncGenerator[None] | None = None

    async def settle_in(self) -> None:
        """An asynchronous generator is told by its loop when that shuts down."""
        self._caretaker = self._take_care()
        await anext(self._caretaker)

    async def _take_care(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.clear()

    async def take(self) -> Any:
        while self._idle:
            since, connection = self._idle.pop()
            usable = False
            try:
                usable = time.monotonic() - since < IDLE_CHECK or not await _has_news_async(connection)
            finally:  # whoever looks may be cancelled
                if not usable:
                    await connection.disconnect(nowait=True)
            if usable:
                return connection
        return await self._opener.aopen()

    async def give_back(self, connection: Any) -> None:
        if len(self._idle) < KEPT and not self._closed:
            self._idle.append((time.monotonic(), connection))
        else:
            await connection.disconnect(nowait=True)

    async def clear(self) -> None:
        while self._idle:
            with suppress(Exception):
                await self._idle.pop()[1].disconnect(nowait=True)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """From any thread. What is in use now is closed when it comes back."""
        self._closed = True
        with suppress(RuntimeError):  # the loop has ended, and has closed them itself
            loop.call_soon_threadsafe(lambda: loop.create_task(self.clear()))


def _has_news(connection: Any) -> bool:
    """An idle connection on which something came: the other side has closed it, or has lost its mind."""
    try:
        return bool(connection.can_read(0))
    except BROKEN:
        return True


async def _has_news_async(connection: Any) -> bool:
    look = getattr(connection, "can_read", None) or connection.can_read_destructive  # its name before redis-py 8
    try:
        return bool(await look())
    except BROKEN:
        return True
