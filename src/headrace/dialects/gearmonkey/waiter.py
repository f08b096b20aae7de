"""Ears: the Redis store's own, on the protocol's channels.

"Publish a created event to the channel. Insert the job ID into the queue.": a peer's event comes before its job. So
whoever hears of a new job and finds none looks again after a few milliseconds, and then less and less often.

A busy worker hears two events for each of its own jobs, and cares for neither. So what comes is not taken apart into
messages: it is searched for the few bytes that are news.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.dialects.gearmonkey.protocol import SIDE, channel
from headrace.dialects.gearmonkey.requests import DEFAULT_QUEUE
from headrace.errors import JobNotFound
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script
from headrace.store.redis.troubles import BROKEN
from headrace.store.redis.waiter import PING_SECONDS, Ear

LOOK_AGAIN = (0.002, 0.02, 0.2)
"""Seconds after an event at which to look for the job that it told of."""
LOOK_SECONDS = 1.0
"""An idle worker looks at least this often: "BRPOP … 1", and a job pushed by hand makes no event."""
CREATED = b"create:"


class ChannelEar(Ear):
    """Hears of messages that contain one of `marks`, on all of its channels.

    `channels` tells both when it subscribes. `taken` counts the batches of jobs that were found: whoever has found
    something since an event need not look again for what it told of.
    """

    def __init__(
        self,
        driver: Driver,
        channels: Callable[[], tuple[Sequence[str], Sequence[bytes]]],
        question: Script[tuple[bool, int]],
        has_room: Callable[[], bool | None],
        taken: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(driver, "", question, has_room)
        self._channels = channels
        self._marks: Sequence[bytes] = ()
        self._taken = taken
        self._taken_before = 0
        self._look_at: list[float] = []
        self._tail = b""
        self._early = False

    def _subscribe(self) -> None:
        channels, self._marks = self._channels()
        connection = self._driver.opener.open()
        try:
            names = [name.encode() for name in channels]
            connection.send_packed_command([pack(b"SUBSCRIBE", *names)], check_health=False)
            for _ in names:
                connection.read_response()
            while connection.can_read(0):  # came with the confirmations
                connection.read_response()
                self._early = True
            connection._sock.settimeout(0)  # redis-py has no other way to it
        except BaseException:
            connection.disconnect()
            raise
        self._connection = connection
        self._tail = b""
        self._tested = time.monotonic()
        self._unanswered = False

    def _heard(self) -> bool | None:
        now = time.monotonic()
        try:
            came = self._receive()
            if came:
                self._unanswered = False
                self._tested = now
            elif now >= self._tested + PING_SECONDS:
                if self._unanswered:
                    return None
                self._connection.send_packed_command([pack(b"PING")], check_health=False)
                self._unanswered = True
                self._tested = now
        except BROKEN:
            return None
        heard, self._early = self._early, False
        if came:
            came = self._tail + came
            heard = heard or any(mark in came for mark in self._marks)
            if CREATED in came:
                self._look_at = [now + seconds for seconds in LOOK_AGAIN]
                self._taken_before = self._taken()
            # A mark may be cut in two by the end of what has come; a whole one must not be found twice.
            longest = max(map(len, self._marks), default=1) - 1
            cut = max(came.rfind(mark) + len(mark) for mark in self._marks) if heard and self._marks else 0
            self._tail = came[max(cut, len(came) - longest) :]
        return heard

    def _receive(self) -> bytes:
        """All that has come, in the protocol's own bytes."""
        parts: list[bytes] = []
        while True:
            try:
                part = self._connection._sock.recv(65_536)
            except OSError as error:
                if _is_empty(error):
                    return b"".join(parts)
                raise
            if not part:
                raise ConnectionResetError("the server has closed the connection")
            parts.append(part)

    def _ask_at(self) -> float | None:
        usual = super()._ask_at()
        if usual is None:
            return None
        if self._look_at and self._taken() != self._taken_before:
            self._look_at = []
        self._look_at = [moment for moment in self._look_at if moment > self._asked]
        return min([usual, self._asked + LOOK_SECONDS, *self._look_at])


def _is_empty(error: OSError) -> bool:
    """Whether a socket has nothing for us now; one with TLS says so in its own way."""
    return isinstance(error, BlockingIOError) or type(error).__name__ == "SSLWantReadError"


def for_worker(
    driver: Driver,
    session: str,
    queues: Sequence[str],
    has_room: Callable[[], bool | None],
    taken: Callable[[], int],
) -> ChannelEar:
    """Hears of new jobs of the functions that a session accepts, of jobs put back, and of jobs of its own cancelled."""

    def channels() -> tuple[list[str], list[bytes]]:
        found = driver.command("HGET", f"{SIDE}{session}:session", "functions")
        accepted = msgspec.msgpack.decode(found, type=list[str]) if found else []
        functions = dict.fromkeys((*accepted, *(queue for queue in queues if queue != DEFAULT_QUEUE)))
        ours = [f"{SIDE}{session}:told", *(f"{SIDE}{function}:wake" for function in functions)]
        return [*ours, *map(channel, functions)], [CREATED, SIDE.encode()]

    question: Script[tuple[bool, int]] = Script(
        "listen", (session.encode(),), lambda reply, _: (bool(reply[0]), int(reply[1]))
    )
    return ChannelEar(driver, channels, question, has_room, taken)


def for_job(driver: Driver, job_id: str) -> ChannelEar:
    """Hears of the end of one job."""

    def channels() -> tuple[list[str], list[bytes]]:
        found: Any = driver.command("GET", f"{SIDE}{job_id}:id") or job_id.encode()
        function, _, number = found.rpartition(b":")
        if not function:
            raise JobNotFound(job_id)
        return [channel(function.decode())], [b"finish:%s\r\n" % number]

    question: Script[tuple[bool, int]] = Script("watch", (job_id.encode(),), lambda reply, _: (bool(reply), -1))
    return ChannelEar(driver, channels, question, lambda: None)
