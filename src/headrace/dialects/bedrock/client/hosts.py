"""Which server to ask, and what to do when it does not answer: one conversation for both kinds of client."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import TypeVar

from headrace.dialects.bedrock.client.commands import Call
from headrace.dialects.bedrock.client.replies import Reply
from headrace.dialects.bedrock.wire import Host, read_host
from headrace.errors import MaybeApplied, StoreUnavailable

T = TypeVar("T")

SHUN_SECONDS = 1.0
"""A server that has failed is asked after the others for so long."""


class NotSent(Exception):
    """No server was reached: nothing has been asked."""


class NoAnswer(Exception):
    """Something was sent, and no answer came: it may or may not have been done."""


class Hosts:
    """The servers in the order in which to ask them."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._hosts = [read_host(address) for address in addresses]
        self._shunned: dict[Host, float] = {}

    def in_order(self) -> list[Host]:
        """Healthy ones first. A lone one is asked twice: its connection may be what was broken."""
        now = time.monotonic()
        order = sorted(self._hosts, key=lambda host: self._shunned.get(host, 0.0) > now)
        return order if len(order) > 1 else order * 2

    def converse(self, call: Call[T]) -> Generator[Host, Reply, Reply]:
        """Names the server to ask; is sent its reply, or thrown what went wrong; returns the reply that counts."""
        problem: Exception | None = None
        refusal: Reply | None = None
        for host in self.in_order():
            try:
                reply = yield host
            except (NotSent, NoAnswer) as error:
                problem = error
                self._shunned[host] = time.monotonic() + SHUN_SECONDS
                if call.idempotent or isinstance(error, NotSent):
                    continue
                raise MaybeApplied(
                    f"The connection to {host.name}:{host.port} broke before the answer to {call.verb} came: "
                    "it may or may not have been done."
                ) from error
            if not reply.not_processed:
                return reply
            refusal = reply
        if refusal is not None:
            return refusal
        where = ", ".join(f"{host.name}:{host.port}" for host in self._hosts)
        raise StoreUnavailable(f"No Bedrock server answers at {where}: {problem}.") from problem
