"""One client: its bytes become requests, its answers go out in order, and it never makes others wait."""

from __future__ import annotations

import asyncio
import select
import socket
from typing import TYPE_CHECKING

from headrace.dialects.bedrock.server.requests import Parser, Request

if TYPE_CHECKING:
    from headrace.dialects.bedrock.server.find import Query
    from headrace.dialects.bedrock.server.server import Server
    from headrace.dialects.bedrock.server.wait import Waiter

READ_AHEAD = 262_144
"""How much is read from a client that sends requests faster than they can be answered."""

_HANG_UP = getattr(select, "POLLRDHUP", 0)


def _notice_death(connection: socket.socket) -> None:
    """Clients whose machine or network is gone say nothing: after two minutes of silence to our questions they go."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Connection(asyncio.Protocol):
    """A client's connection. Requests on it are executed one after another."""

    __slots__ = (
        "_parser", "_paused", "_reading", "_server", "_transport", "_undelivered", "challenge", "closing", "ended",
        "held", "local", "lost", "query", "scheduled", "stopped", "trusted", "unread", "waiter",
    )  # fmt: skip

    _transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = Parser(server.options.limits)
        self.held = 0
        """Bytes that have arrived and are not executed yet, as of the last look."""
        self.unread = 0
        """Bytes of answers that are still here, as of the last look."""
        self._paused = False
        self._reading = True
        self._undelivered: list[int] = []
        """Jobs whose answers have not left this machine in full."""
        self.scheduled = False
        """In the server's list of connections with something to do."""
        self.waiter: Waiter | None = None
        self.query: Query | None = None
        self.ended = False
        """The client will send no more."""
        self.closing = False
        """It has had, or is about to have, its last answer."""
        self.lost = False
        self.local = False
        self.trusted = server.options.secret is None
        self.challenge = ""
        """What the client is to prove its knowledge of the secret with."""
        self.stopped = False
        """The server stops: nothing more is read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Any byte that the kernel does not take at once counts as not delivered, and stops further requests.
        # (With TLS a limit is reached, without it is passed.)
        transport.set_write_buffer_limits(high=0 if transport.can_write_eof() else 1, low=0)
        _notice_death(transport.get_extra_info("socket"))
        peer = transport.get_extra_info("peername")
        self.local = not isinstance(peer, tuple) or peer[0] in ("::1", "::ffff:127.0.0.1") or peer[0].startswith("127.")
        self._server.joined(self)

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        self._parser.feed(data)
        self._account()
        if self.busy:
            self._throttle()
        else:
            self._server.wake(self)

    def eof_received(self) -> bool:
        self.ended = True
        if self.closing:
            return False
        if self.waiter is not None:
            self._server.waits.withdraw(self.waiter)
            self.close()
        else:
            self._server.wake(self)
        return self._transport.can_write_eof()  # answers can still be written, but not where TLS has ended

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.count_unread()
        self._undelivered.clear()
        self._throttle()
        self._server.wake(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = self.closing = True
        self.forget()
        self.count_unread()
        if self.waiter is not None:
            self._server.waits.withdraw(self.waiter)
        if self.query is not None:
            self.query.abandon()
        if self._undelivered:
            self._server.put_back(self._undelivered)
            self._undelivered = []
        self._server.left(self)

    @property
    def busy(self) -> bool:
        """Whether the next request must wait for something: an answer, a query, or the client to read."""
        return self.waiter is not None or self.query is not None or self._paused or self.closing

    def next_request(self) -> Request | None:
        return self._parser.next()

    def forget(self) -> None:
        self._parser = Parser(self._server.options.limits)
        self._account()

    def send(self, data: bytes, ids: list[int]) -> None:
        """Write answers; `ids` are jobs that they hand out."""
        if not self.lost:
            self._transport.write(data)
            if self._paused:
                self.count_unread()
        if not ids:
            return
        if self._transport.is_closing():
            self._server.put_back(ids)
        elif self._paused:
            self._undelivered += ids

    def rest(self, *, more: bool) -> None:
        """After a batch: `more` if there may be complete requests left."""
        self._account()
        self._throttle(more=more)
        if self.ended and not more and not self.busy:
            self.close()

    def close(self) -> None:
        self.closing = True
        if not self.lost:
            self._transport.close()

    def stop_reading(self) -> None:
        self.stopped = True
        if not self.lost:
            self._transport.pause_reading()

    def leave(self) -> None:
        """Close; but a client that is still sending reads its answers first, and hangs up itself.

        Closing on unread bytes would make the kernel throw away answers on their way.
        """
        if self.closing or self.ended or not self._transport.can_write_eof() or not self._poll(select.POLLIN):
            self.close()
            return
        self.closing = True
        try:
            self._transport.write_eof()
        except OSError:  # it has hung up on us meanwhile
            self._transport.abort()
        else:
            self._transport.resume_reading()

    def abort(self) -> None:
        if not self.lost:
            self._transport.abort()

    def is_gone(self) -> bool:
        """Whether the client has hung up, even if asyncio has not noticed yet."""
        if self.lost or self.closing or self.ended:
            return True
        return bool(_HANG_UP) and self._poll(_HANG_UP)

    def _poll(self, event: int) -> bool:
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), event)
        return bool(poll.poll(0))

    def _account(self) -> None:
        size = self._parser.held + (0 if self.query is None else len(self.query.sql))
        more = size - self.held
        self.held = size
        self._server.account(more)

    def count_unread(self) -> None:
        size = 0 if self.lost else self._transport.get_write_buffer_size()
        self._server.unread += size - self.unread
        self.unread = size

    def _throttle(self, *, more: bool = False) -> None:
        """Stop reading from a client that is far ahead of its answers."""
        if self.stopped:
            return
        reading = self._parser.buffered <= READ_AHEAD or not (more or self.busy)
        if reading is not self._reading and not self._transport.is_closing() and not self.ended:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
