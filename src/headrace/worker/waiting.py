"""Waiting for work with nothing in hand, where the store can wait and take in one: the waiting thread runs what came.

There is no hand-over between news and run. The pump rests until that thread is back.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.records import ExchangeReply, Take
from headrace.store.contract import TakingWaiter
from headrace.worker.leases import Leases
from headrace.worker.session import Session


def wait_and_take(
    waiter: TakingWaiter, session: Session, leases: Leases, take: Take, meanwhile: Callable[[], float | None]
) -> ExchangeReply | None:
    """Have the store hand out work in the moment that there is some. None: the pump was closed meanwhile."""
    request = session.exchange((), take)
    sent: int | None = session.asked
    reply = waiter.wait_and_run(request, meanwhile)
    leases.asleep = False
    if leases.closed:
        return None
    if reply is None:
        reply, sent = session.insist(request), None
    else:
        session.find_out_when(reply)
    session.is_alive(reply.ends, reply.now, sent)
    return reply
