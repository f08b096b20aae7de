"""Ears: the Redis store's own, on the protocol's channels.

"Publish a created event to the channel. Insert the job ID into the queue.": a peer's event comes before its job. So
whoever hears of a new job and finds none looks again after a few milliseconds, and then less and less often.
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


class ChannelEar(Ear):
    """Hears messages that `is_news` says are news, on all of its channels."""

    def __init__(
        self,
        driver: Driver,
        channels: Callable[[], Sequence[str]],
        is_news: Callable[[bytes, bytes], bool],
        question: Script[tuple[bool, int]],
        has_room: Callable[[], bool | None],
    ) -> None:
        super().__init__(driver, "", question, has_room)
        self._channels = channels
        self._is_news = is_news
        self._look_at: list[float] = []

    def _subscribe(self) -> None:
        names = [name.encode() for name in self._channels()]
        connection = self._driver.opener.open()
        try:
            connection.send_packed_command([pack(b"SUBSCRIBE", *names)], check_health=False)
            for _ in names:
                connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        self._connection = connection
        self._tested = time.monotonic()
        self._unanswered = False

    def _heard(self) -> bool | None:
        heard = False
        now = time.monotonic()
        try:
            while self._connection.can_read(0):
                answer = self._connection.read_response()
                self._unanswered = False
                self._tested = now
                if answer[0] == b"message" and self._is_news(answer[1], answer[2]):
                    heard = True
                    if answer[2].startswith(b"create:"):
                        self._look_at = [now + seconds for seconds in LOOK_AGAIN]
            if now >= self._tested + PING_SECONDS:
                if self._unanswered:
                    return None
                self._connection.send_packed_command([pack(b"PING")], check_health=False)
                self._unanswered = True
                self._tested = now
        except BROKEN:
            return None
        return heard

    def _ask_at(self) -> float | None:
        usual = super()._ask_at()
        if usual is None:
            return None
        self._look_at = [moment for moment in self._look_at if moment > self._asked]
        return min([usual, self._asked + LOOK_SECONDS, *self._look_at])


def for_worker(driver: Driver, session: str, queues: Sequence[str], has_room: Callable[[], bool | None]) -> ChannelEar:
    """Hears of new jobs of the functions that a session accepts, of jobs put back, and of jobs of its own cancelled."""

    def channels() -> list[str]:
        found = driver.command("HGET", f"{SIDE}{session}:session", "functions")
        accepted = msgspec.msgpack.decode(found, type=list[str]) if found else []
        functions = dict.fromkeys((*accepted, *(queue for queue in queues if queue != DEFAULT_QUEUE)))
        ours = [f"{SIDE}{session}:told", *(f"{SIDE}{function}:wake" for function in functions)]
        return [*ours, *map(channel, functions)]

    def is_news(name: bytes, message: bytes) -> bool:
        return message.startswith(b"create:") or name.startswith(SIDE.encode())

    question: Script[tuple[bool, int]] = Script(
        "listen", (session.encode(),), lambda reply, _: (bool(reply[0]), int(reply[1]))
    )
    return ChannelEar(driver, channels, is_news, question, has_room)


def for_job(driver: Driver, job_id: str) -> ChannelEar:
    """Hears of the end of one job."""
    place: list[bytes] = []

    def channels() -> list[str]:
        found: Any = driver.command("GET", f"{SIDE}{job_id}:id") or job_id.encode()
        function, _, number = found.rpartition(b":")
        if not function:
            raise JobNotFound(job_id)
        place[:] = [b"finish:" + number]
        return [channel(function.decode())]

    question: Script[tuple[bool, int]] = Script("watch", (job_id.encode(),), lambda reply, _: (bool(reply), -1))
    return ChannelEar(driver, channels, lambda _, message: message in place, question, lambda: None)
