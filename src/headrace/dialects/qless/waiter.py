"""Ears on a Qless installation: its log, and the channel of a worker. Nothing of ours has to be published.

The log tells of every put and of every job that goes on to another queue; it says nothing of a retry without delay, of
`unfail`, or of jobs whose last dependency has completed. So a sleeper takes a completion as a hint, now and then, and
looks again every few seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.store.redis.connections import pack
from headrace.store.redis.troubles import BROKEN, Replica
from headrace.store.wakeup import Pokes, readable
from headrace.values.glob import any_fits

from .driver import QlessDriver

LOOK_AGAIN = 2.0
"""Seconds after which a sleeper looks for what nobody tells."""
HINT_PAUSE = 0.05
"""Seconds between two hints that may mean nothing."""

Message = dict[str, Any]


class QlessWaiter:
    """A waiter. `judge` says of a message on a channel whether it is news (2), may be (1), or not (0)."""

    def __init__(
        self, driver: QlessDriver, channels: Sequence[str], judge: Callable[[str, Message], int], *, looks: bool
    ) -> None:
        self._driver = driver
        self._channels = [channel.encode() for channel in channels]
        self._judge = judge
        self._looks = looks
        self._connection: Any = None
        self._pokes = Pokes()
        self._hinted = 0.0

    def arm(self) -> None:
        if self._connection is None:
            with suppress(*BROKEN, Replica, HeadraceError):
                self._subscribe()

    def wait(self, timeout: float | None) -> bool:
        now = time.monotonic()
        deadline = None if timeout is None else now + timeout
        look_at = now + LOOK_AGAIN if self._looks else None
        while True:
            poked = self._pokes.taken()
            was_connected = self._connection is not None
            if not was_connected:
                self.arm()
            news = self._heard()
            if news or (was_connected and self._connection is None):
                return True
            if poked:
                return False
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return False
            if look_at is not None and now >= look_at:
                return True
            ends = [
                moment for moment in (deadline, look_at, None if self._connection else now + 0.5) if moment is not None
            ]
            watched = [self._pokes.reader]
            if self._connection is not None:
                watched.append(self._connection._sock.fileno())
            readable(watched, max(0.0, min(ends, default=now + 15.0) - now))

    async def wait_async(self, timeout: float | None) -> bool:
        try:
            return await asyncio.to_thread(self.wait, timeout)
        except asyncio.CancelledError:
            self.poke()
            raise

    def poke(self) -> None:
        self._pokes.poke()

    def close(self) -> None:
        self._hang_up()
        self._pokes.close()

    def _subscribe(self) -> None:
        connection = self._driver.opener.open()
        try:
            connection.send_packed_command([pack(b"SUBSCRIBE", *self._channels)], check_health=False)
            for _ in self._channels:
                connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        self._connection = connection

    def _heard(self) -> bool:
        news = False
        try:
            while self._connection is not None and self._connection.can_read(0):
                answer = self._connection.read_response()
                if answer[0] == b"message":
                    news = self._is_news(answer[1].decode(), answer[2]) or news
        except BROKEN:
            self._hang_up()
        return news

    def _is_news(self, channel: str, text: bytes) -> bool:
        try:
            weight = self._judge(channel, msgspec.json.decode(text.decode(errors="replace"), type=dict))
        except (msgspec.DecodeError, RecursionError):  # anybody may say anything there
            return False
        if weight == 1 and time.monotonic() < self._hinted + HINT_PAUSE:
            return False
        if weight == 1:
            self._hinted = time.monotonic()
        return weight > 0

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None


def for_worker(driver: QlessDriver, worker: str, queues: Sequence[str]) -> QlessWaiter:
    """Hears of work in these queues, and of jobs that this worker has lost."""

    def judge(channel: str, message: Message) -> int:
        if channel != "ql:log":
            return 2  # lock_lost, canceled, put: a job of ours may be gone
        match message.get("event"):
            case "put":
                return 2 if any_fits(queues, str(message.get("queue"))) else 0
            case "advanced":
                return 2 if any_fits(queues, str(message.get("to"))) else 0
            case "completed" | "failed" | "canceled":
                return 1
        return 0

    return QlessWaiter(driver, ["ql:log", f"ql:w:{worker}"], judge, looks=True)


def for_job(driver: QlessDriver, jid: str) -> QlessWaiter:
    """Hears of the end of one job. (One that runs out of retries by `retry` ends in silence: a look finds it.)"""

    def judge(_: str, message: Message) -> int:
        return 2 if message.get("jid") == jid and message.get("event") in ("completed", "failed", "canceled") else 0

    return QlessWaiter(driver, ["ql:log"], judge, looks=True)
