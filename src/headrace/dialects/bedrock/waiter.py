"""Waiting for jobs: in Bedrock, waiting and taking are one.

While its worker has room, the waiter keeps one GetJobs with `Connection: wait` open. Jobs that come with the answer are
laid aside for the worker's next request. When the worker has no room left the waiter withdraws the request: it ends its
side of the connection and reads until the server has hung up, so that a job handed out at that very moment arrives too.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from headrace.dialects.base import BlockingWaiter
from headrace.dialects.bedrock.client.client import Client, NotSent
from headrace.dialects.bedrock.client.replies import BedrockError, ReplyReader, WaitTimeout
from headrace.dialects.bedrock.exchange import get_found
from headrace.dialects.bedrock.sessions import Session
from headrace.store.wakeup import readable

HOLD = 60_000
"""Milliseconds that one request waits."""
PAUSE = 1.0
"""Seconds between two looks where a server does not wait, or does not answer."""


class GetJobsWaiter(BlockingWaiter):
    """Blocks a worker until its open GetJobs is answered."""

    def __init__(self, client: Client, session: Session) -> None:
        super().__init__()
        self._client = client
        self._session = session
        self._socket: socket.socket | None = None
        self._reader = ReplyReader()
        self._asked = 0
        self._rest_until = 0.0

    def wait(self, timeout: float | None) -> bool:
        if self._session.arrived:
            return True
        if self._socket is not None and self._asked > self._session.room:
            self._withdraw()
            if self._session.arrived:
                return True
        pause = None
        asks = timeout != 0 and self._session.room and self._socket is None
        if asks and (time.monotonic() < self._rest_until or not self._ask()):
            pause = PAUSE if timeout is None else min(timeout, PAUSE)
        listening = [self._pokes.reader]
        if self._socket is not None:
            listening.append(self._socket.fileno())
        stirred = readable(listening, timeout if pause is None else pause)
        poked = self._pokes.taken()
        if self._socket is not None and self._socket.fileno() in stirred:
            return self._read()
        return not poked and pause is not None and self._session.room > 0

    def close(self) -> None:
        if self._socket is not None:
            self._withdraw()
        super().close()

    def _ask(self) -> bool:
        """Send a request that waits; False if that cannot be done now."""
        names = self._session.names
        if len(names) != 1:  # no tasks, or more of them than fit into one request
            return False
        try:
            self._host = self._client.hosts.in_order()[0]
            self._socket = self._client.connect(self._host)
            self._asked = self._session.room
            self._socket.settimeout(PAUSE)
            self._call = get_found(names[0], self._asked, wait=HOLD)
            self._socket.sendall(self._call.data)
        except (NotSent, OSError):
            self._drop()
            return False
        self._reader = ReplyReader()
        return True

    def _read(self) -> bool:
        """Read some of the answer; True if there is something to do."""
        assert self._socket is not None
        try:
            reply = self._reader.feed(self._socket.recv(65536))
        except OSError:
            self._drop()
            return True
        if reply is None:
            return False
        self._client.give_back(self._host, self._socket)
        self._socket = None
        try:
            self._session.lay_aside(self._call.read(reply))
        except WaitTimeout:
            return False
        except BedrockError:
            self._rest_until = time.monotonic() + PAUSE  # a server that does not wait says 404 at once
            return False
        return True

    def _withdraw(self) -> None:
        """Take the request back, and keep the jobs that were handed out meanwhile."""
        assert self._socket is not None
        with suppress(OSError, BedrockError):
            self._socket.settimeout(PAUSE)
            socket.socket.shutdown(self._socket, socket.SHUT_WR)  # (TLS' own would end reading, too)
            reply = None
            while reply is None:
                reply = self._reader.feed(self._socket.recv(65536))
            self._session.lay_aside(self._call.read(reply))
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class PollingWaiter(BlockingWaiter):
    """Blocks for half a second at a time: Bedrock announces nothing about a job."""

    PAUSE = 0.5

    def arm(self) -> None:
        self._pokes.taken()

    def wait(self, timeout: float | None) -> bool:
        pause = self.PAUSE if timeout is None else min(timeout, self.PAUSE)
        return not readable([self._pokes.reader], pause) and (timeout is None or timeout > self.PAUSE)
