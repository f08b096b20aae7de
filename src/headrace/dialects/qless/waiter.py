"""Waits for news of a Qless installation: its log, and the channel of a worker. We publish nothing ourselves.

The log tells of every put and of every job that goes on to another queue; it says nothing of a retry without delay, of
`unfail`, or of jobs whose last dependency has completed. So a sleeper takes a completion as a hint, now and then, and
looks again every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.dialects.subscription import messages, split_replies
from headrace.store.redis.wakeup import RedisWaiter
from headrace.values.glob import any_fits

from .driver import QlessDriver

LOOK_AGAIN = 2.0
"""Seconds after which a sleeper looks for what nobody tells."""
HINT_PAUSE = 0.05
"""Seconds between two hints that may mean nothing."""

Message = dict[str, Any]
_decode = msgspec.json.Decoder(Message).decode


class QlessWaiter(RedisWaiter):
    """A waiter. `judge` says of a message on a channel whether it is news (2), may be (1), or not (0)."""

    def __init__(self, driver: QlessDriver, channels: Sequence[str], judge: Callable[[str, Message], int]) -> None:
        super().__init__(driver, "", None, lambda: True)
        self._channels = channels
        self._judge = judge
        self._hinted = 0.0
        self._tail = b""

    def arm(self) -> None:
        self._asked = time.monotonic()  # arming comes before a look
        super().arm()

    def _ask_seconds(self) -> float:
        return LOOK_AGAIN

    def _topics(self) -> Sequence[str]:
        self._tail = b""
        return self._channels

    def _is_news(self, received: bytes) -> bool:
        replies, self._tail = split_replies(self._tail + received)
        found = [message for reply in replies for message in messages(reply)]
        return sum(self._is_for_us(*message) for message in found) > 0  # all of them are judged

    def _is_for_us(self, channel: str, text: str) -> bool:
        try:
            message = _decode(text.encode(errors="replace"))
            weight = self._judge(channel, message)
        except (msgspec.DecodeError, RecursionError):  # anybody may say anything there
            return False
        if weight == 1 and time.monotonic() < self._hinted + HINT_PAUSE:
            return False
        if weight == 1:
            self._hinted = time.monotonic()
        return weight > 0


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

    return QlessWaiter(driver, ["ql:log", f"ql:w:{worker}"], judge)


def for_job(driver: QlessDriver, jid: str) -> QlessWaiter:
    """Hears of the end of one job. (One that runs out of retries by `retry` ends in silence: a look finds it.)"""

    def judge(_: str, message: Message) -> int:
        return 2 if message.get("jid") == jid and message.get("event") in ("completed", "failed", "canceled") else 0

    return QlessWaiter(driver, ["ql:log"], judge)
