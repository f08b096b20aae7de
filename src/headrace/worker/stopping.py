"""How a pump ends: it stops taking, lets runs finish or stops them, and settles what has ended."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from headrace.errors import HeadraceError, SessionGone, StaleRequest
from headrace.worker.leases import Leases
from headrace.worker.outcomes import LOST, STOPPING
from headrace.worker.renewals import Renewals
from headrace.worker.reports import Reports
from headrace.worker.session import CutOff, Session
from headrace.worker.waiting import Waiting

log = logging.getLogger("headrace.worker")

STOPPED_MEANWHILE = "the worker stopped while this ran"
UNTIL_ALL_HAVE_ENDED = 3600.0
"""Seconds that runs have to end in a process that makes way for a fresh one."""


class Stopping:
    """`stop` and `abandon` may be called from any thread, and from signal handlers."""

    def __init__(
        self,
        session: Session,
        leases: Leases,
        reports: Reports,
        renewals: Renewals,
        waiter: Waiting,
        settle: Callable[[], None],
    ) -> None:
        self._session = session
        self._leases = leases
        self._reports = reports
        self._renewals = renewals
        self._waiter = waiter
        self._settle = settle
        """Exchanges what has ended, without raising but for a session that is gone."""
        self.at = math.inf
        """When what still runs is stopped, on the monotonic clock."""
        self.recycling = False
        """Whether the pump ends to make way for a fresh process."""

    def stop(self, grace: float = 0.0) -> None:
        """Stop taking; let what runs finish for so many seconds; give the rest back. A second call may shorten it."""
        self.at = min(self.at, time.monotonic() + grace)
        self._session.patient_until = min(self._session.patient_until, self.at)
        self._leases.stopping = True
        self._waiter.poke()

    def make_way(self, why: str) -> None:
        """Stop taking, let everything that runs finish, and leave the rest to a fresh process."""
        log.info("%s: making way for a fresh process", why, extra={"event": "process_makes_way"})
        self.recycling = True
        self.stop(UNTIL_ALL_HAVE_ENDED)

    def abandon(self) -> None:
        """The session is gone, or about to be: stop everything before another worker starts it."""
        if not self._session.gone:
            count = self._leases.in_hand
            log.error(
                "cut off from the store: stopping %d jobs before others may start them",
                count,
                extra={"event": "process_cut_off"},
            )
        self._session.gone = True
        self._leases.stop_all(LOST)  # from here: the pump may be waiting for the store
        self._waiter.poke()

    def go_on(self) -> bool:
        """Give back what has not started, wait for what has. False when there is nothing left to do."""
        leases = self._leases
        leases.release_waiting()
        if time.monotonic() >= self.at:
            leases.stop_all(STOPPING)
            if not self._wait_for_stopped():
                # Threads that don't stop keep their leases until their process is gone.
                self._leave_word()
                self._settle_rest()
                return False
        return bool(leases.running or leases.outcomes)

    def _wait_for_stopped(self) -> bool:
        """Coroutines and isolated jobs stop when they are made to: a moment for them to do so."""
        leases = self._leases
        end = time.monotonic() + 1.0
        while leases.running and time.monotonic() < end:
            if not any(run.executor.can_stop for run in tuple(leases.running)):
                break
            leases.asleep = True
            self._waiter.wait(0.05)
        leases.asleep = False
        return not leases.running

    def _leave_word(self) -> None:
        """Have histories tell of runs that nobody will report the end of. Nobody waits for a store that is away."""
        for run in tuple(self._leases.running):
            run.say(lines=[STOPPED_MEANWHILE])
        try:
            self._reports.send(once=True)
        except HeadraceError as error:
            log.warning("%s", error, extra={"event": "store_unavailable"})

    def _settle_rest(self) -> None:
        if self._reports.waiting:
            self._reports.send()
        while self._leases.outcomes:
            self._settle()

    def settle_late(self, until: float = math.inf) -> None:
        """After the pump's end: wait for threads that did not stop, and settle what they did after all.

        `until`: no longer than this, on the monotonic clock.
        """
        session, renewals = self._session, self._renewals
        session.parting = True
        while self._leases.running and not session.lost and time.monotonic() < until:
            if time.monotonic() - renewals.checked_at >= renewals.seconds:
                renewals.checked_at = time.monotonic()
                renewals.check()
            time.sleep(0.05)
        if not session.lost:
            self._settle_rest()

    def part(self, error: SessionGone | StaleRequest, settle_again: Callable[[], None]) -> None:
        """Settle what has ended, as soon as the store answers: as long as the session is not closed it counts.

        A request that was under way keeps its number, and takes nothing if the store has not heard of it before.
        """
        session = self._session
        session.gone = session.parting = True
        session.lost = not isinstance(error, CutOff)
        log.error(
            "the session is gone: stopping its %d jobs. %s",
            self._leases.in_hand,
            error,
            extra={"event": "session_lost"},
        )
        self._leases.stop_all(LOST)
        self._wait_for_stopped()
        try:
            settle_again()
            self._settle_rest()
        except (SessionGone, StaleRequest) as refusal:
            session.lost = session.lost or not isinstance(refusal, CutOff)
            log.warning(
                "what ended after that does not count: its jobs run again. %s", refusal, extra={"event": "lease_lost"}
            )
