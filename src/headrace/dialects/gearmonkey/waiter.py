"""Ears: the Redis store's own, on the protocol's channels.

"Publish a created event to the channel. Insert the job ID into the queue.": a peer's event comes before its job. So
whoever hears of a new job and finds none looks again after a few milliseconds, and then less and less often.

A busy worker hears two events for each of its own jobs, and cares for neither. So what comes is not taken apart into
messages: it is searched for the few bytes that are news. And a worker that has had no room for a while stops listening
to the protocol's channels; when it has room again it subscribes, and takes the server's confirmation as news, since it
may have missed some.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any

from headrace.dialects.gearmonkey.protocol import SIDE, channel
from headrace.dialects.gearmonkey.records import decode_functions
from headrace.dialects.gearmonkey.requests import DEFAULT_QUEUE
from headrace.errors import JobNotFound
from headrace.store.redis.connections import pack
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Script
from headrace.store.redis.troubles import BROKEN
from headrace.store.redis.wakeup import RedisWaiter

LOOK_AGAIN = (0.002, 0.02, 0.2)
"""Seconds after an event at which to look for the job that it told of."""
LOOK_SECONDS = 1.0
"""An idle worker looks at least this often: "BRPOP … 1", and a job pushed by hand makes no event."""
CREATED = b"create:"
SUBSCRIBED = b"$9\r\nsubscribe\r\n"
ENOUGH = 16_384
"""Bytes heard without having room, after which a worker stops listening: some hundred events."""


class ChannelWaiter(RedisWaiter):
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
        self._loud: list[str] = []
        """The protocol's channels."""
        self._listening = True
        self._in_vain = 0

    def _topics(self) -> Sequence[str]:
        channels, self._marks = self._channels()
        self._loud = [name for name in channels if not name.startswith(SIDE)]
        self._tail = b""
        self._listening, self._in_vain = True, 0
        return channels

    def _steps(self, timeout: float | None) -> Generator[Script[tuple[bool, int]] | float | None, Any, bool]:
        if self._has_room() is not False:
            self._in_vain = 0
            if not self._listening and self._connection is not None:
                with suppress(*BROKEN):  # the course itself finds out
                    self._listen(again=True)
        return super()._steps(timeout)

    def _listen(self, *, again: bool) -> None:
        verb = b"SUBSCRIBE" if again else b"UNSUBSCRIBE"
        command = pack(verb, *(name.encode() for name in self._loud))
        self._connection.send_packed_command([command], check_health=False)
        self._listening = again

    def _is_news(self, said: bytes) -> bool:
        if self._has_room() is False:
            self._in_vain += len(said)
            if self._in_vain > ENOUGH and self._listening:
                self._listen(again=False)
        came = self._tail + said
        heard = any(mark in came for mark in self._marks)
        if CREATED in came:
            now = time.monotonic()
            self._look_at = [now + seconds for seconds in LOOK_AGAIN]
            self._taken_before = self._taken()
        # A mark may be cut in two by the end of what has come; a whole one must not be found twice.
        longest = max(map(len, self._marks), default=1) - 1
        cut = max(came.rfind(mark) + len(mark) for mark in self._marks) if heard else 0
        self._tail = came[max(cut, len(came) - longest) :]
        return heard

    def _ask_at(self) -> float | None:
        usual = super()._ask_at()
        if usual is None:
            return None
        if self._look_at and self._taken() != self._taken_before:
            self._look_at = []
        self._look_at = [moment for moment in self._look_at if moment > self._asked]
        return min([usual, self._asked + LOOK_SECONDS, *self._look_at])


def for_worker(
    driver: Driver, session: str, queues: Sequence[str], has_room: Callable[[], bool | None], taken: Callable[[], int]
) -> ChannelWaiter:
    """Hears of new jobs of the functions that a session accepts, of jobs put back, and of jobs of its own cancelled."""

    def channels() -> tuple[list[str], list[bytes]]:
        found = driver.command("HGET", f"{SIDE}{session}:session", "functions")
        accepted = decode_functions(found) if found else ()
        functions = dict.fromkeys((*accepted, *(queue for queue in queues if queue != DEFAULT_QUEUE)))
        ours = [f"{SIDE}{session}:told", *(f"{SIDE}{function}:wake" for function in functions)]
        return [*ours, *map(channel, functions)], [CREATED, SUBSCRIBED, SIDE.encode()]

    question: Script[tuple[bool, int]] = Script(
        "listen", (session.encode(),), lambda reply, _: (bool(reply[0]), int(reply[1]))
    )
    return ChannelWaiter(driver, channels, question, has_room, taken)


def for_job(driver: Driver, job_id: str) -> ChannelWaiter:
    """Hears of the end of one job."""

    def channels() -> tuple[list[str], list[bytes]]:
        found: Any = driver.command("GET", f"{SIDE}{job_id}:id") or job_id.encode()
        function, _, number = found.rpartition(b":")
        if not function:
            raise JobNotFound(job_id)
        return [channel(function.decode())], [b"finish:%s\r\n" % number]

    question: Script[tuple[bool, int]] = Script("watch", (job_id.encode(),), lambda reply, _: (bool(reply), -1))
    return ChannelWaiter(driver, channels, question, lambda: None)
