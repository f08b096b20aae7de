"""Which server to talk to: the one that a URL names, the primary that Sentinels name, or a node of a cluster."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from redis import exceptions as wire

from headrace.store.redis.addresses import Address, Place, spoken
from headrace.store.redis.troubles import BROKEN, answer_of

_DOWN = {"s_down", "o_down"}


class Finder:
    """Finds the server. On a cluster all our keys are in one slot: whoever owns it is the server.

    `connect` opens a connection to a Sentinel.
    """

    def __init__(self, place: Place, connect: Callable[[Address], Any]) -> None:
        self.place = place
        self.owner: Address | None = None
        """The node of a cluster that has our slot, as far as we were told."""
        self._connect = connect

    def candidates(self) -> list[Address | None]:
        """Whom to try, in this order; None where the URL says it all. Asks the Sentinels, which takes time."""
        if self.place.kind == "single":
            return [None]
        if self.place.kind == "sentinel":
            return [self._ask_sentinels()]
        nodes = random.sample(self.place.addresses, len(self.place.addresses))
        return [*([] if self.owner is None else [self.owner]), *(node for node in nodes if node != self.owner)]

    def moved(self, address: Address) -> None:
        """A node of the cluster says who owns our slot."""
        self.owner = address

    def lost(self) -> None:
        """The owner does not answer: ask anyone."""
        self.owner = None

    def _ask_sentinels(self) -> Address:
        """The first that knows a primary is believed."""
        complaints = []
        for sentinel in self.place.addresses:
            try:
                return self._ask_sentinel(sentinel)
            except (*BROKEN, wire.ResponseError) as error:
                complaints.append(f"{spoken(sentinel)}: {_complaint(error)}")
        raise wire.ConnectionError("; ".join(complaints))

    def _ask_sentinel(self, sentinel: Address) -> Address:
        connection = self._connect(sentinel)
        try:
            connection.connect()
            connection.send_command("SENTINEL", "MASTER", self.place.service)
            answer = connection.read_response()
        finally:
            connection.disconnect()
        told = dict(zip(answer[::2], answer[1::2], strict=True))
        if _DOWN & set(told[b"flags"].decode().split(",")):
            raise wire.ConnectionError("the primary is down")
        return told[b"ip"].decode(), int(told[b"port"])


def _complaint(error: Exception) -> str:
    """What a Sentinel is not content with, in words."""
    text = answer_of(error)
    if isinstance(error, wire.AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return f"this Sentinel wants another password (?sentinel_password=...): {text}"
    if text.startswith(("IDONTKNOW", "No such master")):
        return "knows no such service"
    if "unknown command" in text:
        return "is no Sentinel"
    return text or type(error).__name__
