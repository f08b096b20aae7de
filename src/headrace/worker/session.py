"""The pump's end of its session: numbered requests, repeated until the store answers, and how long it surely lives.

And what they ask for: from which queues jobs are taken, and how soon they can start.
"""

from __future__ import annotations

import itertools
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.errors import MaybeApplied, SessionGone, StoreUnavailable
from headrace.records import ExchangeReply, Lease, Outcome, Ref, Renewal, Take, Token
from headrace.store import Operation, Store
from headrace.values.durations import doubled
from headrace.values.glob import fits, is_glob
from headrace.worker.identity import resident_memory
from headrace.worker.ledger import Ledger

log = logging.getLogger("headrace.worker")

T = TypeVar("T")

MARGIN = 1_000
"""Jobs of a session that can't be renewed are stopped, and no more are started, this many milliseconds before others
may take them (or a quarter of the time-out, if that is less)."""


RENEW_AGAIN = 500
"""Milliseconds after which a renewal that failed is repeated."""
IDLE_SLACK = 4_000
"""A session that runs no job is renewed no later than this many milliseconds before others may take it for dead (but
three times within its time-out, if that is short): should it be cut off, nothing but its process has to start again."""
TELL_WITHIN = 30_000
"""Milliseconds after which a session is renewed in any case, as that tells how much memory its process takes."""


def renew_within(timeout: int, *, idle: bool) -> int:
    """How many milliseconds after its last renewal a session is to be renewed, by whichever thread or process does so.

    For an idle one it is a little more than two thirds of its time-out: by then its pump has most likely looked for
    work, or renewed it.

    >>> renew_within(15_000, idle=False), renew_within(15_000, idle=True), renew_within(2_000, idle=True)
    (5000, 11000, 666)
    """
    often = timeout // 3
    return max(often, min(timeout * 11 // 15, timeout - IDLE_SLACK)) if idle else often


LONGEST_GRACE = 1_000
"""Milliseconds that a worker which was late asks for, at most, to start jobs of lanes with a rate."""
DELAYS = 6
"""How many takes a worker goes by to tell how long it needs to start such jobs."""


class CutOff(SessionGone):
    """The session could not be renewed in time: other workers may have its jobs by now."""


class Session:
    """Used by the pump, or by the thread that waits in its stead; the flags are read by all."""

    def __init__(
        self,
        store: Store,
        session: str,
        timeout: int,
        asking: Asking,
        ledger: Ledger | None,
        steady: Callable[[], int],
    ) -> None:
        self.store = store
        self.asking = asking
        self.id = session
        self.timeout = timeout
        self.steady = steady
        self._ledger = ledger
        """None: there is no supervisor to read it."""
        self.number = 0
        """Of the last numbered request."""
        self.gone = False
        """The session is over, or may be: nothing is taken any more, and nothing started."""
        self.lost = False
        """The store has said so."""
        self.parting = False
        """What is left to do is to settle what has ended."""
        self.to_stop = False
        """An operator has asked the whole worker to stop: its supervisor does so, or its keeper."""
        self.patient_until = math.inf
        """Until when, on the monotonic clock, a pump that is cut off waits for the store to settle what has ended."""
        self.asked = 0
        """The earliest moment, on the steady clock, at which the store can have handed out the newest leases."""
        self.sure_until = 0
        """Until when no other worker can have the leases in hand."""
        self.unanswered: tuple[int, Sequence[Outcome]] | None = None
        """Number and outcomes of an exchange that has or has not reached the store."""
        self.renewed = 0
        """When the last request that renewed the session was sent, on the steady clock; or answered, if it is idle."""
        self._sent = 0
        """When the last request of all was."""

    def beat(self) -> None:
        """Show the supervisor that the pump goes on."""
        if self._ledger is not None:
            self._ledger.beat(self.steady())

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def exchange(
        self, outcomes: Sequence[Outcome], take: Take | None, started: Sequence[Ref] = ()
    ) -> Operation[ExchangeReply]:
        """The next exchange. It counts as unanswered from now on."""
        self.asked = self.steady()  # not when it is sent again: the first may have been heard
        self.unanswered = self.next_number(), outcomes
        return self.store.exchange(self.id, self.number, outcomes, take, steady=self.asked, started=started)

    def insist(self, operation: Operation[T]) -> T:
        """Send a request until it is answered. It has a number: the store knows a repeat."""
        for attempt in itertools.count():
            if self.gone and not self.parting:
                raise self.cut_off()
            self._sent = self.steady()
            try:
                return self.store.run(operation)
            except (StoreUnavailable, MaybeApplied) as error:
                if self.gone and not (self.parting and time.monotonic() < self.patient_until):
                    raise self.cut_off() from error
                pause = doubled(0.05, attempt, most=2.0) * random.uniform(0.5, 1.0)  # noqa: S311
                log.warning("%s Trying again in %.2g s.", error, pause, extra={"event": "store_unavailable"})
                self.beat()
                time.sleep(pause)
        raise AssertionError("unreachable")

    def renew(self, held: Sequence[tuple[Ref, Token, str]], *, complete: bool = False) -> Renewal:
        """Ask once which of these leases still count. `complete`: they are all that is held here."""
        self._sent = self.steady()
        number, memory = self.number if complete else None, resident_memory() or None
        renewal = self.store.run(self.store.renew(self.id, held, complete=number, memory=memory))
        self.is_alive(renewal.ends, renewal.now)
        if renewal.stop:
            self.to_stop = True
            if self._ledger is not None:
                self._ledger.ask_to_stop()
        return renewal

    def is_alive(self, ends: int | None, now: int, sent: int | None = None, *, idle: bool = False) -> None:
        """The store has answered what it answers to a live session only: it lives on from when it was asked.

        Or from now on, if it is `idle`, and so has nothing that others could take: what it will have it asks for later.
        """
        sent = self._sent if sent is None else sent
        lasts = self.timeout if ends is None else min(self.timeout, ends - now)
        self.sure_until = sent + lasts - min(MARGIN, lasts // 4)
        if not self.store.leases_in_jobs:  # what keeps single jobs keeps no session
            self.renewed = self.steady() if idle else sent
            if self._ledger is not None:
                self._ledger.renewed(self.renewed)

    def still_ours(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """The leases that still count, if the answer took so long that they may have run out meanwhile."""
        if self.steady() <= self.sure_until:
            return leases
        renewal = self.insist(self.store.renew(self.id, [(lease.ref, lease.token, lease.id) for lease in leases]))
        self.is_alive(renewal.ends, renewal.now)
        for lease in leases:
            lease.token = renewal.tokens.get(lease.id, lease.token)
        return [lease for lease in leases if lease.id not in renewal.lost]

    def find_out_when(self, reply: ExchangeReply) -> None:
        """Leases of a rate that were waited for were handed out some time after the request, by the store's clock."""
        held = [(lease.ref, lease.token, lease.id) for lease in reply.leases if lease.extras.start_within is not None]
        if held:
            renewal = self.insist(self.store.renew(self.id, held))
            self.asked = self._sent - (renewal.now - reply.now)

    def cut_off(self) -> CutOff:
        return CutOff(f"Session {self.id} could not be renewed in time.")


class Asking:
    """From which queues to take, in which order; and how much time it may take here to start a job."""

    def __init__(self, queues: Sequence[str], *, round_robin: bool) -> None:
        self._queues = tuple(queues)
        self._named = frozenset(() if any(map(is_glob, queues)) else queues)
        """The queues, if they are named one by one: there may be thousands."""
        self._round_robin = round_robin
        self._delays: deque[tuple[int, int]] = deque(maxlen=DELAYS)
        """Of the last takes from lanes with a rate: when they were asked for, and how many milliseconds after that the
        last of their jobs started, or would have."""
        self._learning = threading.Lock()
        self._grace = 0
        """How long it may take here from asking for a job to its start, in milliseconds. 0: no longer than usual."""

    def take(self, slots: int, spare: int, above: int | None = None) -> Take:
        return Take(self._queues, slots, spare, self._round_robin, self._grace, above)

    def served(self, last: Lease) -> None:
        """With round robin, the next batch begins with the queue after the one that was served last."""
        if not self._round_robin:
            return
        if last.queue in self._named:
            place = self._queues.index(last.queue) + 1
        else:
            place = next((i for i, name in enumerate(self._queues) if fits(name, last.queue)), -1) + 1
        self._queues = self._queues[place:] + self._queues[:place]

    def started(self, asked: int, outcome: Outcome) -> None:
        """A job of a lane with a rate was in time, or not: ask for the time that it usually takes here, and some more.

        Called by executors, in any thread. The rate loses twice the time that is asked for, a job that comes late no
        more than its delay: one late take among several in time is no reason to ask for more.
        """
        moment = outcome.ended if outcome.began is None else outcome.began
        delay = (moment or 0) - asked
        with self._learning:
            if self._delays and self._delays[-1][0] == asked:
                delay = max(delay, self._delays.pop()[1])
            self._delays.append((asked, delay))
            known = sorted(delay for _, delay in self._delays)
        self._grace = min(3 * known[len(known) // 2 - 1] // 2, LONGEST_GRACE) if len(known) > 1 else 0
