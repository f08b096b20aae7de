"""What is published on channels of a Redis server, message by message."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.troubles import BROKEN
from headrace.store.redis.wakeup import PING_SECONDS

Message = tuple[str, str]
"""Channel and text. Bytes that are not UTF-8 survive as surrogates."""


class Subscription:
    """A subscription to some channels. What is published while its connection is broken is lost."""

    def __init__(self, driver: Driver, channels: Sequence[str]) -> None:
        self._driver = driver
        self._channels = [channel.encode() for channel in channels]
        self._connection: Any = None
        self._tested = 0.0

    @property
    def descriptors(self) -> list[int]:
        """What to wait for; nothing without a connection."""
        return [] if self._connection is None else [self._connection._sock.fileno()]  # redis-py has no other way to it

    def subscribe(self) -> None:
        """Connect, once. Raises what is wrong, in words. What is published from now on arrives."""
        try:
            connection = self._driver.opener.open()
            try:
                connection.send_packed_command([pack(b"SUBSCRIBE", *self._channels)], check_health=False)
                for _ in self._channels:
                    connection.read_response()
            except BaseException:
                connection.disconnect()
                raise
        except Exception as error:
            raise self._driver.diagnose(error).error from error
        self._connection = connection
        self._tested = time.monotonic()

    def arrived(self) -> list[Message]:
        """The messages that have come, without waiting for more. One of `BROKEN` if the connection is."""
        found: list[Message] = []
        try:
            while self._connection.can_read(0):
                found += messages(self._connection.read_response())
                self._tested = time.monotonic()
        except BROKEN:
            if not found:  # else the next call raises it
                raise
        if time.monotonic() >= self._tested + PING_SECONDS:
            # A connection that died silently shows when it is used.
            self._tested = time.monotonic()
            self._connection.send_packed_command([pack(b"PING")], check_health=False)
        return found

    def last(self) -> list[Message]:
        """What is still on its way: the server answers a PING after all that was published before it."""
        if self._connection is None:
            return []
        found: list[Message] = []
        self._connection.send_packed_command([pack(b"PING", b"end")], check_health=False)
        while (reply := self._connection.read_response()) != [b"pong", b"end"]:
            found += messages(reply)
        return found

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None


def messages(reply: Sequence[bytes]) -> list[Message]:
    """The message that a reply is; none if it confirms something."""
    if reply[0] != b"message":
        return []
    return [(reply[1].decode(), reply[2].decode(errors="surrogateescape"))]


_ARRAY = re.compile(rb"\*(\d+)\r\n")
_STRING = re.compile(rb"\$(\d+)\r\n")


def split_replies(came: bytes) -> tuple[list[list[bytes]], bytes]:
    r"""The whole replies in the bytes that have come, as a subscriber gets them, and the rest.

    >>> split_replies(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n*3\r\n$7\r\nmess")
    ([[b'pong', b'']], b'*3\r\n$7\r\nmess')
    """
    replies: list[list[bytes]] = []
    start = 0
    while (head := _ARRAY.match(came, start)) is not None:
        parts: list[bytes] = []
        at = head.end()
        while len(parts) < int(head[1]):
            size = _STRING.match(came, at)
            if size is None or len(came) < (end := size.end() + int(size[1])) + 2:
                return replies, came[start:]
            parts.append(came[size.end() : end])
            at = end + 2
        replies.append(parts)
        start = at
    return replies, came[start:]
