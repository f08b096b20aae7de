"""Messages to systemd, for a service of `Type=notify`: datagrams to the socket that $NOTIFY_SOCKET names.

Without that variable nothing is sent. A message that can't be delivered holds up nothing: that the service is ready, or
stops, is sent again, the others are dropped.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

VARIABLES = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
"""These are for one process. Its children must not inherit them: their messages would count as its own."""


class Notifier:
    """Tells systemd how the service is, and beats for its watchdog at half of the time that this allows."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address  # @: a name without a file
        limit = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID") in (None, "", str(os.getpid()))
        microseconds = int(limit) if limit.isdecimal() and is_ours and address else 0
        self._period = microseconds / 2_000_000 or math.inf
        self.beat_at = math.inf if self._period == math.inf else 0.0
        """When the next beat is due, on the monotonic clock."""
        self._sent: set[str] = set()
        self._status = ""

    @property
    def listening(self) -> bool:
        """Whether there is a socket to send to."""
        return bool(self._address)

    def ready(self) -> None:
        self._send_once("READY=1")

    def stopping(self) -> None:
        self._send_once("STOPPING=1")

    def status(self, words: str) -> None:
        """A line for `systemctl status`, sent when it changes."""
        if words != self._status:
            self._status = words
            self._send(f"STATUS={words}")

    def beat(self) -> None:
        """Called from the loop whose end the watchdog is to notice."""
        now = time.monotonic()
        if now >= self.beat_at:
            self.beat_at = now + self._period
            self._send("WATCHDOG=1")

    def _send_once(self, message: str) -> None:
        if message not in self._sent and self._send(message):
            self._sent.add(message)

    def _send(self, message: str) -> bool:
        """Whether it was delivered."""
        if self._address:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(message.encode(), self._address)
                return True
        return False
