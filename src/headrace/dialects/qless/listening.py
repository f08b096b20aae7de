"""Hearing what is published: a subscription that survives lost connections and can be ended from any thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from headrace.errors import HeadraceError
from headrace.store.redis.connections import pack
from headrace.store.redis.troubles import BROKEN
from headrace.store.wakeup import Pokes, readable

from .driver import QlessDriver

RECONNECT_SECONDS = 0.5
PING_SECONDS = 15.0


class Listener:
    """A subscription to channels. One thread listens; any thread may `close`."""

    def __init__(self, driver: QlessDriver, channels: Sequence[str]) -> None:
        self._driver = driver
        self._channels = channels
        self._connection: Any = None
        self._pokes = Pokes()
        self._closed = False
        self._tested = 0.0

    def subscribe(self) -> None:
        """Begin to hear. What is published from now on will be told by `messages`."""
        try:
            connection = self._driver.opener.open()
            try:
                names = [channel.encode() for channel in self._channels]
                connection.send_packed_command([pack(b"SUBSCRIBE", *names)], check_health=False)
                for _ in names:
                    connection.read_response()
            except BaseException:
                connection.disconnect()
                raise
        except Exception as error:
            raise self._driver.diagnose(error).error from error
        self._connection = connection
        self._tested = time.monotonic()

    def messages(self) -> Iterator[tuple[str, str]]:
        """Channel and text of each message that was published before `close`."""
        try:
            while not self._closed:
                if self._connection is None:
                    with suppress(HeadraceError):
                        self.subscribe()
                    if self._connection is None:
                        readable([self._pokes.reader], RECONNECT_SECONDS)
                        continue
                try:
                    yield from self._arrived()
                except BROKEN:
                    self.hang_up()
                    continue
                if not self._closed:
                    readable([self._pokes.reader, *self.descriptors], PING_SECONDS)
            with suppress(*BROKEN):
                yield from self._last()
        finally:
            self.hang_up()

    def _arrived(self) -> Iterator[tuple[str, str]]:
        while not self._closed and self._connection.can_read(0):
            answer = self._connection.read_response()
            self._tested = time.monotonic()
            if answer[0] == b"message":
                yield _read(answer)
        if time.monotonic() >= self._tested + PING_SECONDS:
            # A connection that died silently shows when it is used.
            self._tested = time.monotonic()
            self._connection.send_packed_command([pack(b"PING")], check_health=False)

    def _last(self) -> Iterator[tuple[str, str]]:
        """What is on its way at the end: the server answers a PING after all that was published before it."""
        if self._connection is None:
            return
        self._connection.send_packed_command([pack(b"PING", b"end")], check_health=False)
        while (answer := self._connection.read_response()) != [b"pong", b"end"]:
            if answer[0] == b"message":
                yield _read(answer)

    # -- without a thread --

    @property
    def descriptors(self) -> list[int]:
        """What to wait for, for somebody who waits for other things, too."""
        return [] if self._connection is None else [self._connection._sock.fileno()]

    def waiting(self) -> list[str]:
        """The texts of messages that have arrived. Never blocks for long; reconnects if need be."""
        try:
            if self._connection is None:
                self.subscribe()
            return [text for _, text in self._arrived()]
        except (*BROKEN, HeadraceError):
            self.hang_up()
            return []

    # -- the end --

    def close(self) -> None:
        """Stop listening, from any thread."""
        self._closed = True
        self._pokes.poke()

    def hang_up(self) -> None:
        """Let go of the connection, in the listening thread."""
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None


def _read(message: list[bytes]) -> tuple[str, str]:
    """Channel and text of a message."""
    return message[1].decode(), message[2].decode(errors="surrogateescape")
