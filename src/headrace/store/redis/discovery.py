"""Which server to talk to: the one that a URL names, the primary that Sentinels name, or a node of a cluster."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from redis import exceptions as wire

from headrace.store.redis.addresses import Address, Place, spoken
from headrace.store.redis.troubles import BROKEN, Replica, answer_of, redirection

_DOWN = {"s_down", "o_down"}


class Finder:
    """Finds the server. On a cluster all our keys are in one slot: whoever owns it is the server.

    `connect` opens a connection to a Sentinel.
    """

    def __init__(self, place: Place, connect: Callable[[Address], Any]) -> None:
        self.place = place
        self.owner: Address | None = None
        """The node of a cluster that has our slot, as far as we were told. None: anyone may know."""
        self._connect = connect

    def candidates(self) -> list[Address | None]:
        """Whom to try, in this order; None where the URL says it all. Asks the Sentinels, which takes time."""
        if self.place.kind == "single":
            return [None]
        if self.place.kind == "sentinel":
            return [self._ask_sentinels()]
        nodes = random.sample(self.place.addresses, len(self.place.addresses))
        return [*([] if self.owner is None else [self.owner]), *(node for node in nodes if node != self.owner)]

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


class Search:
    """For one connection: everybody is tried once, and one that a node sends us to is next."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._left = finder.candidates()
        self._tried: list[Address | None] = []
        self._errors: list[Exception] = []

    def next(self) -> Address | None:
        address = self._left.pop(0)
        self._tried.append(address)
        return address

    def stumble(self, error: Exception) -> None:
        """This one was not it. Raises if there is nobody else."""
        redirected = redirection(error)
        if redirected is None and not isinstance(error, (*BROKEN, Replica)):
            raise error
        self._errors.append(error)
        if redirected is not None:
            _, owner = redirected
            self._finder.owner = owner
            self._left = [address for address in self._left if address != owner]
            if owner not in self._tried:
                self._left.insert(0, owner)
        if not self._left:  # that one did not answer says more than that others have not got our keys
            raise min(self._errors, key=lambda error: (not isinstance(error, BROKEN), isinstance(error, Replica)))

    def found(self, address: Address | None) -> None:
        if self._finder.place.kind == "cluster" and address is not None:
            self._finder.owner = address


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
